"""Asks PipelineDP through its engine, on its local backend."""

from __future__ import annotations

import operator

import pipeline_dp
import pyarrow.parquet as pq
from protocol import Asking, Request, serve

COLUMNS = {"users": ["user_id", "item"], "sums": ["user_id", "region", "amount"]}


def parameters(request: Request) -> pipeline_dp.AggregateParams:
    if request.task == "users":
        return pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
            noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
            max_partitions_contributed=request.max_groups,
            max_contributions_per_partition=1,
            partition_selection_strategy=(
                pipeline_dp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING
            ),
            post_aggregation_thresholding=True,
        )
    return pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.SUM],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=request.max_groups,
        max_contributions_per_partition=request.rows_per_group,
        min_sum_per_partition=0,
        max_sum_per_partition=request.most_per_group,
    )


def prepare(request: Request) -> Asking:
    table = pq.read_table(request.data, columns=COLUMNS[request.task])
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=operator.itemgetter(0),
        partition_extractor=operator.itemgetter(1),
        value_extractor=(lambda row: 0) if request.task == "users" else operator.itemgetter(2),
    )
    declared = None if request.task == "users" else list(request.regions)

    def ask() -> list[tuple[str, float]]:
        budget = pipeline_dp.NaiveBudgetAccountant(
            total_epsilon=request.epsilon, total_delta=request.delta
        )
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        released = engine.aggregate(
            rows, parameters(request), extractors, public_partitions=declared
        )
        budget.compute_budgets()
        return [(key, metrics[0]) for key, metrics in released]

    asked = {
        "users": (
            "`DPEngine.aggregate` of `PRIVACY_ID_COUNT` with Gaussian noise, "
            "`max_partitions_contributed=10`, Gaussian thresholding of the released counts "
            "themselves; `LocalBackend`, one process"
        ),
        "sums": (
            "`DPEngine.aggregate` of `SUM` with Gaussian noise, `max_sum_per_partition=1000`, "
            "`max_partitions_contributed=20`, public partitions; `LocalBackend`, one process"
        ),
    }
    return Asking(asked[request.task], ask, ("pipeline-dp", "python-dp"))


if __name__ == "__main__":
    serve(prepare)
