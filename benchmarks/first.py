"""What the first answers to ordinary questions are worth, where nobody gives an option.

Run ``make first`` or ``python benchmarks/first.py [--quick] [--coverage] [--only DATASET]``. It
prints a table and writes ``benchmarks/results/first.json``, where questions that are not asked keep
their figures.

Each question of ``ordinary_questions.py`` is asked again and again, always by an account that has
bought nothing yet, so that all that is drawn is drawn anew. The policy is what ``dpsql init``
suggests, with an epsilon of 1 for a question. Answers are held against the same query run exactly:

* *coverage*: the share of released values whose 95% interval holds the exact value, what bounding
  leaves out included; also of the three groups with the most rows, and at 0.8 of the width, where
  it must fall. Medians have no intervals;
* *error*: the mean absolute error over that of the best options in hindsight, out of a small grid
  of ``max_rows_contributed`` and ``max_groups_contributed`` without the policy's maxima. Missing
  groups count as 0. The error of the best is measured by further answers;
* *groups missed*, beside the best options, and answers without a group;
* *width*: half the width of an interval over the 95% quantile of errors;
* beside these, coverage and error with 10 rows and 10 groups for each question, which is what one
  gets who gives the same numbers to all.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

import duckdb
from answer_figures import Answer, Exact, Figures, Group, Shown, error, figures, ratio
from ordinary_questions import DATA_SETS, DataSet, Question

import dpsql
from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.policy.parameters import Maxima
from dpsql.results.result import Result

EPSILON = 1.0
REPEATS, QUICK_REPEATS = 30, 8
BEST_REPEATS, QUICK_BEST_REPEATS = 12, 6
ROWS = (1, 8, 64, 512)
STEPS = (0.25, 0.5, 2, 4)
GROUPS = (1, 3, 10, 30, None)
FINALISTS = 2
TEN_REPEATS = 4
JOBS = 2
VALUES, ADDS = ("n", "s", "a", "m"), ("n", "s")
"""The names of columns that are no keys, and of those of which nothing is 0."""
CACHE = Path(tempfile.gettempdir()) / "dpsql-first"
RESULTS = Path(__file__).parent / "results" / "first.json"

# Targets: coverage on average, of each question, of the largest groups; median and worst of errors.
MEAN_COVERAGE, LEAST_COVERAGE, LARGEST_COVERAGE = 0.93, 0.85, 0.90
MEDIAN_RATIO, WORST_RATIO = 1.3, 2.5


@dataclass(frozen=True, slots=True)
class Options:
    """What the best answers are asked with; None is ``unlimited``, or what is left to dpsql."""

    max_rows_contributed: int | None = None
    max_groups_contributed: int | None = None

    def __str__(self) -> str:
        groups = "unlimited" if self.max_groups_contributed is None else self.max_groups_contributed
        return f"{self.max_rows_contributed or 'any'} rows, {groups} groups"


TEN = Options(10, 10)


@dataclass(frozen=True, slots=True)
class Answered:
    """What one answer shows, by column, and how it came about."""

    columns: Mapping[str, Answer]
    mechanism: str
    rows: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one column of a question, and of its best options in hindsight.

    ``rows`` is the number that was drawn, in the median. ``refused`` is the code of an error that
    came instead of an answer, and then nothing else is said.
    """

    data_set: str
    held_out: bool
    question: str
    column: str
    seconds: float
    refused: str = ""
    mechanism: str = ""
    rows: int | None = None
    groups: int = 0
    figures: Figures | None = None
    best: str = ""
    best_error: float | None = None
    best_missed: float | None = None
    best_empty: float | None = None
    ratio: float | None = None
    ten_covered: float | None = None
    ten_ratio: float | None = None

    @property
    def failures(self) -> list[str]:
        """The targets that it misses."""
        found = self.figures
        if found is None:
            return ["refused"]
        missed = {
            "coverage": found.covered is not None and found.covered < LEAST_COVERAGE,
            "largest": found.largest is not None and found.largest < LARGEST_COVERAGE,
            "error": self.ratio is not None and self.ratio > WORST_RATIO,
            "empty": found.empty > (self.best_empty or 0.0),
        }
        return [name for name, is_missed in missed.items() if is_missed]


class Asker:
    """Asks one question, each time from an account that has bought nothing."""

    def __init__(self, place: Path, policy: Policy, folder: Path, question: Question) -> None:
        self._place = place
        self._ledger = folder / "budget.db"
        self._question = question
        self._numbers = count()
        self._asked = policy
        self._free = replace(policy, maxima=Maxima())
        (self._account,) = policy.accounts.values()

    def ask(self, options: Options | None = None) -> Answered:
        """Ask once, with nothing said or with options. Raises ``dpsql.Error``."""
        name = f"analyst{next(self._numbers)}"
        policy = self._asked if options is None else self._free
        policy = replace(policy, accounts={name: replace(self._account, name=name)})
        given = {} if options is None else asdict(options)
        if options is not None and options.max_rows_contributed is None:
            del given["max_rows_contributed"]
        with dpsql.connect(self._place, policy, self._ledger, name) as connection:
            result = connection.sql(self._question.asked, **given)
        return _answered(result)


def _answered(result: Result) -> Answered:
    names, rows, intervals = list(result.columns), result.fetchall(), result.intervals()
    keys = [at for at, name in enumerate(names) if name not in VALUES]
    columns: dict[str, dict[Group, Shown]] = {}
    for value in (at for at, name in enumerate(names) if name in VALUES):
        shown = columns[names[value]] = {}
        one = intervals.get(names[value])  # a median has none
        for place, row in enumerate(rows):
            if row[value] is not None:
                ends = (None, None) if one is None else (one.low[place], one.high[place])
                shown[tuple(row[at] for at in keys)] = Shown(float(row[value]), *ends)
    found = re.search(r"max_rows_contributed is ([\d,]+), found", result.plan.to_json())
    number = None if found is None else int(found[1].replace(",", ""))
    return Answered(columns, ", ".join(result.mechanisms), number)


def exact_values(place: Path, question: Question) -> dict[str, dict[Group, Exact]]:
    """Run a question as it is, by column."""
    with duckdb.connect(str(place), read_only=True) as reader:
        found = reader.execute(question.truth)
        names = [each[0] for each in found.description]
        rows = found.fetchall()
    values = [at for at, name in enumerate(names[:-1]) if name in VALUES]
    keys = [at for at, name in enumerate(names[:-1]) if at not in values]
    return {
        names[value]: {
            tuple(row[at] for at in keys): Exact(
                None if row[value] is None else float(row[value]), row[-1]
            )
            for row in rows
        }
        for value in values
    }


def best_options(
    asker: Asker, exact: Mapping[str, Mapping[Group, Exact]], question: Question, single: bool
) -> Options | None:
    """Search for the options with the least error; None where there is nothing to bound."""
    grouped = any(group for values in exact.values() for group in values)
    rows: Sequence[int | None] = (None,) if single or "DISTINCT" in question.sql else ROWS
    groups = GROUPS if grouped and not single else (None,)
    if len(rows) * len(groups) == 1:
        return None
    tried: dict[Options, list[float]] = {}

    def try_out(options: Options, times: int) -> None:
        for _ in range(times):
            try:
                answer = asker.ask(options)
            except dpsql.Error:
                return
            tried.setdefault(options, []).append(_total_error(exact, answer, question))

    def leading() -> list[Options]:
        return sorted(tried, key=lambda options: statistics.fmean(tried[options]))

    for number in rows:
        for most in groups:
            try_out(Options(number, most), 1 if len(groups) > 1 else 2)
    for options in leading()[:FINALISTS]:
        for step in STEPS if options.max_rows_contributed is not None else ():
            near = round((options.max_rows_contributed or 1) * step)
            if near >= 1:
                try_out(replace(options, max_rows_contributed=near), 1)
    for options in leading()[: 2 * FINALISTS]:
        try_out(options, 3)
    return next(iter(leading()), None)


def _total_error(
    exact: Mapping[str, Mapping[Group, Exact]], answer: Answered, question: Question
) -> float:
    """Add up the errors of an answer's columns, each as a part of what it has without an answer."""
    found = 0.0
    for column, values in exact.items():
        nothing = error(values, {}, adds=column in ADDS, top=question.top)
        found += error(values, answer.columns[column], adds=column in ADDS, top=question.top) / (
            nothing or 1.0
        )
    return found


def measured(
    data_set: DataSet, question: Question, repeats: int, best_repeats: int
) -> list[Measured]:
    """Ask a question all its times; the figures of each of its columns.

    Without ``best_repeats`` no best options are searched for.
    """
    began = time.perf_counter()
    place = CACHE / f"{data_set.name}.duckdb"
    policy = load_policy(str(place.with_suffix(".yaml")))
    exact = exact_values(place, question)
    single = all(table.rows_per_unit == 1 for table in policy.tables.values() if table.privacy_unit)
    single = single and not any(table.link for table in policy.tables.values())
    with tempfile.TemporaryDirectory() as folder:
        asker = Asker(place, policy, Path(folder), question)
        try:
            answers = [asker.ask() for _ in range(repeats)]
        except dpsql.Error as refusal:
            seconds = time.perf_counter() - began
            return [
                Measured(
                    data_set.name, data_set.held_out, question.asked, column, seconds, refusal.code
                )
                for column in exact
            ]
        options = best_options(asker, exact, question, single) if best_repeats else None
        best = answers if options is None else [asker.ask(options) for _ in range(best_repeats)]
        ten = [] if single else [asker.ask(TEN) for _ in range(TEN_REPEATS)]
    seconds = time.perf_counter() - began
    found = [
        _measured(data_set, question, column, values, answers, best, options, ten, seconds)
        for column, values in exact.items()
    ]
    return found if best_repeats else [without_best(one) for one in found]


def without_best(one: Measured) -> Measured:
    """Return figures of which nothing says what the best options would have given."""
    one = replace(one, best="", best_error=None, best_missed=None, best_empty=None)
    return replace(one, ratio=None, ten_ratio=None)


def _measured(
    data_set: DataSet,
    question: Question,
    column: str,
    exact: Mapping[Group, Exact],
    answers: Sequence[Answered],
    best: Sequence[Answered],
    options: Options | None,
    ten: Sequence[Answered],
    seconds: float,
) -> Measured:
    adds, top = column in ADDS, question.top
    found, hindsight, usual = (
        figures(exact, [one.columns[column] for one in some], adds=adds, top=top)
        for some in (answers, best, ten or answers)
    )
    drawn = [one.rows for one in answers if one.rows is not None]
    return Measured(
        data_set.name,
        data_set.held_out,
        question.asked,
        column,
        seconds,
        mechanism=answers[0].mechanism,
        rows=round(statistics.median(drawn)) if drawn else None,
        groups=min(len(exact), top or len(exact)),
        figures=found,
        best="as it is" if options is None else str(options),
        best_error=hindsight.error,
        best_missed=hindsight.missed,
        best_empty=hindsight.empty,
        ratio=ratio(exact, found.error, hindsight.error, adds=adds, top=top),
        ten_covered=usual.covered,
        ten_ratio=ratio(exact, usual.error, hindsight.error, adds=adds, top=top),
    )


# -- the report ---------------------------------------------------------------------------------


def summary(found: Sequence[Measured]) -> dict[str, float | int | None]:
    """Sum up the figures that the targets are about, over columns of questions."""
    told = [each.figures for each in found if each.figures is not None]
    covered = [each.covered for each in told if each.covered is not None]
    largest = [each.largest for each in told if each.largest is not None]
    narrower = [each.narrower for each in told if each.narrower is not None]
    widths = [each.width for each in told if each.width is not None]
    ratios = [each.ratio for each in found if each.ratio is not None]
    return {
        "values": len(found),
        "refused": len(found) - len(told),
        "coverage": statistics.fmean(covered),
        "least coverage": min(covered),
        "coverage of the largest groups": statistics.fmean(largest),
        "least coverage of the largest groups": min(largest),
        "coverage at 0.8 of the width": statistics.fmean(narrower),
        "width": statistics.median(widths),
        "median error ratio": statistics.median(ratios) if ratios else None,
        "worst error ratio": max(ratios, default=None),
        "coverage with 10 and 10": statistics.fmean(
            [each.ten_covered for each in found if each.ten_covered is not None] or [math.nan]
        ),
        "median error ratio with 10 and 10": statistics.median(
            [each.ten_ratio for each in found if each.ten_ratio is not None] or [math.nan]
        ),
        "questions with empty answers": sum(
            each.figures is not None and each.figures.empty > (each.best_empty or 0.0)
            for each in found
        ),
        "values that miss a target": sum(bool(each.failures) for each in found),
    }


_HEAD = "{:>5} {:>5} {:>5} {:>5} {:>6} {:>6} {:>11} {:>5} {:>5}  {}"


def line(one: Measured) -> str:
    """Write the figures of one column of a question."""
    asked = f"{one.data_set}: {one.question} [{one.column}]"
    found = one.figures
    if found is None:
        return f"refused ({one.refused})  {asked}"

    def part(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}"

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    missed = f"{found.missed:.1f}" + (
        f"/{one.best_missed:.1f}" if one.best_missed is not None else ""
    )
    return _HEAD.format(
        *(part(found.covered), part(found.largest), part(found.narrower)),
        *(number(found.width), number(found.bias), number(one.ratio), missed),
        *(part(found.empty), one.rows or "-"),
        f"{asked} | {one.mechanism} | best: {one.best} | {', '.join(one.failures) or 'met'}",
    )


def keep(found: Sequence[Measured], repeats: int) -> None:
    """Write figures beside those of other questions that were measured before."""
    kept: dict[tuple[str, str, str], object] = {}
    if RESULTS.exists():
        for each in json.loads(RESULTS.read_text(encoding="utf-8"))["measured"]:
            kept[each["data_set"], each["question"], each["column"]] = each
    for one in found:
        written = {**asdict(one), "repeats": repeats, "failures": one.failures}
        kept[one.data_set, one.question, one.column] = written
    asked = [(one.name, each.asked) for one in DATA_SETS for each in one.questions]
    still = [kept[name] for name in sorted(kept) if name[:2] in asked]
    document = {"epsilon": EPSILON, "measured": still}
    RESULTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="ask fewer times")
    parser.add_argument(
        "--coverage", action="store_true", help="search for no best options: a third of the time"
    )
    parser.add_argument("--only", metavar="DATASET", choices=[each.name for each in DATA_SETS])
    chosen = parser.parse_args()
    asked = [each for each in DATA_SETS if chosen.only in (None, each.name)]
    for data_set in asked:
        data_set.policy_file(data_set.database(CACHE), EPSILON)
    repeats = QUICK_REPEATS if chosen.quick else REPEATS
    best_repeats = QUICK_BEST_REPEATS if chosen.quick else BEST_REPEATS
    best_repeats = 0 if chosen.coverage else best_repeats
    found: list[Measured] = []
    head = ("holds", "big 3", "at .8", "width", "bias", "error", "missed/best", "empty", "rows", "")
    print(_HEAD.format(*head))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(JOBS, context) as pool:
        waiting = [
            pool.submit(measured, data_set, question, repeats, best_repeats)
            for data_set in asked
            for question in data_set.questions
        ]
        for each in waiting:
            for one in each.result():
                found.append(one)
                print(line(one), flush=True)
            keep(found, repeats)
    for name, some in (("all", found), ("held out", [one for one in found if one.held_out])):
        if some:
            print(f"\n{name}:")
            for what, value in summary(some).items():
                print(f"  {what}: {f'{value:.3g}' if isinstance(value, float) else value}")


if __name__ == "__main__":
    main()
