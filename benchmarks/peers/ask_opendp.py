"""Asks OpenDP through its context and its Polars expressions.

Users of unknown items are counted under zero-concentrated privacy, whose Gaussian noise and lower
threshold fit ten items per user better than the Laplace noise of pure privacy; sums of declared
regions are taken under pure privacy.
"""

from __future__ import annotations

import math

import opendp.prelude as dp
import polars as pl
from protocol import Asking, Request, serve

dp.enable_features("contrib")

MOST_ROWS = 2**24
"""A public bound on the rows of a region, from which OpenDP knows that no sum overflows."""


def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho with rho + 2 sqrt(rho ln(1/delta)) at most epsilon (Bun & Steinke 2016)."""
    log = -math.log(delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def users(request: Request, rows: pl.LazyFrame) -> Asking:
    half = request.delta / 2
    loss = dp.loss_of(rho=rho_for(request.epsilon, half), delta=half)

    def ask() -> list[tuple[str, float]]:
        context = dp.Context.compositor(
            data=rows,
            privacy_unit=dp.unit_of(contributions=1, identifier="user_id"),
            privacy_loss=loss,
            split_evenly_over=1,
        )
        query = (
            context.query()
            .truncate_per_group(1, by=["item"])
            .truncate_per_group(request.max_groups)
            .group_by("item")
            .agg(dp.len(signed=True))
        )
        return query.release().collect().rows()

    return Asking(
        "`Context.compositor` (zCDP with half of δ for thresholds), "
        "`truncate_per_group(1, by=item)`, `truncate_per_group(10)`, "
        "`group_by(item).agg(dp.len())` on Polars",
        ask,
        ("opendp", "polars"),
    )


def sums(request: Request, rows: pl.LazyFrame) -> Asking:
    keys = pl.LazyFrame({"region": list(request.regions)})
    margin = dp.polars.Margin(by=["region"], max_length=MOST_ROWS, max_groups=len(request.regions))

    def ask() -> list[tuple[str, float]]:
        context = dp.Context.compositor(
            data=rows,
            privacy_unit=dp.unit_of(contributions=1, identifier="user_id"),
            privacy_loss=dp.loss_of(epsilon=request.epsilon),
            split_evenly_over=1,
            margins=[margin],
        )
        query = (
            context.query()
            .group_by("user_id", "region")
            .agg(pl.col.amount.sum())
            .group_by("region")
            .agg(pl.col.amount.dp.sum((0, request.most_per_group)))
            .with_keys(keys)
        )
        return query.release().collect().rows()

    return Asking(
        "`Context.compositor` (pure ε), `group_by(user, region).agg(sum)`, a margin of 20 regions, "
        "`group_by(region).agg(amount.dp.sum((0, 1000)))`, `with_keys` on Polars",
        ask,
        ("opendp", "polars"),
    )


def prepare(request: Request) -> Asking:
    rows = pl.read_parquet(request.data).lazy()
    return {"users": users, "sums": sums}[request.task](request, rows)


if __name__ == "__main__":
    serve(prepare)
