"""The 22 queries of TPC-H: what becomes of each when customers are the privacy units.

``original/`` holds the text of the specification with its validation parameters, ``edited/`` what
is asked instead where the text has to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a query is not answered: the error's code, and the reason in words."""

    code: str
    because: str


@dataclass(frozen=True, slots=True)
class TpchQuery:
    """One query and what must happen.

    ``public`` queries read public tables alone: they are answered exactly and cost nothing.
    ``edits`` say how the asked text differs from the original and why; ``same_question`` is whether
    it still asks for the same numbers. ``keys`` is how many columns, from the left, name a row.
    ``groups`` and ``rows`` are max_groups_contributed and max_rows_contributed, wide enough at
    scale factor 0.1 that they cut nothing. ``first`` names a query whose one value, the parameter
    ``$average``, is asked for before. ``within`` names the question of a subquery that is answered
    before the query, and priced by itself.
    """

    number: int
    title: str
    refusal: Refusal | None = None
    edits: tuple[str, ...] = ()
    same_question: bool = True
    keys: int = 0
    groups: int = 1
    rows: int = 1
    first: str | None = None
    within: str | None = None
    public: bool = False

    @property
    def name(self) -> str:
        """``q01`` to ``q22``."""
        return f"q{self.number:02}"

    @property
    def original(self) -> str:
        """The specification's text."""
        return text("original", self.name)

    @property
    def asked(self) -> str:
        """What dpsql is asked."""
        return text("edited", self.name) if self.edits else self.original

    @property
    def reference(self) -> str:
        """What plain DuckDB is asked for comparison."""
        return self.original if self.same_question else self.asked

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The contribution bounds, as arguments of ``sql()``."""
        bounds = {"max_groups_contributed": self.groups, "max_rows_contributed": self.rows}
        return MappingProxyType(bounds)


def text(folder: str, name: str) -> str:
    """The text of a query."""
    return (HERE / folder / f"{name}.sql").read_text(encoding="utf-8")


QUERIES = (
    TpchQuery(1, "Pricing summary report", keys=2, groups=4, rows=100),
    TpchQuery(2, "Minimum cost supplier", public=True),
    TpchQuery(
        3,
        "Shipping priority",
        edits=(
            "Groups are months instead of orders: an order belongs to one customer, so no order "
            "may be released",
        ),
        same_question=False,
        keys=1,
        groups=5,
        rows=15,
    ),
    TpchQuery(4, "Order priority checking", keys=1, groups=5, rows=3),
    TpchQuery(5, "Local supplier volume", keys=1, groups=1, rows=5),
    TpchQuery(6, "Forecasting revenue change", rows=10),
    TpchQuery(7, "Volume shipping", keys=3, groups=2, rows=5),
    TpchQuery(8, "National market share", keys=1, groups=2, rows=3),
    TpchQuery(9, "Product type profit measure", keys=2, groups=20, rows=3),
    TpchQuery(
        10,
        "Returned item reporting",
        Refusal("groups_by_unit", "asks for single customers, by key, name and address"),
    ),
    TpchQuery(11, "Important stock identification", public=True),
    TpchQuery(12, "Shipping modes and order priority", keys=1, groups=2, rows=5),
    TpchQuery(13, "Customer distribution", keys=1),
    TpchQuery(14, "Promotion effect", rows=12),
    TpchQuery(
        15,
        "Top supplier",
        edits=("The view became a CTE: a statement cannot create views",),
        keys=4,
        groups=20,
        rows=2,
    ),
    TpchQuery(16, "Parts/supplier relationship", public=True),
    TpchQuery(17, "Small-quantity-order revenue", groups=20, rows=30, within="q17_averages"),
    TpchQuery(
        18,
        "Large volume customer",
        Refusal(
            "groups_by_unit",
            "asks for single customers and orders, by name and key",
        ),
    ),
    TpchQuery(19, "Discounted revenue"),
    TpchQuery(20, "Potential part promotion", keys=2, groups=200, rows=2),
    TpchQuery(
        21,
        "Suppliers who kept orders waiting",
        keys=1,
        groups=3,
        rows=2,
    ),
    TpchQuery(
        22,
        "Global sales opportunity",
        edits=(
            "It runs as it stands, too: the average balance is answered first. Here that is asked "
            "apart, and its answer is the parameter `$average`",
        ),
        keys=1,
        first="q22_average",
    ),
)
RUNNING = tuple(query for query in QUERIES if query.refusal is None and not query.public)
PUBLIC = tuple(query for query in QUERIES if query.public)
REFUSED = tuple(query for query in QUERIES if query.refusal is not None)
