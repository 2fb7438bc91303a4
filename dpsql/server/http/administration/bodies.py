"""What requests and replies of owners and auditors are made of.

Nothing that a reply is made of has a password, its hash or verifier; the secret of a token is in
the reply to its creation alone.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, SecretStr

from dpsql.agents.replies import ReplyPart
from dpsql.server.http.bodies import MOST_WHY

MOST_POLICIES: Final = 600_000
"""The longest text of policies, in characters."""
MOST_PAGE: Final = 500
"""The most lines or entries of a reply."""
MOST_DAYS: Final = 3_650
MOST_NUMBER: Final = 2**53
"""The highest number of an entry or a line."""

RoleName = Literal["analyst", "owner", "auditor"]
ScopeName = Literal["explain", "ask", "views", "agent"]
Roles = Annotated[list[RoleName], Field(max_length=3)]
UserName = Annotated[str, Field(min_length=1, max_length=100)]
OneAccount = Annotated[str, Field(min_length=1, max_length=200)]
AccountNames = Annotated[list[OneAccount], Field(max_length=100)]
AccountPath = Annotated[
    str, Field(min_length=1, max_length=600, description="From the dataset down: sales/ana.")
]
PoliciesText = Annotated[
    str, Field(max_length=MOST_POLICIES, description="A policies file, as it would be written.")
]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]


# -- users ----------------------------------------------------------------------------------------


class UserRequest(ReplyPart):
    """A user, by name."""

    user: UserName


class ScopeRequest(UserRequest):
    """The roles and accounts of a user; the first account is the usual one."""

    roles: Roles
    accounts: AccountNames = Field(default_factory=list)


class PasswordRequest(UserRequest):
    """A password for a user."""

    password: SecretStr


class AddUserRequest(ScopeRequest):
    """A user to enrol."""

    password: SecretStr


class TokenRequest(UserRequest):
    """A token of a user, by its name."""

    token: UserName


class IssueTokenRequest(TokenRequest):
    """A token to create: of all roles and accounts of its user, or of some of them.

    Without ``scopes`` it may do all that analysts do.
    """

    roles: Roles | None = None
    accounts: AccountNames | None = None
    scopes: Annotated[list[ScopeName], Field(max_length=4)] | None = None
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 90


class UserFacts(ReplyPart):
    """A user."""

    name: str
    roles: list[RoleName]
    accounts: list[str]
    disabled: bool
    created: str
    changed: str


class TokenFacts(ReplyPart):
    """A token, without its secret."""

    user: str
    token: str
    roles: list[RoleName]
    accounts: list[str]
    scopes: list[ScopeName]
    valid: bool
    created: str
    expires: str | None
    last_used: str | None


class UsersReply(ReplyPart):
    """All users and their tokens."""

    users: list[UserFacts]
    tokens: list[TokenFacts]


class IssuedTokenReply(ReplyPart):
    """A token that was created. Its secret is shown this once."""

    token: TokenFacts
    secret: str


# -- accounts -------------------------------------------------------------------------------------


class AccountRequest(ReplyPart):
    """An account, by its path."""

    account: AccountPath


class RenameRequest(AccountRequest):
    """Another path of an account: only its last part may differ."""

    name: AccountPath


class LimitRequest(AccountRequest):
    """A limit on what an account may spend in a window, in addition to the policies.

    Without epsilon and delta, the limit is lifted.
    """

    epsilon: _Positive | None = None
    delta: _Positive | None = None
    composition: Literal["zcdp", "basic", "gdp"] = "zcdp"


class RenewalRequest(AccountRequest):
    """How often a new window begins, by the calendar in UTC."""

    every: Literal["day", "month", "never"]


class ForgetRequest(AccountRequest):
    """Stored answers to delete: all, or those given before a time (ISO 8601, UTC if it names no
    zone)."""

    before: Annotated[str, Field(max_length=40)] | None = None


class AccountsReply(ReplyPart):
    """Where accounts stand, as `dpsql budget show --all` tells, and the ledger's head."""

    accounts: list[dict[str, JsonValue]]
    head: str


class DoneReply(ReplyPart):
    """An action that was done, and the ledger's head after it."""

    done: Literal[True] = True
    head: str


class ForgottenReply(DoneReply):
    """How many stored answers were deleted."""

    deleted: int


# -- requests for more budget ---------------------------------------------------------------------


class DecisionRequest(ReplyPart):
    """A decision on a request for more budget, and what its user is told about it."""

    number: Annotated[int, Field(ge=1, le=MOST_NUMBER)]
    note: Annotated[str, Field(max_length=MOST_WHY)] = ""


# -- policies -------------------------------------------------------------------------------------


class PoliciesRequest(ReplyPart):
    """Policies to look at."""

    policies: PoliciesText


class ApplyPoliciesRequest(PoliciesRequest):
    """Policies to serve from now on, in the place of those with this digest."""

    replaces: Digest


class ServedPoliciesReply(ReplyPart):
    """The policies of a server; ``changed_in_place`` tells whether the file differs from them."""

    dataset: str
    edition: str
    digest: str
    changed_in_place: bool


class FindingFacts(ReplyPart):
    """A finding: an error makes a query impossible, a warning asks for a look."""

    level: Literal["error", "warning"]
    subject: str
    message: str
    hint: str


class ChangeFacts(ReplyPart):
    """A setting that would be another one; null where there is none."""

    where: str
    before: str | None
    after: str | None


class PolicyReviewReply(ReplyPart):
    """The review of policies, made without reading rows: fit, findings and changes."""

    fits: bool
    findings: list[FindingFacts]
    changes: list[ChangeFacts]


class PolicyChangesReply(ReplyPart):
    """What policies would change."""

    changes: list[ChangeFacts]


class AppliedPoliciesReply(ReplyPart):
    """The policies that are served now."""

    digest: str
    edition: str


# -- records --------------------------------------------------------------------------------------


class LedgerReply(ReplyPart):
    """Entries of the ledger, the latest first, without what was released."""

    head: str
    entries: list[dict[str, JsonValue]]


class VerificationReply(ReplyPart):
    """Whether the ledger's chain, sums and rules hold; else what is wrong first, and where."""

    sound: bool
    events: int
    head: str | None
    broken: str | None
    place: int | None


class AuditedLine(ReplyPart):
    """A line of the audit log."""

    number: int
    line: dict[str, JsonValue]


class AuditReply(ReplyPart):
    """Lines of the audit log, whose chain holds from the first line to its ``head``."""

    lines: int
    head: str
    found: list[AuditedLine]
