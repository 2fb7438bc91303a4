"""The routes of owners and auditors as data, each with the function that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from dpsql.agents.replies import ReplyPart
from dpsql.server.desk import Desk
from dpsql.server.http.administration import (
    accounts,
    bodies,
    policies,
    records,
    requests,
    users,
)
from dpsql.server.http.administration.act import Act
from dpsql.server.http.bodies import ApprovedRequest, BudgetRequestFacts, BudgetRequestsReply
from dpsql.server.http.operation import Operation
from dpsql.server.people.records import Role

OWNERS: Final = frozenset({Role.OWNER})
AUDITORS: Final = frozenset({Role.AUDITOR})
WATCHERS: Final = OWNERS | AUDITORS
Doing = Callable[[Desk, Act], ReplyPart]


def _reads(
    name: str,
    path: str,
    summary: str,
    gives: type[ReplyPart],
    roles: frozenset[Role],
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> Operation:
    return Operation(name, "GET", path, summary, gives, None, roles, numbers)


def _acts(
    name: str, path: str, summary: str, takes: type[ReplyPart], gives: type[ReplyPart]
) -> Operation:
    return Operation(name, "POST", path, summary, gives, takes, OWNERS)


_TABLE: Final[tuple[tuple[Operation, Doing], ...]] = (
    (
        _reads("users", "/v1/users", "List users and tokens.", bodies.UsersReply, WATCHERS),
        users.list_users,
    ),
    (
        _acts("add_user", "/v1/users", "Enrol a user.", bodies.AddUserRequest, bodies.UserFacts),
        users.add_user,
    ),
    (
        _acts(
            "set_password",
            "/v1/users/password",
            "Give a user another password.",
            bodies.PasswordRequest,
            bodies.UserFacts,
        ),
        users.set_password,
    ),
    (
        _acts(
            "assign_scope",
            "/v1/users/scope",
            "Give a user other roles and accounts.",
            bodies.ScopeRequest,
            bodies.UserFacts,
        ),
        users.assign_scope,
    ),
    (
        _acts(
            "disable_user",
            "/v1/users/disable",
            "Refuse a user's logins.",
            bodies.UserRequest,
            bodies.UserFacts,
        ),
        users.disable_user,
    ),
    (
        _acts(
            "enable_user",
            "/v1/users/enable",
            "Let a user log in again.",
            bodies.UserRequest,
            bodies.UserFacts,
        ),
        users.enable_user,
    ),
    (
        _acts(
            "issue_token",
            "/v1/tokens",
            "Create a token. Its secret is shown once.",
            bodies.IssueTokenRequest,
            bodies.IssuedTokenReply,
        ),
        users.issue_token,
    ),
    (
        _acts(
            "revoke_token",
            "/v1/tokens/revoke",
            "Revoke a token for good.",
            bodies.TokenRequest,
            bodies.TokenFacts,
        ),
        users.revoke_token,
    ),
    (
        _reads(
            "accounts",
            "/v1/accounts",
            "Tell where all accounts stand.",
            bodies.AccountsReply,
            WATCHERS,
        ),
        accounts.list_accounts,
    ),
    (
        _acts(
            "create_account",
            "/v1/accounts",
            "Create an account.",
            bodies.AccountRequest,
            bodies.DoneReply,
        ),
        accounts.create_account,
    ),
    (
        _acts(
            "rename_account",
            "/v1/accounts/rename",
            "Give an account another name. Its old one is closed for ever.",
            bodies.RenameRequest,
            bodies.DoneReply,
        ),
        accounts.rename_account,
    ),
    (
        _acts(
            "limit_account",
            "/v1/accounts/limit",
            "Limit what an account may spend in a window, or lift that limit.",
            bodies.LimitRequest,
            bodies.DoneReply,
        ),
        accounts.limit_spending,
    ),
    (
        _acts(
            "renew_account",
            "/v1/accounts/renewal",
            "Have windows of an account begin every day or month, or never.",
            bodies.RenewalRequest,
            bodies.DoneReply,
        ),
        accounts.renew_account,
    ),
    (
        _acts(
            "open_window",
            "/v1/accounts/window",
            "Open a new window of an account: what was spent counts against no limit any more.",
            bodies.AccountRequest,
            bodies.DoneReply,
        ),
        accounts.begin_window,
    ),
    (
        _acts(
            "suspend_account",
            "/v1/accounts/suspend",
            "Have an account, and those below it, answer no new question.",
            bodies.AccountRequest,
            bodies.DoneReply,
        ),
        accounts.suspend_account,
    ),
    (
        _acts(
            "reopen_account",
            "/v1/accounts/reopen",
            "Let a suspended account ask again.",
            bodies.AccountRequest,
            bodies.DoneReply,
        ),
        accounts.reopen_account,
    ),
    (
        _acts(
            "forget_answers",
            "/v1/accounts/forget",
            "Delete stored answers of an account, and end its materialized views.",
            bodies.ForgetRequest,
            bodies.ForgottenReply,
        ),
        accounts.forget_answers,
    ),
    (
        _reads(
            "budget_requests",
            "/v1/requests",
            "List the requests for more budget, those first that wait for a decision.",
            BudgetRequestsReply,
            OWNERS,
            {"limit": bodies.MOST_PAGE},
        ),
        requests.list_requests,
    ),
    (
        _acts(
            "approve_request",
            "/v1/requests/approve",
            "Raise the limit of an account to what a request asks for.",
            bodies.DecisionRequest,
            ApprovedRequest,
        ),
        requests.approve_request,
    ),
    (
        _acts(
            "refuse_request",
            "/v1/requests/refuse",
            "Refuse a request for more budget.",
            bodies.DecisionRequest,
            BudgetRequestFacts,
        ),
        requests.refuse_request,
    ),
    (
        _reads(
            "policies",
            "/v1/policies",
            "Tell which policies are served.",
            bodies.ServedPoliciesReply,
            WATCHERS,
        ),
        policies.served_policies,
    ),
    (
        _acts(
            "check_policies",
            "/v1/policies/check",
            "Check policies against the database and the ledger. Reads no rows.",
            bodies.PoliciesRequest,
            bodies.PolicyReviewReply,
        ),
        policies.check_policies,
    ),
    (
        _acts(
            "diff_policies",
            "/v1/policies/diff",
            "Compare policies with those that are served.",
            bodies.PoliciesRequest,
            bodies.PolicyChangesReply,
        ),
        policies.diff_policies,
    ),
    (
        _acts(
            "apply_policies",
            "/v1/policies",
            "Write policies to the file and serve them, if they fit.",
            bodies.ApplyPoliciesRequest,
            bodies.AppliedPoliciesReply,
        ),
        policies.apply_policies,
    ),
    (
        _reads(
            "ledger",
            "/v1/ledger",
            "List entries of the ledger, the latest first.",
            bodies.LedgerReply,
            AUDITORS,
            {"limit": bodies.MOST_PAGE, "before": bodies.MOST_NUMBER},
        ),
        records.ledger_entries,
    ),
    (
        _reads(
            "verify_ledger",
            "/v1/ledger/verification",
            "Recompute the ledger's chain, sums and rules.",
            bodies.VerificationReply,
            AUDITORS,
        ),
        records.verify_ledger,
    ),
    (
        _reads(
            "audit",
            "/v1/audit",
            "Check the audit log, and list the latest lines or those from a number on.",
            bodies.AuditReply,
            AUDITORS,
            {"limit": bodies.MOST_PAGE, "first": bodies.MOST_NUMBER},
        ),
        records.audit_lines,
    ),
)
ADMINISTRATION: Final = tuple(operation for operation, _ in _TABLE)
DOING: Final[Mapping[str, Doing]] = MappingProxyType(
    {operation.name: doing for operation, doing in _TABLE}
)
