from hypothesis import given
from hypothesis import strategies as st

from metering.services.allocations.heartbeats import (
    OUTAGE_TRIES_MAX,
    outage_wait_seconds,
    wait_seconds,
)


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


def test_a_server_that_is_away_is_tried_every_second_or_two_for_minutes_then_less_often() -> None:
    waits = [outage_wait_seconds(failures=number, seed="hopper") for number in range(1, 451)]

    assert set(waits[:OUTAGE_TRIES_MAX]) == {1, 2}
    assert 400 <= sum(waits[:OUTAGE_TRIES_MAX]) <= 800
    assert all(60 <= wait <= 90 for wait in waits[OUTAGE_TRIES_MAX + 6 :])


def test_clusters_are_not_tried_at_the_same_times() -> None:
    tried = {
        tuple(
            outage_wait_seconds(failures=number, seed=f"cluster-{slug}") for number in range(1, 9)
        )
        for slug in range(20)
    }

    assert len(tried) > 15
