"""One action of an owner or an auditor: who asks for what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import SecretStr

from dpsql.agents.replies import ReplyPart
from dpsql.server.http.administration.bodies import PoliciesRequest
from dpsql.server.people.records import Login

_Taken = TypeVar("_Taken", bound=ReplyPart)


@dataclass(frozen=True, slots=True)
class Act:
    """What is asked for: the name of the operation, its body, and the numbers of its address."""

    operation: str
    login: Login
    address: str
    body: ReplyPart | None
    numbers: Mapping[str, int]

    def taken(self, kind: type[_Taken]) -> _Taken:
        """Return the body, which is of this kind."""
        assert isinstance(self.body, kind), "the table of operations says what is taken"
        return self.body

    def who(self) -> dict[str, object]:
        """Return who acts, for the audit log."""
        return {
            "user": self.login.user,
            "token": self.login.token,
            "address": self.address,
            "operation": self.operation,
        }

    def asked(self) -> dict[str, object]:
        """Return what is asked for, for the audit log.

        Without passwords, and of policies the hash alone: they may name a ledger by its password.
        """
        body = {} if self.body is None else dict(self.body)
        found: dict[str, object] = {**self.numbers}
        for name, each in body.items():
            if isinstance(self.body, PoliciesRequest) and name == "policies":
                found["sha256"] = hashlib.sha256(each.encode("utf-8", "replace")).hexdigest()
            elif not isinstance(each, SecretStr):
                found[name] = each
        return found
