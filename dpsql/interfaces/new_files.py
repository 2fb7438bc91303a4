"""Files that commands write: whole or not at all, and never over another one unasked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from dpsql.errors import InterfaceError


@contextmanager
def new_file(target: Path, force: bool = False) -> Iterator[Callable[[bytes], None]]:
    """Yield a writer of ``target``, which appears once the block ends without an error.

    That it can be written is found out at the start, before a query is paid for. Raises
    ``InterfaceError``: ``file_exists`` unless ``force`` is given, ``file_not_writable``.
    """
    final = Path(os.path.realpath(target))
    _refuse_existing(target, final, force)
    part = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        file = part.open("xb")
    except OSError as error:
        _cannot_be_written(target, error)

    def write(content: bytes) -> None:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            _cannot_be_written(target, error)

    try:
        with file:
            yield write
        _refuse_existing(target, final, force)
        os.replace(part, final)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _refuse_existing(target: Path, final: Path, force: bool) -> None:
    if not os.path.lexists(final):
        return
    if not final.is_file():
        raise InterfaceError(
            f"{target} is not a file",
            code="file_not_writable",
            hint="Choose another --output, or leave it out to write to standard output.",
        )
    if not force:
        raise InterfaceError(
            f"{target} exists already",
            code="file_exists",
            hint="Choose another --output, or replace it with --force.",
        )


def _cannot_be_written(target: Path, error: OSError) -> NoReturn:
    raise InterfaceError(
        f"{target} cannot be written: {(error.strerror or 'not a path').lower()}",
        code="file_not_writable",
        hint="Choose another --output.",
    ) from None
