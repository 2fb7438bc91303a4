"""The words for what the steps of materialized views are made of, in descriptions of questions."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from dpsql.pipeline.kept.description import VOCABULARY, Vocabulary, same
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
from dpsql.views.listing_plan import ListingNoise, ListingSelection
from dpsql.views.plan import ContinualSelection, StepNoise

STEP_VOCABULARY: Final[Vocabulary] = MappingProxyType(
    {
        **VOCABULARY,
        StepNoise: same("noise of a step", "noise step"),
        ContinualSelection: same("groups of a step", "histogram step domain"),
        ListingNoise: same("noise of a listing", "mechanism step"),
        ListingSelection: same("groups of a listing", "mechanism one_step domain"),
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
