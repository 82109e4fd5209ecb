from hypothesis import given
from hypothesis import strategies as st

from metering.services.allocations.heartbeats import wait_seconds


def test_waits_double_up_to_a_minute_and_a_half() -> None:
    waits = [wait_seconds(failures=number, seed="hopper/pods") for number in range(1, 12)]

    assert 1 <= waits[0] <= 1.5
    assert 4 <= waits[2] <= 6
    assert all(60 <= wait <= 90 for wait in waits[6:])


def test_a_server_that_asks_for_longer_is_left_alone_for_so_long() -> None:
    assert wait_seconds(failures=1, seed="x", asked=45) == 45
    assert wait_seconds(failures=7, seed="x", asked=5) >= 60


@given(st.integers(min_value=1, max_value=10_000), st.text())
def test_a_wait_is_always_bounded_and_the_same_for_the_same_seed(failures: int, seed: str) -> None:
    wait = wait_seconds(failures=failures, seed=seed)

    assert 1 <= wait <= 90
    assert wait == wait_seconds(failures=failures, seed=seed)
