"""A hole in a watch is blind unless the watch went on from where it had stopped."""

from dataclasses import dataclass
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.allocations.timeline import Stretch, blind_stretches, covered_seconds
from tests.support.metering.seen import HOUR, moment


@dataclass(frozen=True)
class Healthy:
    begin_at: datetime
    until_at: datetime
    is_resumed: bool


def span(begin: int, until: int, *, is_resumed: bool = False) -> Healthy:
    return Healthy(moment(begin), moment(until), is_resumed)


def blind(*spans: Healthy) -> list[tuple[int, int]]:
    """Return the blind stretches of the hour in seconds, checked against the covered ones."""
    stretches = blind_stretches(spans, begin_at=HOUR, end_at=moment(3600))
    found = [
        (int((s.begin_at - HOUR).total_seconds()), int((s.end_at - HOUR).total_seconds()))
        for s in stretches
    ]
    unseen = sum(end - begin for begin, end in found)
    assert covered_seconds(spans, begin_at=HOUR, end_at=moment(3600)) == 3600 - unseen
    return found


def test_an_hour_nobody_watched_is_blind() -> None:
    assert blind() == [(0, 3600)]
    assert blind(span(-500, -100)) == [(0, 3600)]


def test_an_hour_inside_one_span_is_covered() -> None:
    assert blind(span(-500, 3600)) == []
    assert blind(span(-500, 3599)) == [(3599, 3600)]


def test_a_hole_that_ended_with_a_list_is_blind() -> None:
    assert blind(span(-500, 600), span(1200, 4000)) == [(600, 1200)]


def test_a_hole_that_was_resumed_lost_nothing() -> None:
    assert blind(span(-500, 600), span(1200, 4000, is_resumed=True)) == []


def test_a_resumed_span_with_nothing_before_it_proves_nothing_of_the_time_before() -> None:
    assert blind(span(1200, 4000, is_resumed=True)) == [(0, 1200)]


def test_the_spans_around_the_hour_settle_its_edges() -> None:
    assert blind(span(-500, -100), span(200, 3000, is_resumed=True)) == [(3000, 3600)]
    assert blind(span(-500, 3000), span(4000, 5000, is_resumed=True)) == []
    assert blind(span(-500, 3000), span(4000, 5000)) == [(3000, 3600)]
    assert blind(span(-900, -700), span(4000, 5000)) == [(0, 3600)]


def test_a_span_that_began_before_the_former_ended_leaves_no_hole() -> None:
    assert blind(span(0, 2000), span(1000, 3600)) == []
    assert Stretch(HOUR, moment(1)).end_at == moment(1)


SPANS = st.lists(
    st.tuples(st.integers(-600, 4000), st.integers(0, 2000), st.booleans()), max_size=6
)


@given(SPANS)
def test_what_is_blind_lies_inside_the_hour_and_never_inside_a_span(
    reported: list[tuple[int, int, bool]],
) -> None:
    spans = [span(b, b + length, is_resumed=flag) for b, length, flag in sorted(reported)]
    stretches = blind_stretches(spans, begin_at=HOUR, end_at=moment(3600))

    for stretch in stretches:
        assert HOUR <= stretch.begin_at < stretch.end_at <= moment(3600)
        for healthy in spans:
            assert healthy.until_at <= stretch.begin_at or stretch.end_at <= healthy.begin_at
    assert list(stretches) == sorted(stretches)
