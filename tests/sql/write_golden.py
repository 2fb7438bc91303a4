"""Writes the golden files anew: ``python tests/sql/write_golden.py``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from golden_files import cases, files, written  # noqa: E402

if __name__ == "__main__":
    for file in files():
        file.write_text("".join(map(written, cases(file))), encoding="utf-8")
