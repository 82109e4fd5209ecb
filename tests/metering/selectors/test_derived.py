"""What is still to be derived: new hours and corrected ones, in order, and which hour is which."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.models import ClusterHealth, MeteringWindow, UsageCorrection
from metering.selectors.efficiency import (
    JudgedWindow,
    corrected_windows,
    has_news,
    is_first_of_day,
    is_newest,
    underived_windows,
)
from metering.services.efficiency.deriving import see_corrections, write_cluster_health
from tests.support.builders import make_cluster
from tests.support.metering.waste_world import (
    DAY,
    WasteWorld,
    add_late,
    correct,
    derive,
    make_waste_world,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def world() -> WasteWorld:
    """A project that holds one whole H100 for a day."""
    made = make_waste_world()
    made.hold()
    return made


def judged(window: MeteringWindow) -> JudgedWindow:
    return JudgedWindow(window.pk, window.cluster_id, window.start_at)


def hours(windows: tuple[JudgedWindow, ...]) -> list[int]:
    return [(window.start_at - DAY) // timedelta(hours=1) for window in windows]


def look(window: MeteringWindow) -> None:
    assert write_cluster_health(window_id=window.pk, at=DAY)


def test_sealed_hours_are_derived_oldest_first_and_once(world: WasteWorld) -> None:
    for hour in (3, 1, 2):
        world.hour(hour)
    world.use(world.window(0), world.held[0])

    assert hours(underived_windows(limit=9)) == [1, 2, 3]
    assert hours(underived_windows(limit=2)) == [1, 2]
    derive()

    assert underived_windows(limit=9) == ()


def test_corrected_hours_are_looked_at_again_oldest_first(world: WasteWorld) -> None:
    windows = [world.hour(hour) for hour in range(4)]
    derive()
    for window in (windows[3], windows[1]):
        correct(window, world.held[0], -1)

    assert hours(corrected_windows(limit=9)) == [1, 3]
    assert hours(corrected_windows(limit=1)) == [1]
    derive()

    assert corrected_windows(limit=9) == ()


def test_an_hour_that_was_never_derived_is_not_looked_at_again(world: WasteWorld) -> None:
    correct(world.hour(0), world.held[0], -1)

    assert corrected_windows(limit=9) == ()
    assert hours(underived_windows(limit=9)) == [0]


def test_news_of_an_hour_are_corrections_after_the_look(world: WasteWorld) -> None:
    window = world.hour(0)
    assert not has_news(window.pk)
    look(window)
    assert not has_news(window.pk)

    correct(window, world.held[0], -1)
    assert has_news(window.pk)
    assert see_corrections(window_id=window.pk)

    assert not has_news(window.pk)
    assert not see_corrections(window_id=window.pk)


def test_a_look_takes_note_of_corrections_before_it(world: WasteWorld) -> None:
    window = world.hour(0)
    correct(window, world.held[0], -1)
    correct(window, world.held[0], 1)

    look(window)

    assert ClusterHealth.objects.get().corrections_seen == 2
    assert not has_news(window.pk)


def test_an_hour_without_a_health_row_has_no_corrections_to_see(world: WasteWorld) -> None:
    window = world.hour(0)
    correct(window, world.held[0], -1)

    assert not see_corrections(window_id=window.pk)
    assert not ClusterHealth.objects.exists()


def test_the_first_hour_of_a_day_is_the_first_that_was_derived(world: WasteWorld) -> None:
    windows = {hour: world.hour(hour) for hour in (-1, 0, 1, 23, 24)}

    look(windows[-1])
    assert is_first_of_day(judged(windows[0]))
    assert is_first_of_day(judged(windows[1]))

    look(windows[1])
    assert is_first_of_day(judged(windows[0]))
    assert not is_first_of_day(judged(windows[23]))
    assert is_first_of_day(judged(windows[24]))


def test_its_own_row_does_not_make_an_hour_the_second_of_its_day(world: WasteWorld) -> None:
    window = world.hour(5)
    look(window)

    assert is_first_of_day(judged(window))
    assert is_newest(judged(window))


def test_clusters_have_days_of_their_own(world: WasteWorld) -> None:
    look(world.hour(0))
    other = make_waste_world("umbrella", make_cluster("ampere"))
    other.hold("other-0")
    window = other.hour(1)

    assert is_first_of_day(judged(window))
    assert is_newest(judged(window))


def test_an_earlier_hour_is_not_the_newest(world: WasteWorld) -> None:
    early, late = world.hour(0), world.hour(1)
    look(late)

    assert not is_newest(judged(early))
    assert is_newest(judged(late))


def test_finding_corrected_hours_takes_one_statement(world: WasteWorld) -> None:
    windows = [world.hour(hour) for hour in range(3)]
    derive()
    for number, window in enumerate(windows):
        add_late(window, world.hold(f"late-{number}"), 60)

    with CaptureQueriesContext(connection) as captured:
        assert hours(corrected_windows(limit=9)) == [0, 1, 2]

    assert len(captured) == 1
    assert UsageCorrection.objects.count() == 3
