"""Discreet errors: an engine's error, which may quote rows, becomes one error with a fixed text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpsql.errors import EngineError

_T = TypeVar("_T")


def withholding_texts(run: Callable[[], _T], code_of: Callable[[Exception], str | None]) -> _T:
    """Run something; replace its errors by one with a fixed text, by their kind.

    ``code_of`` names the kind of an engine's error, by its class or number: texts depend on rows.
    It returns None for an error that is none of the engine's, which passes.
    """
    try:
        return run()
    except Exception as error:
        code = code_of(error)
        if code is None:
            raise
    # Raised outside the handler, so that not even its context quotes a row.
    raise EngineError(code=code)
