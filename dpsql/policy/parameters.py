"""Privacy parameters: their names, kinds, limits, and the words for what is wrong with a value."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Final, Literal, TypedDict

from dpsql.core.periods import Period
from dpsql.core.plain import plain_or, plain_text, type_name
from dpsql.core.schema import fold
from dpsql.errors import ParameterError


@dataclass(frozen=True, slots=True)
class _Odd:
    """Stands for an object that is no value of a built-in type, and is asked nothing."""

    kind: str


def _plain(value: object) -> object:
    """Turn a setting into a value of exactly a built-in type, whatever object was passed."""
    if type(value) in (_Odd, NotGiven, Automatic, Period):
        return value
    return plain_or(value, _Odd(type_name(value)))


class NotGiven(Enum):
    """The type of NOT_GIVEN."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN
"""A setting left out. Distinct from None, which for ``max_groups_contributed`` is a choice."""
UNLIMITED: Final = None
"""The value of ``max_groups_contributed`` when a unit may touch any number of groups."""
AUTO: Final = "auto"
"""The word by which a question finds out for itself how many groups, or rows, of units count."""
_UNLIMITED: Final = "unlimited"
USUAL_GROUPS: Final = 10
"""The usual number of groups per unit, where none is given and ``auto`` is not taken."""
USUAL_ROWS: Final = 10
"""The usual number of rows per unit and group, where ``auto`` cannot be taken."""
USUAL_VALUES: Final = (-100.0, 100.0)
"""The usual bounds of a value that has none, until others are found."""
# dpsql's own limits, whatever a policy says. Beyond them nothing is protected (epsilon), the noise
# or its tail is no longer a finite double (epsilon and delta near 0), or counts leave 32 bits.
EPSILON_LIMITS: Final = (1e-6, 1000.0)
DELTA_LIMITS: Final = (1e-18, 0.5)
COUNT_LIMITS: Final = (1, 2**31 - 1)
ERROR_LIMITS: Final = (1e-12, 1e30)
LEFT_OUT_LIMITS: Final = (0.0, 0.5)
MOST_AGE: Final = Period(months=1200)
"""The longest age that can be given: a century, within which every calendar can count."""
NO_AGE: Final = "none"
"""The word for no maximum age."""
USUAL_LEFT_OUT_SHARE: Final = 0.03
"""Up to this share, estimates are made only where they take little time."""
MAX_SUGGESTIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Automatic:
    """The value ``auto``: a question finds out privately how many groups, or rows, of units count.

    ``most`` is the policy's limit on that, None without one. ``instead`` is the number that takes
    its place where a question is answered better with one, or not at all without; None where
    ``auto`` groups were asked for by name, which are then refused there.
    """

    most: int | None = None
    instead: int | None = None

    @property
    def usual(self) -> int | None:
        """The number in its place, within the policy's limit; None without."""
        if self.instead is None or self.most is None:
            return self.instead
        return min(self.instead, self.most)

    def __str__(self) -> str:
        return AUTO if self.usual is None else f"{AUTO}, else {self.usual}"


class ContributionBounding(StrEnum):
    """How a unit that touches more than ``max_groups_contributed`` groups is bounded.

    SAMPLE keeps that many of its groups, each in full. WEIGHT keeps more of them, each at less than
    full weight. Either way the unit's influence is the same, so this is not a matter of privacy.
    """

    SAMPLE = "sample"
    WEIGHT = "weight"


class Pooling(StrEnum):
    """The stored releases of a question that are pooled into one answer.

    SERIES: those since the question was last asked with ``fresh``, that one too. ALL: all there
    are, and a fresh one with them. OFF: none, each answer is one release. It is post-processing of
    what is paid for, so this is not a matter of privacy.
    """

    SERIES = "series"
    ALL = "all"
    OFF = "off"


class Several(StrEnum):
    """How defaults of joined tables combine: the largest or the least.

    Of numbers of groups, ``unlimited`` is the largest, and then ``auto``.
    """

    LARGEST = "largest"
    LEAST = "least"


class AnswerFrom(StrEnum):
    """The source of a question's answer.

    ROWS: the private rows, which is paid for, unless the account holds a release of the question.
    RELEASED: what the account holds, or not at all; also a release that it follows from by adding.
    """

    ROWS = "rows"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """The specification of a privacy parameter, for checks and all interfaces.

    ``type`` is of its values, ``limits`` are dpsql's own. ``option`` explains it beside an option,
    ``default`` and ``maximum`` in the policies file; without a ``maximum`` there is none.
    ``unlimited``: no number is a value too. ``automatic``: so is ``auto``, with the number that
    takes its place where it is asked for by name. ``optional``: None is a value, by which it says
    nothing. ``least``: a policy's default is the least that a query may use.
    ``choices`` says what the words of a choice mean. ``in_plan``: all that it does to a release
    shows in the plan; any other is part of what tells one question from another. ``several``:
    tables have defaults of their own for it, and which of them holds where several are read.
    """

    name: str
    type: type[float] | type[int] | type[StrEnum] | type[Period]
    option: str
    default: str
    maximum: str | None = None
    limits: tuple[float, float] = COUNT_LIMITS
    unlimited: bool = False
    automatic: Automatic | None = None
    optional: bool = False
    least: bool = False
    choices: str = ""
    in_plan: bool = False
    several: Several | None = None

    @property
    def period(self) -> bool:
        """True if its values are periods of time, written as texts."""
        return self.type is Period

    @property
    def words(self) -> tuple[str, ...]:
        """The words that a choice may be; none for a number."""
        return tuple(self.type) if issubclass(self.type, StrEnum) else ()

    @property
    def instead_of_number(self) -> tuple[str, ...]:
        """The words that may stand in place of a number: ``unlimited``, ``auto``."""
        return (_UNLIMITED,) * self.unlimited + (AUTO,) * (self.automatic is not None)


_TABLE: Final = (
    ParameterSpec(
        "epsilon",
        float,
        option="What the query may cost, as ε.",
        default="Privacy loss of one query: smaller is more private, and noisier.",
        maximum="The most a query may cost, as ε.",
        limits=EPSILON_LIMITS,
        in_plan=True,
        several=Several.LEAST,
    ),
    ParameterSpec(
        "delta",
        float,
        option="What the query may cost, as δ.",
        default="Chance that the guarantee of one query fails: far below 1 / number of units.",
        maximum="The most a query may cost, as δ.",
        limits=DELTA_LIMITS,
        in_plan=True,
        several=Several.LEAST,
    ),
    ParameterSpec(
        "max_groups_contributed",
        int,
        option="Groups one unit may influence; auto finds out.",
        default="Groups one unit may influence, or `unlimited` (top-k and declared keys), or "
        "`auto`: each question finds out privately. Left out, it is `auto`, in rounds of unknown "
        f"keys and by a draw elsewhere; where neither answers it is {USUAL_GROUPS}.",
        maximum="The most groups a query may let one unit influence, or `unlimited`.",
        unlimited=True,
        automatic=Automatic(),
        in_plan=True,
        several=Several.LARGEST,
    ),
    ParameterSpec(
        "max_rows_contributed",
        int,
        option="Rows one unit may add to one group; auto finds out.",
        default="Rows one unit may add to one group, or `auto`: found privately for a part of the "
        "price, once for the same rows and keys. Left out, it is `auto`; in materialized views "
        f"that choose groups it is {USUAL_ROWS}.",
        maximum="The most rows a query may let one unit add to one group.",
        automatic=Automatic(instead=USUAL_ROWS),
        several=Several.LARGEST,
    ),
    ParameterSpec(
        "k_bar",
        int,
        option="How many of the largest groups a top-k looks at.",
        default="How many of the largest groups a top-k looks at.",
        maximum="The most groups a top-k may look at.",
        in_plan=True,
        several=Several.LARGEST,
    ),
    ParameterSpec(
        "min_units_per_group",
        int,
        option="Leave out groups of fewer units.",
        default="Groups of fewer units are left out: never released where keys are discovered; "
        "where keys are declared, their noisy number of units decides. A query may raise it.",
        least=True,
        several=Several.LARGEST,
    ),
    ParameterSpec(
        "contribution_bounding",
        ContributionBounding,
        option="Of a unit with too many groups, keep some in full or more at less weight.",
        default="Of a unit with more groups than it may influence, `sample` keeps as many in "
        "full and `weight` keeps more, each for less.",
        choices="`sample` keeps max_groups_contributed groups of a unit, `weight` keeps more, "
        "each at less than full weight.",
        in_plan=True,
    ),
    ParameterSpec(
        "max_error",
        float,
        option="Instead of ε: the least that keeps 95% intervals of counts and sums within ±.",
        default="Instead of ε: a query costs the least ε that keeps each of its counts and sums "
        "within ± this, with 95% confidence. A query that gives an ε is answered with that.",
        limits=ERROR_LIMITS,
        optional=True,
        in_plan=True,
    ),
    ParameterSpec(
        "left_out_share",
        float,
        option="Part of the price that goes to telling what bounding leaves out; 0 for none, more "
        "than 0.03 where it takes long, too.",
        default="Part of a query's price that goes to an estimate of what bounding leaves out of "
        "its counts and sums, where the account has none yet; 0 for none. Up to 0.03 only where "
        "that takes little time, above it wherever it can be told.",
        limits=LEFT_OUT_LIMITS,
        in_plan=True,
    ),
    ParameterSpec(
        "combine",
        Pooling,
        option="Which earlier releases of the question its answer is pooled with.",
        default="Which earlier releases of a question its answer is pooled with: `series` "
        "since it was last asked fresh, `all`, or `off`.",
        choices="`series` takes all releases since the question was last asked fresh, `all` takes "
        "all there are, `off` none.",
        in_plan=True,
    ),
    ParameterSpec(
        "answer_from",
        AnswerFrom,
        option="What a question is answered from: released costs nothing, or is refused.",
        default="What a question is answered from: `rows`, or `released`, which answers from a "
        "stored release of the account, by roll-up if it has more keys, or refuses.",
        choices="`rows` reads the rows and pays, `released` answers at no cost from stored "
        "releases of the account, or refuses.",
        in_plan=True,
    ),
    ParameterSpec(
        "max_age",
        Period,
        option="The maximum age of a release that is given again: 7 days.",
        default="The maximum age of a release that is given again, or pooled with another: "
        "`12 hours`, `7 days`. A question with older releases is asked anew, and paid for. Left "
        "out, releases may be of any age.",
        optional=True,
        in_plan=True,
        several=Several.LEAST,
    ),
)
PARAMETERS: Final[Mapping[str, ParameterSpec]] = {spec.name: spec for spec in _TABLE}
"""Every privacy parameter, in the order in which they are listed."""
PARAMETER_NAMES: Final = tuple(PARAMETERS)


TABLE_PARAMETERS: Final = tuple(spec.name for spec in _TABLE if spec.several is not None)
"""The privacy parameters of which tables can have defaults of their own."""


ParameterValue = float | int | StrEnum | Automatic | Period | None
"""The value of a checked parameter."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The privacy parameters of one query, complete and checked. The defaults are dpsql's own.

    ``epsilon``, ``delta``: what the query may cost at most. ``max_groups_contributed``: groups one
    unit may influence, None for unlimited; by default a question finds out by itself where that is
    better, and takes the usual number where not. ``max_rows_contributed``: rows one unit may add to
    one group, or that a question finds this out before. ``k_bar``: how many of the largest groups a
    top-k mechanism looks at.
    ``min_units_per_group``: groups of fewer units are left out: with undeclared keys by their
    number of units, with declared ones by that number with noise.
    ``contribution_bounding``: how a unit with too many groups is bounded. ``max_error``: half the
    width that intervals of counts and sums may have, in the units of the answer; the query then
    costs the least epsilon that keeps it, and ``epsilon`` means nothing. None for none.
    ``left_out_share``: the part of the price that goes to telling what bounding leaves out.
    ``combine``: which earlier releases of the question are pooled with what it releases.
    ``answer_from``: whether rows are read, or only what was released before is used. ``max_age``:
    how old that may be, None for any age. ``given`` names those that somebody asked for, and that
    are not the policy's.
    """

    epsilon: float = 0.5
    delta: float = 1e-8
    max_groups_contributed: int | Automatic | None = Automatic(instead=USUAL_GROUPS)
    max_rows_contributed: int | Automatic = Automatic(instead=USUAL_ROWS)
    k_bar: int = 1000
    min_units_per_group: int = 1
    contribution_bounding: ContributionBounding = ContributionBounding.SAMPLE
    max_error: float | None = None
    left_out_share: float = USUAL_LEFT_OUT_SHARE
    combine: Pooling = Pooling.SERIES
    answer_from: AnswerFrom = AnswerFrom.ROWS
    max_age: Period | None = None
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def estimates_anywhere(self) -> bool:
        """True if left-out estimates are wanted wherever they are possible."""
        return self.left_out_share > USUAL_LEFT_OUT_SHARE

    @property
    def undecided(self) -> bool:
        """True if no number of groups was given, and whether one is needed is not decided yet."""
        groups = self.max_groups_contributed
        return isinstance(groups, Automatic) and groups.instead is not None

    @property
    def with_usual_numbers(self) -> Parameters:
        """The same with the usual numbers of groups and rows where none were given."""
        groups = self.max_groups_contributed
        if isinstance(groups, Automatic) and groups.usual is not None:
            groups = groups.usual
        return replace(self.with_usual_rows, max_groups_contributed=groups)

    @property
    def with_usual_rows(self) -> Parameters:
        """The same with the usual number of rows where none was given."""
        return replace(self, max_rows_contributed=self.rows_limit)

    @property
    def with_automatic_groups(self) -> Parameters:
        """The same with ``auto`` alone where no number of groups was given."""
        groups = self.max_groups_contributed
        if isinstance(groups, Automatic):
            return replace(self, max_groups_contributed=replace(groups, instead=None))
        return self

    @property
    def automatic(self) -> bool:
        """True if the number of groups per unit is left to the question."""
        return isinstance(self.max_groups_contributed, Automatic)

    @property
    def groups_limit(self) -> int | None:
        """The most groups one unit may influence, None without a limit."""
        groups = self.max_groups_contributed
        return groups.most if isinstance(groups, Automatic) else groups

    @property
    def rows_limit(self) -> int:
        """The largest number of rows of one unit in one group; for ``auto`` the usual number."""
        rows = self.max_rows_contributed
        if not isinstance(rows, Automatic):
            return rows
        assert rows.usual is not None
        return rows.usual


class PrivacyParameters(TypedDict, total=False):
    """The same as arguments of ``connect()`` and of queries; what is left out is set elsewhere."""

    epsilon: float
    delta: float
    max_groups_contributed: int | Literal["unlimited", "auto"] | None
    max_rows_contributed: int | Literal["auto"]
    k_bar: int
    min_units_per_group: int
    contribution_bounding: ContributionBounding | Literal["sample", "weight"]
    max_error: float | None
    left_out_share: float
    combine: Pooling | Literal["series", "all", "off"]
    answer_from: AnswerFrom | Literal["rows", "released"]
    max_age: str | None


@dataclass(frozen=True, slots=True)
class Overrides:
    """Settings of a query or a connection. Each is NOT_GIVEN or a value, unchecked until resolve.

    Typed ``object`` because the values come from outside: SQL options, ``SET``, ``connect()``.
    """

    epsilon: object = NOT_GIVEN
    delta: object = NOT_GIVEN
    max_groups_contributed: object = NOT_GIVEN
    max_rows_contributed: object = NOT_GIVEN
    k_bar: object = NOT_GIVEN
    min_units_per_group: object = NOT_GIVEN
    contribution_bounding: object = NOT_GIVEN
    max_error: object = NOT_GIVEN
    left_out_share: object = NOT_GIVEN
    combine: object = NOT_GIVEN
    answer_from: object = NOT_GIVEN
    max_age: object = NOT_GIVEN

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Overrides:
        """Read overrides from names and values; names ignore case.

        Raises ParameterError (``unknown_parameter``) for a name that is not a parameter.
        """
        folded: dict[str, object] = {}
        for written, value in settings.items():
            name = plain_text("the name of a privacy parameter", written)
            check_parameter_name(name)
            folded[fold(name)] = _plain(value)
        return cls(**folded)


@dataclass(frozen=True, slots=True)
class Maxima:
    """The most a query may ask for; None is no maximum.

    There is none for ``min_units_per_group``, whose default is already the least a query may use,
    nor for ``contribution_bounding``, ``combine`` and ``answer_from``, which are choices and no
    amounts, nor for ``max_error``: the epsilon that it takes has one. Nor for ``left_out_share``,
    which is a part of that epsilon, nor for ``max_age``, which an account pays for by asking anew.
    """

    epsilon: float | None = None
    delta: float | None = None
    max_groups_contributed: int | None = None
    max_rows_contributed: int | None = None
    k_bar: int | None = None


INSTEAD_OF: Final = {"epsilon": "max_error", "max_error": "epsilon"}
"""Parameters that replace each other under SET: the later one holds."""


def of_null(name: str) -> object:
    """Return the value that NULL in SQL stands for: ``auto`` where a number can be found.

    GoogleSQL's word for no limit on groups. None in Python is another value, ``unlimited``.
    """
    spec = PARAMETERS.get(fold(name))
    return None if spec is None or spec.automatic is None else AUTO


def check_value(name: str, value: object) -> ParameterValue:
    """Check one parameter against dpsql's own limits alone.

    The word ``unlimited`` (or None) is a value of ``max_groups_contributed`` only, ``auto`` one of
    ``max_rows_contributed`` too, None alone one of ``max_error`` and ``max_age``. Raises
    ParameterError (also ``unknown_parameter``).
    """
    check_parameter_name(name)
    spec, value = PARAMETERS[fold(name)], _plain(value)
    if spec.unlimited and _is_unlimited(value):
        return UNLIMITED
    if spec.automatic is not None and _is_automatic(value):
        return _automatic(spec, spec.automatic, value)
    if spec.optional and value is None:
        return None
    if spec.period:
        return _age(spec, value)
    if spec.type is float:
        return _real(spec, value)
    return _count(spec, value) if spec.type is int else _choice(spec, value)


def check_maximum(maxima: Maxima, name: str, value: float | int | Automatic | None) -> None:
    """Raise ParameterError (``parameter_out_of_range``) if the value exceeds its maximum."""
    maximum: float | int | None = getattr(maxima, name)
    if maximum is None or isinstance(value, Automatic):
        return  # what a question finds for itself is kept within the maximum
    if value is not UNLIMITED and value <= maximum:
        return
    given = "unlimited" if value is UNLIMITED else _show(value)
    raise ParameterError(
        f"{name} must be at most {maximum}, but is {given}",
        code="parameter_out_of_range",
        hint=f"The maximum is the policy's: maxima.{name} in the policies file.",
    )


def parameter_text(name: str, value: ParameterValue) -> str:
    """Write the value of a parameter, with a word for none."""
    if value is None:
        return NO_AGE if PARAMETERS[name].optional else "unlimited"
    return str(value)


def asked_by_error(settings: Mapping[str, object]) -> bool | None:
    """Tell whether settings of one place ask for a maximum error, or else for an epsilon.

    None where they say nothing of either. Raises ParameterError (``epsilon_and_max_error``) where
    both are given: each says what the other is to be.
    """
    epsilon = settings.get("epsilon", NOT_GIVEN) is not NOT_GIVEN
    error = settings.get("max_error", NOT_GIVEN)
    if epsilon and error not in (NOT_GIVEN, None):
        raise ParameterError(
            "epsilon and max_error cannot be given together: each decides the other",
            code="epsilon_and_max_error",
            hint="Leave one of them out. EXPLAIN says which error an epsilon buys, and back.",
        )
    if error is not NOT_GIVEN:
        return error is not None
    return False if epsilon else None


def check_parameter_name(name: str) -> None:
    """Raise ParameterError (``unknown_parameter``) unless this names a privacy parameter."""
    if fold(name) not in PARAMETER_NAMES:
        raise ParameterError(
            f"there is no privacy parameter {_show(name)}",
            code="unknown_parameter",
            hint=suggestion(name, PARAMETER_NAMES) or f"One of: {', '.join(PARAMETER_NAMES)}.",
        )


def suggestion(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str | None:
    """Write ``Did you mean `x`?`` for the known name most like this one, or return None."""
    by_fold = {fold(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(fold(name), by_fold, n=1, cutoff=0.6)
    return f"Did you mean `{by_fold[close[0]]}`?" if close else None


def check_minimum(name: str, minimum: int, value: float | int | None) -> None:
    """Raise ParameterError (``parameter_out_of_range``) if the value is below the default."""
    if value is None or value < minimum:
        raise ParameterError(
            f"{name} must be at least {minimum}, but is {_show(value)}",
            code="parameter_out_of_range",
            hint=f"A query may raise the policy's defaults.{name}, for all tables or for one of "
            "them, never lower it.",
        )


def _real(spec: ParameterSpec, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParameterError(
            f"{spec.name} must be a number, but is {_show(value)}", code="parameter_not_number"
        )
    low, high = (f"{limit:g}" for limit in spec.limits)
    _check_finite(spec, value, f"Give a number between {low} and {high}.")
    _check_limits(spec, value, low, high)
    return float(value)


def _count(spec: ParameterSpec, value: object) -> int:
    low, high = map(str, spec.limits)
    word = "".join(f", or `{word}`" for word in spec.instead_of_number)
    hint = f"Give a whole number from {low} to {high}{word}."
    _check_finite(spec, value, hint)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(
            f"{spec.name} must be a whole number, but is {_show(value)}",
            code="parameter_not_integer",
            hint=hint,
        )
    _check_limits(spec, value, low, high)
    return int(value)


def _age(spec: ParameterSpec, value: object) -> Period | None:
    hint = "Write a number and a unit, such as '12 hours' or '7 days', or `none`."
    if isinstance(value, str) and fold(value).strip() == NO_AGE:
        return None
    if isinstance(value, str):
        try:
            value = Period.read(value, spec.name)
        except ParameterError as error:
            error.hint = hint
            raise
    if not isinstance(value, Period):
        raise ParameterError(
            f"{spec.name} must be a period such as '7 days', but is {_show(value)}",
            code="bad_period",
            hint=hint,
        )
    if value.length > MOST_AGE.length:
        raise ParameterError(
            f"{spec.name} must be at most {MOST_AGE}, but is {value}",
            code="parameter_out_of_range",
            hint="Leave it out, or write `none`, for answers of any age.",
        )
    return value


def _choice(spec: ParameterSpec, value: object) -> StrEnum:
    assert issubclass(spec.type, StrEnum)
    try:
        return spec.type(fold(value) if isinstance(value, str) else "")
    except ValueError:
        words = " or ".join(f"`{word}`" for word in spec.words)
        raise ParameterError(
            f"{spec.name} must be {words}, but is {_show(value)}",
            code="parameter_not_a_choice",
            hint=spec.choices,
        ) from None


def _check_finite(spec: ParameterSpec, value: object, hint: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(
            f"{spec.name} must be a finite number, but is {value}",
            code="parameter_not_finite",
            hint=hint,
        )


def _check_limits(spec: ParameterSpec, value: float | int, low: str, high: str) -> None:
    least, most = spec.limits
    if not least <= value <= most:
        raise ParameterError(
            f"{spec.name} must be between {low} and {high}, but is {_show(value)}",
            code="parameter_out_of_range",
            hint="These are dpsql's own limits; a policy can narrow them, never widen them.",
        )


def _is_unlimited(value: object) -> bool:
    return value is UNLIMITED or (isinstance(value, str) and fold(value) == _UNLIMITED)


def _automatic(spec: ParameterSpec, by_name: Automatic, value: object) -> Automatic:
    """Return ``auto``, with the number in its place if it has one, checked like any other."""
    if not isinstance(value, Automatic):
        return by_name
    instead = None if value.instead is None else _count(spec, _plain(value.instead))
    return replace(value, instead=instead)


def _is_automatic(value: object) -> bool:
    return isinstance(value, Automatic) or (isinstance(value, str) and fold(value) == AUTO)


def _show(value: object) -> str:
    """Quote a setting back, briefly, whatever was sent (a huge int has no repr)."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, bool | int | float | str) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a {value.kind if isinstance(value, _Odd) else type_name(value)}"
