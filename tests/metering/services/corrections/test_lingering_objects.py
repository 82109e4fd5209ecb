"""The object of a pod that ended stays: what shows it later does not shorten what it held."""

from datetime import datetime, timedelta

import pytest

from metering.domain.collection.windows import GapPolicy
from metering.models import MeteringWindow, PodAllocation, UsageRecord
from metering.protocols import Observation
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ACTOR, HOUR, moment, observation, pod, ticks, worker

pytestmark = pytest.mark.django_db

OLD = HOUR + timedelta(days=3)
ENDED = moment(2 * 3600 + 1507)
"""In the third hour, as its first terminal sample shows; the object has no time of its end."""


def hour(number: int, **fields: object) -> Observation:
    """Return an hour whose scrapes show one pod, bound 10 minutes before the first hour."""
    start_at = HOUR + timedelta(hours=number)
    begin = 1800 if number == 1 else -120
    seen_until = {"last_seen_at": start_at + timedelta(seconds=4477), **fields}
    first_seen_at = start_at + timedelta(seconds=begin + 7)
    return observation(
        pod("a", first_seen_at=first_seen_at, **seen_until),  # type: ignore[arg-type]
        start_at=start_at,
        end_at=start_at + timedelta(hours=1),
        ticks=ticks(begin=begin, start_at=start_at),
    )


def terminal(number: int) -> datetime:
    """Return the first scrape that an hour looks at."""
    return HOUR + timedelta(hours=number) + timedelta(seconds=-113)


def test_a_gap_bills_what_it_observed_though_the_object_stayed_for_hours() -> None:
    cluster = make_cluster(metered_from=HOUR)
    bind(cluster, "team-nlp", make_project(make_organization()))
    metering = worker(
        hour(0),
        hour(1),
        hour(2, terminal_seen_at=ENDED),
        hour(3, terminal_seen_at=terminal(3)),
    )
    meter_due(worker=metering, at=OLD)
    gap = MeteringWindow.objects.get(start_at=HOUR + timedelta(hours=1))
    assert (gap.state, gap.shown["unit_seconds"]) == ("gap", 3600)
    row = PodAllocation.objects.get()
    assert (row.end_at, row.end_kind) == (ENDED, "vanished")

    decide_window(
        window_id=gap.pk, decision=GapPolicy.ACCEPT, note="It ran on.", actor=ACTOR, at=OLD
    )
    meter_due(worker=metering, at=OLD)

    gap.refresh_from_db()
    assert gap.state == "sealed"
    billed = UsageRecord.objects.order_by("window_start").values_list("unit_seconds", flat=True)
    assert list(billed) == [3600, 3600, 1507]


def test_an_end_in_a_gap_is_never_put_before_the_last_sample_of_the_running_pod() -> None:
    cluster = make_cluster(metered_from=HOUR)
    bind(cluster, "team-nlp", make_project(make_organization()))
    metering = worker(hour(0), hour(3, terminal_seen_at=terminal(3)))

    meter_due(worker=metering, at=OLD)

    row = PodAllocation.objects.get()
    assert (row.end_at, row.end_kind) == (moment(4477), "vanished_in_gap")
    assert moment(4477 + row.end_slack_seconds) >= terminal(3)
