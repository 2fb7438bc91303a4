"""The parameters and columns of a statement, known before it is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A column that an answer will have: its name and its DuckDB type.

    ``noisy`` ones have intervals.
    """

    name: str
    type: str
    noisy: bool = False


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A query parameter of a statement.

    ``name`` is that of ``$name`` and ``:name``, or the position, from 1, of ``$1`` and ``?``.
    ``type`` is the DuckDB type of its value; None if it has no value yet, or NULL.
    """

    name: str
    type: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """The columns of a statement's answer and its query parameters, both in order.

    A parameter that is named several times is listed once. Where parameters have no values yet,
    NULL stands for each: a column computed of one has the type that it has for NULL.
    """

    columns: tuple[AnswerColumn, ...]
    parameters: tuple[QueryParameter, ...]
