"""Policies that owners look at, compare and apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from dpsql.owner.policy_changes import PolicyChange
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import (
    AppliedPoliciesReply,
    ApplyPoliciesRequest,
    ChangeFacts,
    FindingFacts,
    PoliciesRequest,
    PolicyChangesReply,
    PolicyReviewReply,
    ServedPoliciesReply,
)


def served_policies(desk: Desk, act: Act) -> ServedPoliciesReply:
    """Tell which policies are served."""
    policy = desk.guard.dataset.policy
    return ServedPoliciesReply(
        dataset=policy.dataset,
        edition=policy.edition,
        digest=desk.editions.served,
        changed_in_place=desk.editions.changed_in_place,
    )


def check_policies(desk: Desk, act: Act) -> PolicyReviewReply:
    """Compare policies with the database, the ledger and what is served."""
    found = desk.editions.review(act.taken(PoliciesRequest).policies)
    return PolicyReviewReply(
        fits=found.fits,
        findings=[FindingFacts(**asdict(each)) for each in found.findings],
        changes=_changes(found.changes),
    )


def diff_policies(desk: Desk, act: Act) -> PolicyChangesReply:
    """Compare policies with those that are served."""
    text = act.taken(PoliciesRequest).policies
    return PolicyChangesReply(changes=_changes(desk.editions.changes(text)))


def apply_policies(desk: Desk, act: Act) -> AppliedPoliciesReply:
    """Write policies to the file, and serve them."""
    given = act.taken(ApplyPoliciesRequest)
    digest, edition = desk.editions.apply(given.policies, given.replaces)
    return AppliedPoliciesReply(digest=digest, edition=edition)


def _changes(changes: Iterable[PolicyChange]) -> list[ChangeFacts]:
    return [ChangeFacts(**asdict(each)) for each in changes]
