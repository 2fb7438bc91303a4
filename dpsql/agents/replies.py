"""The schemas of replies: an answer or a refusal, in one form for each tool.

Clients check refusals against a tool's output schema, too: so a reply always has both parts, one of
them null. Values of cells have the forms of :mod:`dpsql.agents.values`.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue


class ReplyPart(BaseModel):
    """A part of a reply or of a call: nothing beside its fields, and nothing of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Proposal(ReplyPart):
    """What would be accepted, to be asked with the same tool. It was explained, and not asked."""

    sql: str
    epsilon: float | None = None
    max_error: float | None = None
    price_epsilon: float | None = None


class Refusal(ReplyPart):
    """The refusal or failure of a call: reason, place in the text, remedy and cost.

    ``price_epsilon`` is what the question would cost at most, where the price is why it was
    refused. ``epsilon_paid`` is 0 unless the question had begun to read, or was paid for and could
    not be shown.
    """

    code: str
    reason: str
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None
    hint: str | None = None
    accepted: Proposal | None = None
    price_epsilon: float | None = None
    epsilon_paid: float = 0.0


class ToolTable(ReplyPart):
    """A table that may be asked about."""

    name: str
    access: str
    privacy_unit: str | None
    rows_per_unit: int | None
    defaults: str | None


class TableList(ReplyPart):
    """The tables, and what every question must respect."""

    dataset: str
    tables: list[ToolTable]
    how: str


class ColumnFacts(ReplyPart):
    """A column of a table, with what the owner declared of it."""

    name: str
    type: str
    role: str
    lower: float | None
    upper: float | None
    domain: str | None


class TableFacts(ReplyPart):
    """A table with its columns."""

    table: ToolTable
    columns: list[ColumnFacts]
    how: str


class ExpectedError(ReplyPart):
    """An aggregate with half the width of its 95% interval, where it is known beforehand."""

    aggregate: str
    margin: float | None
    groups_from_units: float | None


class QuestionPrice(ReplyPart):
    """What a question would cost at most, and how close its answer would be.

    ``free`` says that it would cost nothing, ``why`` for which reason. ``share_of_left`` is the
    part that it takes of what is left.
    """

    price_epsilon: float
    free: bool
    why: str
    share_of_left: float | None
    allowed: bool
    errors: list[ExpectedError]
    keys: list[str]
    bounds: list[str]


class AnswerField(ReplyPart):
    """A column of an answer; a noisy one has intervals."""

    name: str
    type: str
    noisy: bool


class Ends(ReplyPart):
    """The 95% intervals of a noisy column, a low and a high end for each row shown."""

    column: str
    low: list[JsonValue]
    high: list[JsonValue]


class Warned(ReplyPart):
    """A warning that must be passed on with the numbers.

    Who knows only the numbers misreads them without a ``strong`` one.
    """

    kind: str
    text: str
    strong: bool


class PaidCost(ReplyPart):
    """The cost of a question, and the rest of the run's budget."""

    epsilon_paid: float
    epsilon_reserved: float
    free: bool
    answered: str | None
    epsilon_left: float | None


class EditionFacts(ReplyPart):
    """Which opening of the data was asked: its number, its time, and the owner's name for it.

    ``made_on`` tells of an answer whether its values were computed on ``this`` edition; it is
    ``unknown`` for a stored answer of data without a name, whose time is ``answered`` of the cost.
    """

    number: int
    opened: str
    name: str | None
    made_on: Literal["this", "unknown"]


class AnswerRows(ReplyPart):
    """Rows of an answer, of ``rows_total``; ``next_offset`` is that of the next, if there are any.

    ``resource`` holds all of them as CSV.
    """

    release_id: str
    columns: list[AnswerField]
    rows: list[list[JsonValue]]
    intervals: list[Ends]
    rows_total: int
    offset: int
    next_offset: int | None
    resource: str | None
    edition: EditionFacts


class AskedAnswer(ReplyPart):
    """The answer to a question: rows, their meaning and their cost."""

    answer: AnswerRows
    reading: str
    warnings: list[Warned]
    cost: PaidCost


class RoomFor(ReplyPart):
    """How many more questions like one there is room for; None is any number."""

    like: str
    epsilon: list[float]
    at_least: int | None


class RunBudget(ReplyPart):
    """The account of this run: limit, spending and rest.

    What is left is bound by the person's account above, too. ``unsettled`` questions run or have
    failed, and hold all that they reserved.
    """

    account: str
    epsilon_limit: float | None
    epsilon_spent: float
    epsilon_left: float | None
    epsilon_per_question: float | None
    confirm_above: float | None
    questions: int
    unsettled: int
    suspended: bool
    room: list[RoomFor]


class KnownQuestion(ReplyPart):
    """A paid question of the account.

    ``free`` says that it costs nothing when it is asked again as it is written.
    """

    sql: str
    values: list[str]
    asked: str
    run: str
    free: bool


class History(ReplyPart):
    """Questions that were paid for, the latest first."""

    questions: list[KnownQuestion]
    how: str


class CheckedNumber(ReplyPart):
    """A number of a text, as written there, with its verdict.

    ``verdict``: ``released`` (exactly), ``rounded``, ``interval_end``, ``within_interval`` (of a
    value named in the sentence, and not the value), ``key`` (of a group), ``outside_interval`` (the
    sentence names a group, and none of its values is near), or ``not_ours``.
    """

    text: str
    position: int
    verdict: str
    column: str | None
    row: int | None


class Checks(ReplyPart):
    """The verdicts on all numbers of a text."""

    numbers: list[CheckedNumber]
    all_ours: bool


AnswerT = TypeVar("AnswerT", bound=ReplyPart)


class Reply(ReplyPart, Generic[AnswerT]):
    """The reply of a tool: an answer, or why there is none."""

    answer: AnswerT | None
    refused: Refusal | None
