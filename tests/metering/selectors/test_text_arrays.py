"""Texts arrive in PostgreSQL as they are, however many and whatever is in them."""

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from metering.selectors.text_arrays import text_array

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.sampled_from(["", "NULL", "{}", '"', "\\", ",", "'", "%s", "a b", '\\"', "\n"])
)


@pytest.mark.django_db
def test_texts_arrive_as_they_are() -> None:
    @given(TEXTS)
    def check(texts: list[str]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s::text[]", [text_array(texts)])
            [(found,)] = cursor.fetchall()

        assert found == texts

    check()


@pytest.mark.parametrize("texts", [["\0"], ["a", "b\0c"]])
def test_a_nul_is_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="NUL"):
        text_array(texts)
