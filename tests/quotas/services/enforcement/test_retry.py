"""How long a cluster is left alone."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.services.enforcement.settling import delay_after


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300), (10**9, 300)]
)
def test_the_wait_doubles_up_to_five_minutes(attempt: int, seconds: int) -> None:
    assert delay_after(attempt) == timedelta(seconds=seconds)


@given(attempt=st.integers(max_value=10_000))
def test_the_wait_never_shrinks(attempt: int) -> None:
    assert delay_after(attempt) <= delay_after(attempt + 1)
