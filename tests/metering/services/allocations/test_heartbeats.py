"""Heartbeats make spans: one goes on until the watch was silent or had to list again."""

import pytest

from metering.domain.allocations.timeline import covered_seconds
from metering.models import ClusterWatch, WatchCursor, WatchSpan
from metering.protocols.watch import WatchedKind
from metering.selectors.allocations.watch import cursor_of, watch_spans
from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.metering.allocations.states import Watching, lead, reported_pod, second_of
from tests.support.metering.seen import HOUR, moment


def spans() -> list[tuple[int | None, int | None, bool]]:
    return [
        (second_of(span.begin_at), second_of(span.until_at), span.is_resumed)
        for span in WatchSpan.objects.order_by("begin_at")
    ]


def test_heartbeats_move_the_end_of_one_span(watching: Watching) -> None:
    for second in (10, 20, 50):
        watching.beat(second)

    assert spans() == [(0, 50, False)]
    assert second_of(ClusterWatch.objects.get().healthy_at) == 50


def test_silence_begins_a_new_span_that_says_whether_anything_was_lost(watching: Watching) -> None:
    watching.beat(31)
    watching.beat(100)
    watching.list(190, reported_pod())
    watching.beat(200)

    assert spans() == [(0, 0, False), (31, 31, True), (100, 100, True), (200, 200, False)]


def test_a_list_after_a_break_begins_a_new_span_however_short_the_break(
    watching: Watching,
) -> None:
    watching.list(5, reported_pod())
    watching.beat(10)
    watching.beat(20)

    assert spans() == [(0, 0, False), (10, 20, False)]


def test_a_span_begins_with_the_answer_to_the_list_it_continues_from(watching: Watching) -> None:
    watching.list(50, reported_pod())
    watching.beat(54, since=51)
    watching.beat(64)

    assert spans() == [(0, 0, False), (51, 64, False)]


def test_a_list_beside_a_living_stream_breaks_no_span(watching: Watching) -> None:
    watching.list(5, reported_pod(), is_afresh=False)
    watching.beat(10)

    assert spans() == [(0, 10, False)]


def test_a_list_beside_a_living_stream_hides_no_hole_that_no_heartbeat_has_reported_yet(
    watching: Watching,
) -> None:
    watching.list(600, reported_pod())
    watching.list(660, reported_pod(), is_afresh=False)
    watching.beat(670)

    assert spans() == [(0, 0, False), (670, 670, False)]


def test_the_hole_before_a_list_is_reported_by_anyone_who_beats_next(
    cluster: Cluster, watching: Watching
) -> None:
    """The process that listed died before its first heartbeat; the next one goes on from there."""
    watching.list(10_000, reported_pod())

    lead(cluster.id, "watcher-1").beat(10_020)
    lead(cluster.id, "watcher-1").beat(10_060)

    assert spans() == [(0, 0, False), (10_020, 10_020, False), (10_060, 10_060, True)]
    found = watch_spans(cluster.id, HOUR, moment(3600))
    assert covered_seconds(found, begin_at=HOUR, end_at=moment(3600)) == 0
    assert not WatchCursor.objects.filter(is_afresh=True).exists()


def test_a_late_heartbeat_moves_nothing_back(watching: Watching) -> None:
    watching.beat(20)
    watching.beat(15)

    assert spans() == [(0, 20, False)]
    assert second_of(ClusterWatch.objects.get().healthy_at) == 20


def test_the_spans_of_an_hour_come_with_their_neighbours(
    cluster: Cluster, watching: Watching
) -> None:
    for second in (-7000, -900, 100, 200, 3700, 7500):
        WatchSpan.objects.get_or_create(
            cluster=cluster,
            begin_at=moment(second),
            defaults={"until_at": moment(second + 50), "is_resumed": True},
        )
    watching.beat(0)

    found = watch_spans(cluster.id, HOUR, moment(3600))

    assert [second_of(span.begin_at) for span in found] == [-900, 0, 100, 200, 3700]
    assert covered_seconds(found, begin_at=HOUR, end_at=moment(3600)) == 3600


@pytest.mark.usefixtures("watching")
def test_another_clusters_spans_and_cursors_are_not_ours(cluster: Cluster) -> None:
    other = make_cluster("ampere", is_watched=True)
    lead(other.id).beat(30)

    assert [second_of(s.begin_at) for s in watch_spans(cluster.id, HOUR, moment(3600))] == [0]
    assert cursor_of(other.id, WatchedKind.PODS) is None
    assert cursor_of(cluster.id, WatchedKind.PODS) == "100"


def test_a_heartbeat_older_than_a_list_neither_hides_its_hole_nor_makes_one(
    watching: Watching,
) -> None:
    watching.list(100, reported_pod())
    watching.beat(60)

    assert spans() == [(0, 0, False)]

    watching.beat(110)

    assert spans() == [(0, 0, False), (110, 110, False)]


def test_the_first_heartbeat_of_all_opens_a_span(cluster: Cluster) -> None:
    lead(cluster.id).beat(0)

    assert spans() == [(0, 0, True)]
