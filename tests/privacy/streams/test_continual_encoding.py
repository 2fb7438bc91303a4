"""Keys as bytes: equal keys are one group, different keys are different groups."""

from __future__ import annotations

import itertools

from dpsql.privacy.streams.encoding import encode_group, encode_texts

DIFFERENT = [None, "", "0", "a", "a\0", "é", "e\u0301", "nan", "NULL", "\ud800", "x" * 300]


def test_different_keys_are_different_bytes() -> None:
    singles = [(value,) for value in DIFFERENT]
    pairs = list(itertools.product(DIFFERENT, repeat=2))
    codes = {encode_group(values) for values in [(), *singles, *pairs]}
    assert len(codes) == 1 + len(singles) + len(pairs)


def test_the_bytes_of_a_key_never_change() -> None:
    """Streams outlive releases of dpsql, and a group draws its noise by them."""
    assert encode_group(("a", None)).hex() == "0000000275000000000000000161300000000000000000"


def test_values_do_not_run_into_each_other() -> None:
    tails = [encode_group(("x",))[4:], encode_group((None,))[4:]]
    for tail in tails:
        text = tail.decode("latin-1")
        assert encode_group(("x" + text,)) != encode_group(("x", None))
        assert encode_group((text,)) != encode_group((None, "x"))
    assert encode_group(("ab", "c")) != encode_group(("a", "bc"))


def test_texts_by_column_are_encoded_as_groups_are() -> None:
    columns = [["a", None, "", "ä\ud800"], ["b", "", None, "x" * 300]]
    rows = list(zip(*columns, strict=True))
    assert encode_texts(columns, 4) == [encode_group(row) for row in rows]
    assert encode_texts(columns[:1], 4) == [encode_group(row[:1]) for row in rows]
    assert encode_texts([], 1) == [encode_group(())]
