"""What admission keeps of refusals, and what it settles when it misses room."""

from datetime import datetime, timedelta

import pytest

from quotas.domain.admission.values import VerdictCode
from quotas.models import AdmissionRefusal, QuotaLimit, Reservation
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import LATER, ask, beat, counted, drifted, sweep
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

HOUR = timedelta(hours=1)


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm, default_owner=cast.carol)
    return cluster


def watch(cluster: Cluster) -> None:
    """Have a cluster watched."""
    Cluster.objects.filter(pk=cluster.pk).update(is_watched=True)


def test_refusals_of_one_workload_are_one_row_that_counts(cast: Cast, cluster: Cluster) -> None:
    make_limit(cast.acme, units=0)

    for number in range(3):
        ask(cluster, uid=f"pod-{number}", controller="Job/train", at=AT + number * HOUR)
    ask(cluster, uid="alone")

    rows = AdmissionRefusal.objects.order_by("workload")
    assert [(row.workload, row.count, row.code, row.size) for row in rows] == [
        ("Job/train", 3, "limit_reached", "large"),
        ("Pod/alone", 1, "limit_reached", "large"),
    ]
    assert (rows[0].first_at, rows[0].last_at) == (AT, AT + 2 * HOUR)
    assert rows[0].message == "organization acme: 0 of 0 large held, 0 reserved, 1 asked."
    assert (rows[0].username, rows[0].project) == ("carol", cast.llm)


def test_what_expired_unseen_makes_room_at_the_moment_it_is_missed(
    cast: Cast, cluster: Cluster
) -> None:
    limit = make_limit(cast.acme, units=1)
    ask(cluster, uid="lost")
    expiry = LATER

    early = ask(cluster, uid="pod-2", at=expiry - timedelta(seconds=1))
    late = ask(cluster, uid="pod-2", at=expiry)

    assert (early.is_allowed, late.is_allowed) == (False, True)
    lost = Reservation.objects.get(pod_uid="lost")
    assert (lost.state, lost.release_reason, lost.released_at) == ("released", "expired", expiry)
    assert counted(limit) == (0, 1, 0, 0)


def test_a_pod_that_expired_unseen_is_asked_anew(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)
    ask(cluster, uid="lost")
    late = LATER
    ask(cluster, uid="pod-2", at=late)

    refused = ask(cluster, uid="lost", at=late)
    QuotaLimit.objects.update(limit_units=2)
    allowed = ask(cluster, uid="lost", at=late)

    assert (refused.code, allowed.code) == ("limit_reached", "allowed")
    assert counted(limit) == (0, 2, 0, 0)
    assert Reservation.objects.get(pod_uid="lost").state == "reserved"


@pytest.mark.parametrize("healthy_at", [None, AT, LATER - timedelta(seconds=1)])
def test_a_pod_that_a_blind_watch_could_not_see_does_not_expire(
    cast: Cast, cluster: Cluster, healthy_at: datetime | None
) -> None:
    watch(cluster)
    limit = make_limit(cast.acme, units=1)
    ask(cluster, uid="running")
    if healthy_at is not None:
        beat(cluster, healthy_at)

    swept = sweep(LATER + HOUR)
    verdict = ask(cluster, uid="pod-2", at=LATER + HOUR)

    assert (swept.touched, verdict.code) == (0, "limit_reached")
    assert Reservation.objects.get().state == "reserved"
    assert counted(limit) == (0, 1, 0, 0)


@pytest.mark.parametrize("how", ["sweep", "admission"])
def test_a_heartbeat_after_its_time_proves_that_a_pod_is_not_there(
    cast: Cast, cluster: Cluster, how: str
) -> None:
    watch(cluster)
    limit = make_limit(cast.acme, units=1)
    ask(cluster, uid="lost")
    beat(cluster, LATER)

    if how == "sweep":
        assert sweep(LATER).released == 1
    else:
        assert ask(cluster, uid="pod-2", at=LATER).is_allowed

    lost = Reservation.objects.get(pod_uid="lost")
    assert (lost.state, lost.release_reason) == ("released", "expired")
    assert counted(limit) == (0, 0 if how == "sweep" else 1, 0, 0)


def test_eyes_on_one_cluster_prove_nothing_of_another(cast: Cast, cluster: Cluster) -> None:
    watch(cluster)
    other = make_cluster("ampere", is_watched=True)
    make_limit(cast.acme, units=1)
    ask(cluster, uid="running")
    beat(other, LATER + HOUR)

    assert sweep(LATER + HOUR).touched == 0
    assert Reservation.objects.get().state == "reserved"


def test_a_dry_run_sees_what_would_be_settled(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)
    ask(cluster, uid="lost")

    verdict = ask(cluster, uid="pod-2", at=AT + HOUR, is_dry_run=True)

    assert verdict.code is VerdictCode.ALLOWED
    assert Reservation.objects.get().state == "reserved"
    assert counted(limit) == (0, 1, 0, 0)


def test_counters_are_the_sums_of_their_reservations(cast: Cast, cluster: Cluster) -> None:
    make_limit(cast.acme, units=8)
    for number in range(4):
        ask(cluster, uid=f"pod-{number}", is_burst=number == 3)
    make_limit(cast.acme, cast.llm, units=2)
    ask(cluster, uid="one-more")

    assert drifted() == []
