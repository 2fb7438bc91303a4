"""Answers in the formats that clients accept: JSON, CSV, Arrow and Parquet.

Each carries the cost and the warnings along: JSON in its body, all in a header, Arrow and Parquet
in the metadata of their schema, too.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import Headers

from dpsql.agents.kept import KeptAnswer
from dpsql.agents.replies import EditionFacts, Ends, PaidCost, Warned
from dpsql.agents.values import json_cell
from dpsql.errors import InterfaceError
from dpsql.results.edition import DataEdition
from dpsql.results.frames import require_package
from dpsql.results.result import Result
from dpsql.server.http.bodies import QueryReply

if TYPE_CHECKING:
    import pyarrow

ANSWER_HEADER: Final = "dpsql-answer"
EDITION_HEADER: Final = "dpsql-edition"
_MOST_HEADER: Final = 6_000
_MOST_RANGES: Final = 50
_WEIGHT: Final = re.compile(r"0(?:\.\d{0,9})?|1(?:\.0{0,9})?")


class MediaType(Enum):
    """A format of answers."""

    JSON = "application/json"
    CSV = "text/csv"
    ARROW = "application/vnd.apache.arrow.stream"
    PARQUET = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What belongs to the rows of an answer."""

    reading: str
    warnings: list[Warned]
    mechanisms: list[str]
    cost: PaidCost
    release_id: str | None
    edition: EditionFacts

    def header(self) -> str:
        """Write them as JSON in ASCII for a header, long texts cut."""
        text = self._written(self.warnings)
        if len(text) > _MOST_HEADER:
            cut = [one.model_copy(update={"text": one.text[:200]}) for one in self.warnings[:10]]
            text = self._written(cut)
        return text

    def metadata(self) -> str:
        """Write all of them as JSON."""
        return self._written(self.warnings, reading=self.reading)

    def _written(self, warnings: list[Warned], **more: str) -> str:
        found = {
            "cost": self.cost.model_dump(mode="json"),
            "warnings": [one.model_dump(mode="json") for one in warnings],
            "mechanisms": self.mechanisms,
            "release_id": self.release_id,
            "edition": self.edition.model_dump(mode="json"),
            **more,
        }
        return json.dumps(found, ensure_ascii=True)


def edition_header(edition: DataEdition) -> str:
    """Write an opening of the data as JSON in ASCII for a header."""
    return json.dumps(asdict(edition), ensure_ascii=True)


def accepted(headers: Headers) -> MediaType:
    """Choose the format that a client would rather have than others; JSON if it says nothing.

    Of those with the highest weight (``q``) it is the first one that the client names. Raises
    ``InterfaceError`` where there is none, so before anything is asked.
    """
    given = ",".join(headers.getlist("accept")) or "*/*"
    ranges: dict[str, tuple[float, int]] = {}
    for place, part in enumerate(given.split(",")[:_MOST_RANGES]):
        name, _, more = part.strip().lower().partition(";")
        weight = _weight(more)
        if weight is not None:
            ranges.setdefault(name.strip(), (-weight, place))
    found = []
    for order, kind in enumerate(MediaType):
        # The narrowest range that names a format decides on it.
        names = (kind.value, f"{kind.value.partition('/')[0]}/*", "*/*")
        weighed = next((ranges[name] for name in names if name in ranges), (0.0, 0))
        if weighed[0]:
            found.append((*weighed, order, kind))
    if not found:
        raise InterfaceError(
            "no accepted format is known",
            code="not_acceptable",
            hint=f"Accept one of {', '.join(each.value for each in MediaType)}.",
        )
    *_, chosen = min(found, key=lambda each: each[:3])
    if chosen in (MediaType.ARROW, MediaType.PARQUET):
        require_package("pyarrow", "arrow")
    return chosen


def _weight(parameters: str) -> float | None:
    """Read the weight of a range, 1 if there is none; None for one that is no weight."""
    for each in parameters.replace(" ", "").split(";"):
        name, sign, value = each.partition("=")
        if sign and name == "q":
            return float(value) if _WEIGHT.fullmatch(value) else None
    return 1.0


def written_answer(result: Result, kept: KeptAnswer, facts: AnswerFacts, kind: MediaType) -> bytes:
    """Write an answer. Raises ``InterfaceError`` for values that the format has no type for."""
    match kind:
        case MediaType.JSON:
            return _json(kept, facts)
        case MediaType.CSV:
            return kept.csv().encode()
        case MediaType.ARROW | MediaType.PARQUET:
            table = result.arrow(intervals=True)
            metadata = {**(table.schema.metadata or {}), b"dpsql": facts.metadata().encode()}
            return _binary(table.replace_schema_metadata(metadata), kind)


def _json(kept: KeptAnswer, facts: AnswerFacts) -> bytes:
    reply = QueryReply.model_construct(
        columns=list(kept.columns),
        rows=[[json_cell(value) for value in row] for row in kept.rows],
        intervals=[
            Ends.model_construct(
                column=kept.columns[place].name,
                low=[json_cell(value) for value in low],
                high=[json_cell(value) for value in high],
            )
            for place, (low, high) in kept.ends.items()
        ],
        reading=facts.reading,
        warnings=facts.warnings,
        mechanisms=facts.mechanisms,
        cost=facts.cost,
        release_id=facts.release_id,
        edition=facts.edition,
    )
    return reply.model_dump_json().encode()


def _binary(table: pyarrow.Table, kind: MediaType) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    if kind is MediaType.PARQUET:
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, sink)
    else:
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    found: Any = sink.getvalue()
    return bytes(found)
