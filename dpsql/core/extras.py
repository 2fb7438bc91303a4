"""The packages of dpsql's extras, for errors about missing ones."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec


def installed(module: str) -> bool:
    """Tell whether a module of an extra can be found."""
    return find_spec(module) is not None


def install_hint(extra: str) -> str:
    """Write the command that installs the packages of an extra.

    It names the packages themselves: an index need not have dpsql, nor is its ``dpsql`` ours.
    """
    try:
        declared = requires("dpsql") or []
    except PackageNotFoundError:  # run from a source tree
        declared = []
    ours = re.compile(rf"\bextra\s*==\s*['\"]{re.escape(extra)}['\"]")
    packages = [
        name.strip() for name, _, when in (d.partition(";") for d in declared) if ours.search(when)
    ]
    if not packages:
        return f"Install it with: pip install '.[{extra}]' in a clone of dpsql."
    named = " ".join(f"'{package}'" for package in packages)
    return f"Install it with: pip install {named}"
