"""Expected errors: the code says their class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dpsql.core.codes import CODES
from dpsql.errors import Error


@contextmanager
def fails_with(code: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[Error]]:
    """Expect an error with this code, of the class that the catalogue says."""
    with pytest.raises(CODES[code].kind, match=match) as caught:
        yield caught
    assert caught.value.code == code
