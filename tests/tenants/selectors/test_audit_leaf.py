"""Tests of the leaf of an audit entry."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from tenants.selectors.audit import audit_leaf

texts = st.text(st.characters(codec="utf-8"))


def test_the_leaf_is_the_hash_of_length_prefixed_parts() -> None:
    assert audit_leaf(["1", "ab", ""]) == hashlib.sha256(b"\x001:12:ab0:").digest()


def test_lengths_are_counted_in_bytes_of_utf_8() -> None:
    assert audit_leaf(["ü"]) == hashlib.sha256(b"\x002:\xc3\xbc").digest()


@given(st.lists(texts, max_size=6), st.lists(texts, max_size=6))
def test_different_rows_have_different_leaves(one: list[str], other: list[str]) -> None:
    assert (audit_leaf(one) == audit_leaf(other)) == (one == other)


@given(texts, texts.filter(bool))
def test_moving_letters_between_parts_changes_the_leaf(left: str, right: str) -> None:
    assert audit_leaf([left, right]) != audit_leaf([left + right, ""])
