"""A watch that is cut off for an hour: exact where it can go on, bounded and reported where not."""

from metering.domain.allocations.timeline import blind_stretches
from metering.models import PodAllocation
from metering.protocols.watch import WatchEvent
from metering.selectors.allocations.watch import watch_spans
from tenants.models import Cluster
from tests.support.metering.allocations.states import (
    Watching,
    deleted,
    ends,
    event,
    lead,
    reported_node,
    reported_pod,
    second_of,
)
from tests.support.metering.seen import HOUR, moment

AWAY, BACK = 600, 4200


def before_the_cut(watching: Watching) -> None:
    """Three pods run, and all is well until `AWAY`."""
    watching.tell(*(event(reported_pod(uid), 5) for uid in ("ends", "finishes", "stays")))
    for second in range(10, AWAY + 1, 10):
        watching.beat(second)


def meanwhile() -> list[WatchEvent]:
    """What happened while nobody watched, as it all comes at once when the watch is back."""
    late = BACK + 1
    return [
        deleted(reported_pod("ends"), late),
        event(reported_pod("finishes", finished=1500), late),
        event(reported_pod("inside", bound=1000), late),
        deleted(reported_pod("inside", bound=1000, finished=1900), late),
        event(reported_pod("new", bound=2000), late),
    ]


def blind(cluster: Cluster) -> list[tuple[int | None, int | None]]:
    """Return the stretches of the hour the watch cannot answer for."""
    end_at = moment(7200)
    spans = watch_spans(cluster.id, HOUR, end_at)
    stretches = blind_stretches(spans, begin_at=HOUR, end_at=end_at)
    return [(second_of(s.begin_at), second_of(s.end_at)) for s in stretches]


def test_a_resumed_watch_loses_nothing(cluster: Cluster, watching: Watching) -> None:
    before_the_cut(watching)
    back = lead(cluster.id)
    back.tell(*meanwhile())
    for second in range(BACK + 10, 7210, 10):
        back.beat(second)

    assert ends() == [
        # Nobody reported when: the API gives a deletion no time of its own.
        ("ends", 0, AWAY, "vanished_in_gap", BACK + 1 - AWAY),
        ("finishes", 0, 1500, "exact", 0),
        ("inside", 1000, 1900, "exact", 0),
        ("new", 2000, None, "open", 0),
        ("stays", 0, None, "open", 0),
    ]
    assert blind(cluster) == []


def test_a_watch_that_had_to_list_again_bounds_what_ended_and_shows_it_was_blind(
    cluster: Cluster, watching: Watching
) -> None:
    before_the_cut(watching)
    back = lead(cluster.id)
    back.list(BACK, reported_node())
    back.list(
        BACK,
        reported_pod("stays"),
        reported_pod("finishes", finished=1500),
        reported_pod("new", bound=2000),
    )
    for second in range(BACK + 10, 7210, 10):
        back.beat(second)

    assert ends() == [
        ("ends", 0, AWAY, "vanished_in_gap", BACK - AWAY),
        ("finishes", 0, 1500, "exact", 0),
        # "inside" came and went: no source of ours knows it, and the blind stretch shows so.
        ("new", 2000, None, "open", 0),
        ("stays", 0, None, "open", 0),
    ]
    assert blind(cluster) == [(AWAY, BACK + 10)]


def test_what_a_late_stream_shows_replaces_what_a_list_had_to_bound(
    cluster: Cluster, watching: Watching
) -> None:
    before_the_cut(watching)
    watching.list(BACK, reported_pod("stays"))
    assert PodAllocation.objects.get(pod_uid="finishes").end_kind == "vanished_in_gap"

    lead(cluster.id).tell(event(reported_pod("finishes", finished=1500), BACK + 1))

    assert ends()[1] == ("finishes", 0, 1500, "exact", 0)


def test_a_first_list_ever_opens_what_runs_and_guesses_nothing_of_the_past(
    cluster: Cluster,
) -> None:
    first = lead(cluster.id)
    first.list(3000, reported_pod(bound=-86_400), reported_pod("b", finished=2000))
    first.beat(3010)

    assert ends() == [("b", 0, 2000, "exact", 0), ("uid-1", -86_400, None, "open", 0)]
    assert blind(cluster) == [(0, 3010), (3010, 7200)]
