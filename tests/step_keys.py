"""Keys of a stream's steps that tests may know."""

from __future__ import annotations

import hashlib

from dpsql.mechanisms.continual.keyed import KEY_BYTES, StepKey


def step_keys(count: int, stream: str = "") -> list[StepKey]:
    """The keys of so many steps, the same for a stream's name every time."""
    return [
        StepKey(hashlib.blake2b(f"{stream}/{i}".encode(), digest_size=KEY_BYTES).digest())
        for i in range(count)
    ]
