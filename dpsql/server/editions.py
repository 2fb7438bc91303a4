"""Opens the editions of a dataset one after another, also from policies that come by HTTP.

An edition is served once database and policies fit; what does not fit is refused, and the one
before goes on. Policies that come over the network are written to the policies file whole or not
at all, and only where nobody has changed that file meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dpsql.errors import Error, InterfaceError, OperationalError
from dpsql.owner.conformance import Finding, check_ledger
from dpsql.owner.policy_changes import PolicyChange, policy_changes, require_same_protection
from dpsql.policy.load import parse_policy, policy_beside
from dpsql.policy.model import Policy
from dpsql.server.audit import AuditLog
from dpsql.server.guard import Guard
from dpsql.server.tally import Tally
from dpsql.service.opening import open_dataset, policy_findings
from dpsql.service.session import Dataset


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where a dataset is opened from: database, policies file and ledger."""

    database: str | Path
    policies: Path
    ledger: str

    def opened(self, policies: Path | None = None) -> Dataset:
        """Open it, with another policies file if one is given. Raises a ``dpsql.Error``."""
        return open_dataset(self.database, policies or self.policies, self.ledger)

    def digest(self) -> str:
        """Return the SHA-256 of the policies file; empty where it cannot be read."""
        try:
            return hashlib.sha256(self.policies.read_bytes()).hexdigest()
        except OSError:
            return ""


@dataclass(frozen=True, slots=True)
class PolicyReview:
    """The review of a policy: findings, and changes from the served policy."""

    findings: tuple[Finding, ...]
    changes: tuple[PolicyChange, ...]

    @property
    def fits(self) -> bool:
        """True if it could be served."""
        return not any(finding.level == "error" for finding in self.findings)


class Editions:
    """Opens editions and has a guard serve them. Safe for threads: one is opened at a time.

    ``served``: the digest of the policies file that is served at present.
    """

    def __init__(
        self, source: DataSource, served: str, guard: Guard, audit: AuditLog, tally: Tally
    ) -> None:
        self._source = source
        self.served = served
        self._guard = guard
        self._audit = audit
        self._tally = tally
        self._lock = threading.Lock()

    @property
    def changed_in_place(self) -> bool:
        """True if the policies file is not the one that is served."""
        return self._source.digest() != self.served

    def reopen(self) -> str:
        """Serve what the files hold now; returns the edition's name. Raises a ``dpsql.Error``."""
        with self._lock:
            digest = self._source.digest()
            try:
                dataset = self._source.opened()
                self._served(dataset)
            except Error as error:
                self._refused(error)
                raise
            self.served = digest
            self._tally.count("reopenings", "ok")
            return dataset.policy.edition

    def review(self, text: str) -> PolicyReview:
        """Compare policies with names and types of the database, the ledger and what is served.

        Reads no rows: what it finds could be asked for about each row otherwise. Raises
        ``PolicyError`` for a text that is no policy, with all that is wrong by line.
        """
        policy, dataset = self._draft(text), self._guard.dataset
        findings = policy_findings(self._source.database, policy)
        assert dataset.ledger is not None, "a server has a ledger"
        findings += check_ledger(policy, dataset.ledger)
        return PolicyReview(tuple(findings), policy_changes(dataset.policy, policy))

    def changes(self, text: str) -> tuple[PolicyChange, ...]:
        """Compare policies with those that are served. Raises ``PolicyError`` as ``review``."""
        return policy_changes(self._guard.dataset.policy, self._draft(text))

    def apply(self, text: str, replaces: str) -> tuple[str, str]:
        """Write policies to the file and serve them; returns digest and name of the edition.

        ``replaces``: the digest of the policies that they are to follow. Raises ``InterfaceError``
        (``policies_changed``) where others are served by now, or stand in the file, and a
        ``dpsql.Error`` for what does not fit; the file is as it was then.
        """
        with self._lock:
            if replaces != self.served or self.changed_in_place:
                raise InterfaceError(
                    "the policies are not those any more that these were to follow",
                    code="policies_changed",
                    hint="Look at what is served and at the file, and apply these again.",
                )
            policy = self._draft(text)
            require_same_protection(self._guard.dataset.policy, policy)
            data = text.encode("utf-8")
            try:
                edition = self._written_and_served(data)
            except Error as error:
                self._refused(error)
                raise
            self.served = hashlib.sha256(data).hexdigest()
            self._tally.count("reopenings", "ok")
            return self.served, edition

    def _draft(self, text: str) -> Policy:
        policy = policy_beside(parse_policy(text), os.fspath(self._source.policies))
        if policy.edition:
            return policy
        return replace(policy, edition=self._guard.dataset.policy.edition)

    def _written_and_served(self, data: bytes) -> str:
        path = self._source.policies.resolve()
        before = _read(path)
        draft = _written_beside(path, data)
        try:
            dataset = self._source.opened(draft)
            _put(draft, path, dataset)
        finally:
            draft.unlink(missing_ok=True)
        try:
            self._served(dataset)
        except Error:
            old = _written_beside(path, before)
            os.replace(old, path)
            raise
        return dataset.policy.edition

    def _served(self, dataset: Dataset) -> None:
        try:
            self._guard.serve(dataset)
        except Error:
            dataset.close()
            raise

    def _refused(self, error: Error) -> None:
        self._tally.count("reopenings", "refused")
        with suppress(OperationalError):
            self._audit.write("edition_refused", code=error.code)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _not_written(error) from None


def _written_beside(path: Path, data: bytes) -> Path:
    """Write a file beside another, durably and with its rights."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        file, name = tempfile.mkstemp(prefix=".policies-", suffix=".yaml", dir=path.parent)
        try:
            with os.fdopen(file, "wb") as written:
                written.write(data)
                written.flush()
                os.fchmod(written.fileno(), mode)
                os.fsync(written.fileno())
        except OSError:
            os.unlink(name)
            raise
    except OSError as error:
        raise _not_written(error) from None
    return Path(name)


def _put(draft: Path, path: Path, dataset: Dataset) -> None:
    """Replace a file by a draft; close the dataset of the draft if that fails."""
    try:
        os.replace(draft, path)
    except OSError as error:
        dataset.close()
        raise _not_written(error) from None


def _not_written(error: OSError) -> OperationalError:
    return OperationalError(
        f"the policies file cannot be written: {(error.strerror or '').lower()}",
        code="policies_not_written",
        hint="The server's user has to be able to write the file and its directory.",
    )
