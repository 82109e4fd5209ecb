"""From when a pod fits, by what is known to begin and end."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.headroom.start import ExpectedEnd, LimitCourse, first_fit

AT = datetime(2026, 11, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
UNTIL = AT + 10 * HOUR
hours = st.integers(min_value=1, max_value=14).map(lambda hour: AT + hour * HOUR)
courses = st.lists(
    st.builds(
        LimitCourse,
        headroom_units=st.none() | st.integers(min_value=-6, max_value=6),
        changes=st.lists(st.tuples(hours, st.integers(min_value=-4, max_value=4)), max_size=3).map(
            lambda changes: tuple(sorted(changes))
        ),
    ),
    min_size=1,
    max_size=3,
)
ends = st.lists(
    st.builds(
        ExpectedEnd,
        at=hours,
        units=st.integers(min_value=1, max_value=4),
        limits=st.frozensets(st.integers(min_value=0, max_value=2)),
    ),
    max_size=6,
)


def within(limits: Sequence[LimitCourse], found: Sequence[ExpectedEnd]) -> list[ExpectedEnd]:
    """Return the ends, each counted by limits that are there."""
    places = frozenset(range(len(limits)))
    return [ExpectedEnd(one.at, one.units, one.limits & places) for one in found]


def fits(
    limits: Sequence[LimitCourse], found: Sequence[ExpectedEnd], units: int, when: datetime
) -> bool:
    """Say again, the naive way, whether there is room at a time."""
    return all(
        limit.headroom_units is None
        or limit.headroom_units
        + sum(gain for at, gain in limit.changes if at <= when)
        + sum(end.units for end in found if end.at <= when and place in end.limits)
        >= units
        for place, limit in enumerate(limits)
    )


def ask(limits: Sequence[LimitCourse], *found: ExpectedEnd, units: int = 2) -> datetime | None:
    return first_fit(limits, found, units=units, at=AT, until=UNTIL)


def test_what_fits_now_may_start_now() -> None:
    assert ask([LimitCourse(2), LimitCourse(None)]) == AT
    assert ask([]) == AT


def test_nothing_known_to_change_is_no_estimate() -> None:
    assert ask([LimitCourse(1)]) is None


def test_every_limit_must_have_room() -> None:
    first = ExpectedEnd(AT + HOUR, 2, frozenset({0}))
    second = ExpectedEnd(AT + 3 * HOUR, 1, frozenset({1}))

    assert ask([LimitCourse(0), LimitCourse(1)], first, second) == AT + 3 * HOUR
    assert ask([LimitCourse(0), LimitCourse(1)], first) is None


def test_a_grant_that_begins_makes_room_and_one_that_ends_takes_it() -> None:
    gained = LimitCourse(0, changes=((AT + 2 * HOUR, 4),))
    lost = LimitCourse(0, changes=((AT + HOUR, -4),))

    assert ask([gained]) == AT + 2 * HOUR
    assert ask([lost], ExpectedEnd(AT + 2 * HOUR, 5, frozenset({0}))) is None
    assert ask([lost], ExpectedEnd(AT + 2 * HOUR, 6, frozenset({0}))) == AT + 2 * HOUR


def test_what_happens_at_one_time_counts_together() -> None:
    course = LimitCourse(0, changes=((AT + HOUR, -4),))

    assert ask([course], ExpectedEnd(AT + HOUR, 2, frozenset({0}))) is None


def test_beyond_the_horizon_nothing_is_promised() -> None:
    assert ask([LimitCourse(0)], ExpectedEnd(UNTIL, 2, frozenset({0}))) == UNTIL
    assert ask([LimitCourse(0)], ExpectedEnd(UNTIL + HOUR, 2, frozenset({0}))) is None


@given(limits=courses, found=ends, units=st.integers(min_value=1, max_value=8))
def test_the_answer_is_the_first_time_that_fits(
    limits: list[LimitCourse], found: list[ExpectedEnd], units: int
) -> None:
    found = within(limits, found)

    answer = first_fit(limits, found, units=units, at=AT, until=UNTIL)

    candidates = sorted(
        {
            AT,
            *(when for limit in limits for when, _ in limit.changes if when <= UNTIL),
            *(end.at for end in found if end.at <= UNTIL),
        }
    )
    fitting = [when for when in candidates if fits(limits, found, units, when)]
    assert answer == (fitting[0] if fitting else None)


@given(limits=courses, found=ends, units=st.integers(min_value=1, max_value=7))
def test_asking_for_more_is_never_sooner(
    limits: list[LimitCourse], found: list[ExpectedEnd], units: int
) -> None:
    found = within(limits, found)

    less = first_fit(limits, found, units=units, at=AT, until=UNTIL)
    more = first_fit(limits, found, units=units + 1, at=AT, until=UNTIL)

    assert more is None or (less is not None and less <= more)
