"""What one source shows, and when it had eyes."""

from metering.domain.collection.reconciliation import intervals_of_ticks, visible_seconds
from tests.support.metering.accounts import (
    at,
    reported,
    span,
)

# ---------------------------------------------------------------- eyes


def test_eyes_close_where_scrapes_are_too_far_apart() -> None:
    ticks = [at(second) for second in (0, 30, 60, 135, 211, 241)]

    found = intervals_of_ticks(ticks, scrape_interval_seconds=30)

    assert found == (span(0, 135), span(211, 241))
    assert intervals_of_ticks([], scrape_interval_seconds=30) == ()
    assert intervals_of_ticks([at(5)], scrape_interval_seconds=30) == (span(5, 5),)


def test_visible_seconds_are_those_with_eyes_open() -> None:
    spans = (span(0, 100), span(200, 300), span(400, None))

    assert visible_seconds(reported(50, 250), spans=spans) == 100
    assert visible_seconds(reported(50, None, known_until=450), spans=spans) == 200
    assert visible_seconds(reported(350, 390), spans=spans) == 0
