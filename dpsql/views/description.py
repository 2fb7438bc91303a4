"""The words for what the steps of materialized views are made of, in descriptions of questions."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from dpsql.pipeline.kept.description import VOCABULARY, Vocabulary, same, worded
from dpsql.privacy.streams.factorisation import (
    BaseTree,
    BufferedToeplitz,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
)
from dpsql.privacy.streams.meta import MetaHistogram
from dpsql.privacy.streams.separate import SeparateContinualNoise
from dpsql.privacy.streams.shared import SharedContinualNoise
from dpsql.privacy.streams.sparse import SparseTopK, SparseVector
from dpsql.privacy.streams.streams import ContinualHistogram, ContinualNoise
from dpsql.privacy.streams.topk import ScheduledTopK
from dpsql.views.plan import ListingNoise, ListingSelection, StepNoise, StepSelection

STEP_VOCABULARY: Final[Vocabulary] = MappingProxyType(
    {
        **VOCABULARY,
        StepNoise: worded("noise of a step", stream="noise", step="step"),
        StepSelection: worded(
            "groups of a step",
            mechanism="histogram",
            step="step",
            domain="domain",
            left_out="one_step",
        ),
        ListingNoise: worded("noise of a listing", stream="mechanism", step="step"),
        ListingSelection: worded(
            "groups of a listing",
            mechanism="mechanism",
            one_step="one_step",
            domain="domain",
            left_out="step",
        ),
        SquareRoot: same("square root", "steps bits"),
        SlidingWindow: same("sliding window", "steps width bits"),
        BufferedToeplitz: same("buffered toeplitz", "steps decays weights bits"),
        BaseTree: same("tree", "steps base bits"),
        TreeFromBelow: same("tree from below", "steps bits"),
        ContinualNoise: same("continual noise", "factorisation sigma groups sensitivity"),
        SharedContinualNoise: same(
            "shared continual noise", "factorisation sigma sensitivity most"
        ),
        SeparateContinualNoise: same("separate continual noise", "noise"),
        ContinualHistogram: same("continual histogram", "noise delta floor"),
        MetaHistogram: same("meta histogram", "tree selection counts changed"),
        ScheduledTopK: same("scheduled top-k", "selection counts schedule"),
        SparseVector: same("sparse vector", "epsilon sensitivity"),
        SparseTopK: same("sparse top-k", "selection counts vector switches margins"),
    }
)
"""The words of all that the plan of a step is made of."""
