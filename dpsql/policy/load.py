"""Reads a policies file: bytes, YAML, model, policy."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from dpsql.core.barred import is_barred
from dpsql.errors import ParameterError, Place, PolicyError
from dpsql.policy.document import PoliciesFile
from dpsql.policy.ledger_place import from_file
from dpsql.policy.model import Policy
from dpsql.policy.problems import model_problems, null_problems, policy_error, unprotected_problems
from dpsql.policy.yaml_tree import YamlSyntaxError, read_tree

MAX_BYTES: Final = 2**19
MAX_VALUE_SIGNS: Final = 15_000
"""Signs that may begin a value: commas, ends of lines, colons and brackets."""


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Return the policy in a file. Raises PolicyError if it cannot be read or says anything wrong.

    The ledger and the directory of views, if it names them by relative paths, are in the file's
    own directory.
    """
    source = os.fspath(path)
    data = _read_bytes(source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        place = replace(Place.in_text(before, len(before), len(before)), source=source)
        raise PolicyError(
            "the policies file is not UTF-8 text",
            code="policy_not_utf8",
            place=place,
            hint="Save it as UTF-8.",
        ) from None
    return policy_beside(parse_policy(text, source), source)


def policy_beside(policy: Policy, source: str) -> Policy:
    """Return a policy whose ledger and directory of views are looked for beside a file."""
    ledger, views = policy.ledger, policy.views
    if ledger is not None:
        policy = replace(policy, ledger=from_file(ledger, source))
    if views.directory is not None:
        views = replace(views, directory=from_file(views.directory, source))
        policy = replace(policy, views=views)
    return policy


def load_policy_if_any(path: str | os.PathLike[str]) -> Policy | None:
    """Return the policy in a file, or None where there is no file. Raises PolicyError."""
    return load_policy(path) if os.path.lexists(path) or is_barred(path) else None


def parse_policy(text: str, source_name: str = "policies.yaml") -> Policy:
    """Return the policy in a text; ``source_name`` names it in errors.

    Raises PolicyError with the first problem as its place and every problem in its hint:
    ``policy_syntax`` if the text is not YAML, ``policy_empty``, else ``policy_invalid``; or
    ``policy_too_large`` for a text that would take long to read. ``ParameterError`` for what is no
    text.
    """
    if not isinstance(text, str):
        raise ParameterError(
            f"a policy is read from a text, not from {type(text).__name__}",
            code="bad_parameter",
            hint="Read a file with load_policy(path).",
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _refuse_large(text, source_name)
    return _checked_file(text, source_name).policy()


def file_schema() -> dict[str, Any]:
    """Return the JSON schema of a policies file, as pydantic writes it."""
    return PoliciesFile.model_json_schema()


# A command reads the file for the place of its ledger, and again to connect; a process may open
# several datasets in turn. Kept is what nobody else has: a Policy made of it could have its
# mappings changed.
@lru_cache(maxsize=16)
def _checked_file(text: str, source_name: str) -> PoliciesFile:
    """Read a text as a policies file without problems, once."""
    try:
        tree = read_tree(text)
    except YamlSyntaxError as error:
        raise policy_error("policy_syntax", [error.problem], text, source_name) from None
    if tree.value is None and not tree.problems:
        raise PolicyError(
            f"{source_name} is empty",
            code="policy_empty",
            hint="Write a starting policy with `dpsql init`.",
        )
    problems = [*tree.problems, *null_problems(tree)]
    try:
        model = PoliciesFile.model_validate(tree.value)
    except ValidationError as error:
        problems += model_problems(error, tree, {problem.path for problem in problems})
        if not any(problem.path[:1] == ("links",) for problem in problems):
            problems += unprotected_problems(tree)  # else they may only be linked wrongly
        raise policy_error("policy_invalid", problems, text, source_name) from None
    problems += unprotected_problems(tree)
    if problems:
        raise policy_error("policy_invalid", problems, text, source_name)
    return model


# ----------------------------------------------------------------------------- values


def _read_bytes(source: str) -> bytes:
    try:
        # Not a device or a pipe, which may never end.
        if not stat.S_ISREG(os.stat(source).st_mode):
            _unreadable(source, "is not a file", "Name the policies file itself.")
        with open(source, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _unreadable(source, "does not exist", "Write a starting policy with `dpsql init`.")
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not a path"
        _unreadable(source, f"cannot be read: {reason}", "Check the path and its permissions.")
    if len(data) > MAX_BYTES:
        raise _too_large(source, f"is larger than {MAX_BYTES // 2**10} KiB")
    return data


def _refuse_large(text: str, source: str) -> None:
    """Refuse a text that would take more than a second to read, before anything reads it."""
    if len(text) > MAX_BYTES:
        raise _too_large(source, f"is longer than {MAX_BYTES:,} characters")
    if sum(map(text.count, "\n,:[{")) > MAX_VALUE_SIGNS:
        raise _too_large(
            source, f"has more than {MAX_VALUE_SIGNS:,} lines, commas, colons and brackets"
        )


def _too_large(source: str, what: str) -> PolicyError:
    return PolicyError(
        f"the policies file {source} {what}",
        code="policy_too_large",
        hint="Check that this is the right file; declare only the domains you need.",
    )


def _unreadable(source: str, what: str, hint: str) -> NoReturn:
    raise PolicyError(f"the policies file {source} {what}", code="policy_unreadable", hint=hint)
