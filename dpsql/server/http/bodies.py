"""What requests and replies are made of. The routes parse with these, and OpenAPI shows them.

Values in replies have the forms of :mod:`dpsql.agents.values`. Nothing is taken that is not named
here, and no value of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from dpsql.agents.replies import (
    AnswerField,
    ColumnFacts,
    EditionFacts,
    Ends,
    ExpectedError,
    PaidCost,
    ReplyPart,
    RoomFor,
    ToolTable,
    Warned,
)
from dpsql.errors import ParameterError

MOST_SQL: Final = 65_536
"""The longest statement, in characters."""
MOST_VALUES: Final = 3_000
MOST_HISTORY: Final = 200
MOST_WHY: Final = 500
"""The longest reason of a request for more budget, in characters."""
MOST_EPSILON: Final = 1_000_000.0
_READERS: Final = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
}

_Number = Annotated[float, Field(allow_inf_nan=False)]
SqlField = Annotated[str, Field(min_length=1, max_length=MOST_SQL, description="A statement.")]
QueryId = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="A name to cancel the query by.")
]


class TextValue(ReplyPart):
    """A value that JSON has no type for, as its text: ISO 8601, or the digits of a decimal."""

    type: Literal["date", "timestamp", "time", "decimal"]
    value: Annotated[str, Field(max_length=100)]

    def read(self) -> object:
        """Read the value. Raises ``ParameterError``."""
        try:
            return _READERS[self.type](self.value)
        except (ValueError, InvalidOperation):
            raise ParameterError(
                f"a value is no {self.type}",
                code="bad_value",
                hint="Write dates and times as ISO 8601 does, decimals as their digits.",
            ) from None


_Value = bool | int | _Number | str | TextValue | None
ParameterValues = (
    Annotated[list[_Value], Field(max_length=MOST_VALUES)]
    | Annotated[dict[str, _Value], Field(max_length=MOST_VALUES)]
)
Options = Annotated[
    dict[str, bool | int | _Number | str | None],
    Field(max_length=40, description="Privacy parameters of this statement, such as epsilon."),
]


class SessionSettings(ReplyPart):
    """The settings of a session that goes over several requests; who asks keeps them.

    ``parameters`` are those that it was opened with, ``set`` what SET has set since.
    """

    parameters: Options = Field(default_factory=dict)
    set: Options = Field(default_factory=dict)


class DescribeRequest(ReplyPart):
    """A statement to describe; without values they are not known yet."""

    sql: SqlField
    parameters: ParameterValues | None = None


class ExplainRequest(ReplyPart):
    """A question to price: values of its query parameters, and privacy parameters.

    ``options`` hold for this question, those of ``session`` where it has none.
    """

    sql: SqlField
    parameters: ParameterValues = Field(default_factory=list)
    options: Options = Field(default_factory=dict)
    mechanism: str | None = None
    session: SessionSettings | None = None


class QueryRequest(ExplainRequest):
    """A statement to answer.

    ``fresh`` pays for new noise. It is ended after ``seconds``, or by its ``id``. SET and RESET
    need a ``session``: who asks adds to it what they have set.
    """

    fresh: bool = False
    seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = None
    id: QueryId | None = None


class QueryReply(ReplyPart):
    """An answer: rows, their meaning and their cost.

    ``reading`` says in sentences how close the values are and what is left out. ``mechanisms`` are
    empty where nothing was taken from private rows. ``release_id`` names the question in the ledger
    and the audit log; the same question has the same.
    """

    columns: list[AnswerField]
    rows: list[list[JsonValue]]
    intervals: list[Ends]
    reading: str
    warnings: list[Warned]
    mechanisms: list[str]
    cost: PaidCost
    release_id: str | None
    edition: EditionFacts


class ExplainReply(ReplyPart):
    """The price of a question, before it is asked, and how close its answer would be.

    ``free`` says that it costs nothing, ``why`` for which reason. ``share_of_left`` is the part
    that it takes of what is left, ``text`` the whole explanation.
    """

    price_epsilon: float
    free: bool
    why: str
    share_of_left: float | None
    errors: list[ExpectedError]
    keys: list[str]
    bounds: list[str]
    text: str


class StatementColumn(ReplyPart):
    """A column of an answer, or a query parameter, whose type is empty until it has a value."""

    name: str
    type: str


class DescribeReply(ReplyPart):
    """The columns that an answer would have, and the query parameters of its statement."""

    columns: list[StatementColumn]
    parameters: list[StatementColumn]


class TablesReply(ReplyPart):
    """The tables that may be asked about."""

    dataset: str
    tables: list[ToolTable]


class TableReply(ReplyPart):
    """A table with its columns."""

    table: ToolTable
    columns: list[ColumnFacts]


class BudgetReply(ReplyPart):
    """The account that pays: limit, spending, rest, and room for more questions.

    ``unsettled`` questions run or have failed, and hold all that they reserved.
    """

    account: str
    composition: str
    epsilon_limit: float | None
    epsilon_spent: float
    epsilon_left: float | None
    questions: int
    unsettled: int
    suspended: bool
    room: list[RoomFor]


class MoreBudgetRequest(ReplyPart):
    """A request that the account may spend up to ``epsilon`` in a window, and why."""

    epsilon: Annotated[float, Field(gt=0, le=MOST_EPSILON, allow_inf_nan=False)]
    why: Annotated[str, Field(min_length=1, max_length=MOST_WHY)]


class BudgetRequestFacts(ReplyPart):
    """A request for more budget; ``note`` is what the owner who decided says about it."""

    number: int
    user: str
    account: str
    epsilon: float
    why: str
    asked: str
    state: Literal["open", "approved", "refused"]
    owner: str | None
    note: str
    decided: str | None


class ApprovedRequest(BudgetRequestFacts):
    """An approved request; not ``raised`` where the account may spend as much without it."""

    raised: bool


class BudgetRequestsReply(ReplyPart):
    """Requests for more budget."""

    requests: list[BudgetRequestFacts]


class PaidQuestion(ReplyPart):
    """A question that was paid for. Asked again it is free, if it is ``stored``."""

    sql: str
    values: list[str]
    asked: str
    stored: bool


class HistoryReply(ReplyPart):
    """Questions that were paid for, the latest first."""

    questions: list[PaidQuestion]


class ViewsReply(ReplyPart):
    """The materialized views, as ``SHOW MATERIALIZED VIEWS`` lists them."""

    views: list[dict[str, JsonValue]]


class HealthReply(ReplyPart):
    """No more than that the server is there."""

    status: Literal["ok"]


class ProblemReply(ReplyPart):
    """An error (RFC 9457). ``code`` is that of dpsql, ``kind`` the class of the error.

    ``line`` and ``column`` are the place in the statement. ``remaining`` and ``requested`` are
    there where the budget is too small, ``id`` where the log has more.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    kind: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    remaining: list[float] | None = None
    requested: list[float] | None = None
    id: str | None = None


def read_values(given: ParameterValues) -> list[object] | Mapping[str, object]:
    """Return values as statements take them. Raises ``ParameterError`` for one that is none."""
    if isinstance(given, dict):
        return {name: _read(value) for name, value in given.items()}
    return [_read(value) for value in given]


def _read(value: _Value) -> object:
    return value.read() if isinstance(value, TextValue) else value
