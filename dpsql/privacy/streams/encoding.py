"""Keys of groups as bytes: equal keys are equal bytes, different ones are not.

A group draws its noise by these bytes. Were one key spelled in two ways, its group would have two
noises, and their mean less of it; were two keys spelled alike, their difference would be exact. A
key is a text here: whoever has values of other types sees to it that each has just one text.
"""

from __future__ import annotations

from collections.abc import Sequence


def encode_group(values: Sequence[str | None]) -> bytes:
    """Encode the texts of a group's keys as bytes, injectively: NULL is no text.

    Every value carries its length, so that no two tuples meet; no text fails. Checked by
    ``tests/privacy/streams/test_continual_encoding.py``.
    """
    return len(values).to_bytes(4, "big") + b"".join(map(_encoded_text, values))


def encode_texts(columns: Sequence[Sequence[str | None]], count: int) -> list[bytes]:
    """Encode groups whose keys are given by column: the bytes of :func:`encode_group`.

    There are ``count`` groups, and each column has as many values.
    """
    head = len(columns).to_bytes(4, "big")
    if not columns:
        return [head] * count
    coded = [[_encoded_text(text) for text in column] for column in columns]
    if len(coded) == 1:
        return [head + value for value in coded[0]]
    return [head + b"".join(values) for values in zip(*coded, strict=True)]


def _encoded_text(text: str | None) -> bytes:
    if text is None:
        return b"0" + bytes(8)  # its tag, and no payload
    payload = text.encode(
        "utf-8", "surrogatepass"
    )  # lone surrogates are no text, but must not fail
    return b"u" + len(payload).to_bytes(8, "big") + payload
