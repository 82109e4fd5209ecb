"""How much longer a pod runs, by how long its like has run."""

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.headroom.start import LIVES_MIN, remaining_seconds

HOUR = 3600
LIVES = tuple(hours * HOUR for hours in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10))


def test_half_of_its_like_had_ended_by_the_median() -> None:
    assert remaining_seconds(age_seconds=0, lives=LIVES, percent=50) == 5 * HOUR
    assert remaining_seconds(age_seconds=0, lives=LIVES, percent=90) == 9 * HOUR
    assert remaining_seconds(age_seconds=0, lives=LIVES, percent=100) == 10 * HOUR


def test_only_lives_that_lasted_longer_are_asked() -> None:
    assert remaining_seconds(age_seconds=4 * HOUR, lives=LIVES, percent=50) == 3 * HOUR
    assert remaining_seconds(age_seconds=5 * HOUR - 1, lives=LIVES, percent=1) == 1


def test_too_few_longer_lives_say_nothing() -> None:
    assert remaining_seconds(age_seconds=6 * HOUR, lives=LIVES, percent=50) is None
    assert remaining_seconds(age_seconds=0, lives=(), percent=50) is None


@given(
    age=st.integers(min_value=0, max_value=1_000),
    lives=st.lists(st.integers(min_value=0, max_value=1_000), max_size=40).map(sorted),
)
def test_an_end_lies_ahead_and_the_surer_one_is_never_earlier(age: int, lives: list[int]) -> None:
    median = remaining_seconds(age_seconds=age, lives=lives, percent=50)
    sure = remaining_seconds(age_seconds=age, lives=lives, percent=90)

    longer = [life for life in lives if life > age]
    if len(longer) < LIVES_MIN:
        assert (median, sure) == (None, None)
    else:
        assert median is not None
        assert sure is not None
        assert 0 < median <= sure <= max(longer) - age
        assert 2 * sum(life - age <= median for life in longer) >= len(longer)
        assert 10 * sum(life - age <= sure for life in longer) >= 9 * len(longer)
