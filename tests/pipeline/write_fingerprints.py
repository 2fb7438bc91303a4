"""Writes the words of this version: ``python tests/pipeline/write_fingerprints.py``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from test_fingerprint import FIXED, WORDS, prints_now, words_now  # noqa: E402

from dpsql.pipeline.kept.description import VERSION  # noqa: E402

if __name__ == "__main__":
    known = {"version": VERSION, "words": words_now()}
    for file, value in ((WORDS, known), (FIXED, prints_now())):
        file.write_text(f"{json.dumps(value, indent=1)}\n", encoding="utf-8")
