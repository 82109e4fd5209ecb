"""Reservations follow their pods, and counters follow them, whatever the watch shows."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.models import PodAllocation
from quotas.domain.admission.live_use import Bypass, LiveUseSweep
from quotas.models import QuotaCounter, QuotaLimit, Reservation
from quotas.services.admission.live_use import repair_counters
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Cluster, NamespaceBinding
from tests.support.builders import AT, bind
from tests.support.cast import Cast
from tests.support.quotas.admitting import (
    LATER,
    ask,
    beat,
    counted,
    demand,
    drifted,
    end,
    see,
    start,
    state,
    sweep,
)
from tests.support.quotas.builders import audit_actions, make_limit

ACTOR = system_actor("tests")


def test_a_pod_that_was_not_seen_in_time_expires(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster)

    early = sweep(LATER - timedelta(seconds=1))
    kept = counted(limit)
    beat(cluster, LATER)
    late = sweep()

    assert (early, kept) == (LiveUseSweep(), (0, 1, 0, 0))
    assert late == LiveUseSweep(released=1)
    assert (state(), counted(limit)) == (("released", "expired"), (0, 0, 0, 0))


def test_a_pod_that_was_seen_waits_for_ever(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster)
    see(cluster)

    swept = sweep()

    assert swept == LiveUseSweep(changed=1)
    assert sweep(LATER + timedelta(days=30)) == LiveUseSweep()
    assert (state(), counted(limit)) == (("reserved", ""), (0, 1, 0, 0))


def test_a_seen_pod_does_not_expire_in_admission_either(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster, "llm", "pod-1", demand(8))
    see(cluster)

    assert not ask(cluster, uid="pod-2", at=LATER).is_allowed
    assert counted(limit) == (0, 8, 0, 0)


def test_a_bound_pod_holds_what_it_really_got(cast: Cast, cluster: Cluster) -> None:
    large, small = make_limit(cast.acme, units=8), make_limit(cast.acme, units=8, size="small")
    hopper = make_limit(cast.acme, cast.llm, units=8, size="small")
    QuotaLimit.objects.filter(pk=hopper.pk).update(model_group="H100")
    ask(cluster, "llm", "pod-1", demand(2, groups=("A100", "H100")))
    start(cluster, size="small", units=2, price_group="A100/1g.5gb")

    swept = sweep()

    assert swept == LiveUseSweep(changed=1)
    assert [counted(row) for row in (large, small, hopper)] == [
        (0, 0, 0, 0),
        (2, 0, 0, 0),
        (0, 0, 0, 0),
    ]
    row = Reservation.objects.get()
    assert (row.state, row.size, row.model_groups) == ("held", "small", ["A100"])
    assert (row.held_at, row.expires_at) == (LATER, None)


@pytest.mark.parametrize("how", ["sweep", "admission"])
def test_an_ended_pod_gives_its_units_back(cluster: Cluster, limit: QuotaLimit, how: str) -> None:
    ask(cluster, "llm", "pod-1", demand(8))
    allocation = start(cluster, units=8)
    sweep(AT)
    assert counted(limit) == (8, 0, 0, 0)
    end(allocation)

    if how == "sweep":
        assert sweep() == LiveUseSweep(released=1)
    else:
        assert ask(cluster, "llm", "pod-2", demand(8), at=LATER).is_allowed

    assert state() == ("released", "ended")
    assert counted(limit) == (0, 0 if how == "sweep" else 8, 0, 0)
    assert drifted() == []


@pytest.mark.parametrize("how", ["sweep", "admission"])
def test_a_pod_that_went_without_being_bound_gives_its_units_back(
    cluster: Cluster, limit: QuotaLimit, how: str
) -> None:
    ask(cluster, "llm", "pod-1", demand(8))
    see(cluster, gone_at=AT)

    assert sweep(AT).released == 1 if how == "sweep" else ask(cluster, uid="pod-2").is_allowed

    assert state() == ("released", "gone")
    assert counted(limit) == (0, 0 if how == "sweep" else 1, 0, 0)


def test_a_pod_that_ended_is_not_asked_anew(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster)
    end(start(cluster))
    sweep()

    assert ask(cluster, at=LATER).code == "replayed_otherwise"
    assert counted(limit) == (0, 0, 0, 0)


def test_a_bound_pod_that_nobody_let_in_is_found_even_above_the_limit(
    cast: Cast, cluster: Cluster
) -> None:
    limit = make_limit(cast.acme, units=1)
    start(cluster, units=2, owner="bob")
    start(cluster, "pod-2", units=3)

    swept = sweep()

    assert swept == LiveUseSweep(found=2, bypasses=(Bypass("hopper", "llm", "large", 2, 5),))
    assert counted(limit) == (5, 0, 0, 0)
    row = Reservation.objects.get(pod_uid="pod-1")
    assert (row.origin, row.state, row.username, row.project) == ("found", "held", "bob", cast.llm)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.facts) == (
        "quotas:admission:bypassed",
        {"pods": 2, "units": 5, "namespaces": ["hopper/llm"]},
    )


def test_in_a_cluster_that_does_not_admit_finding_is_no_bypass(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    Cluster.objects.update(admission_mode="off")
    start(cluster)

    assert sweep() == LiveUseSweep(found=1)
    assert counted(limit) == (1, 0, 0, 0)
    assert audit_actions() == []


def test_a_preemptible_pod_that_is_found_counts_as_burst(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    start(cluster, priority_class="gpu-ledger-burst")

    sweep()

    assert counted(limit) == (0, 0, 1, 0)


def test_an_expired_pod_that_turns_up_counts_again(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster, uid="waiting")
    ask(cluster, uid="bound")
    beat(cluster, LATER)
    sweep()
    see(cluster, "waiting")
    start(cluster, "bound")

    swept = sweep(LATER + timedelta(minutes=1))

    assert swept == LiveUseSweep(changed=2, bypasses=(Bypass("hopper", "llm", "large", 2, 2),))
    assert audit_actions() == ["quotas:admission:bypassed"]
    assert (state("waiting"), state("bound")) == (("reserved", ""), ("held", ""))
    assert counted(limit) == (1, 1, 0, 0)
    assert set(Reservation.objects.values_list("origin", flat=True)) == {"found"}


def test_what_has_no_size_yet_counts_once_it_gets_one(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster, uid="admitted")
    for uid in ("admitted", "found"):
        start(cluster, uid, size="", price_group="", catalogue_version=None)

    sweep(AT)
    unsized = counted(limit)
    sized = PodAllocation.objects.filter(size="")
    sized.update(size="large", price_group="H100/whole", catalogue_version=1)
    sweep()

    assert (unsized, counted(limit)) == ((1, 0, 0, 0), (2, 0, 0, 0))


def test_a_namespace_that_moves_takes_its_pods_along(cast: Cast, cluster: Cluster) -> None:
    acme, umbrella = make_limit(cast.acme, units=8), make_limit(cast.umbrella, units=8)
    virus = make_limit(cast.umbrella, cast.virus, units=8)
    ask(cluster, uid="waiting")
    see(cluster, "waiting")
    start(cluster, "bound", units=2)
    sweep(AT)
    before = [counted(limit) for limit in (acme, umbrella, virus)]
    NamespaceBinding.objects.update(valid=DateTimeTZRange(AT - timedelta(days=1), LATER))
    bind(cluster, "llm", cast.virus, begin_at=LATER)

    swept = sweep()

    assert before == [(2, 1, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)]
    assert swept == LiveUseSweep(changed=2)
    assert [counted(limit) for limit in (acme, umbrella, virus)] == [
        (0, 0, 0, 0),
        (2, 1, 0, 0),
        (2, 1, 0, 0),
    ]


def test_a_namespace_of_nobody_counts_for_nobody_until_it_is_bound_again(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    start(cluster)
    sweep(AT)
    binding = NamespaceBinding.objects.get()
    NamespaceBinding.objects.update(valid=DateTimeTZRange(AT - timedelta(days=1), AT))

    nobodys = (sweep(), counted(limit), state(), sweep())
    NamespaceBinding.objects.filter(pk=binding.pk).update(valid=DateTimeTZRange(AT, None))
    again = (sweep(), counted(limit), state())

    assert nobodys == (
        LiveUseSweep(released=1),
        (0, 0, 0, 0),
        ("released", "unbound"),
        LiveUseSweep(),
    )
    assert again == (LiveUseSweep(changed=1), (1, 0, 0, 0), ("held", ""))


def test_a_new_default_owner_takes_over_what_no_label_claims(cast: Cast, cluster: Cluster) -> None:
    bob, carol = (make_limit(cast.acme, cast.llm, user, units=8) for user in (cast.bob, cast.carol))
    own(cast.bob)
    ask(cluster, uid="waiting")
    see(cluster, "waiting")
    start(cluster, "bound")
    start(cluster, "labelled", owner="bob")
    sweep(AT)
    before = (counted(bob), counted(carol))
    own(cast.carol)

    sweep()

    assert before == ((2, 1, 0, 0), (0, 0, 0, 0))
    assert (counted(bob), counted(carol)) == ((1, 0, 0, 0), (1, 1, 0, 0))


def own(user: User) -> None:
    NamespaceBinding.objects.update(default_owner=user)


def test_a_counter_that_is_off_is_repaired_and_reported(
    cluster: Cluster, limit: QuotaLimit, cast: Cast
) -> None:
    other = make_limit(cast.umbrella, units=8)
    ask(cluster)
    QuotaCounter.objects.update(held_units=3, reserved_units=0)

    first = repair_counters(actor=ACTOR, at=LATER)
    second = repair_counters(actor=ACTOR, at=LATER + timedelta(minutes=5))

    assert [(repair.limit_id, repair.drift_units) for repair in first] == [(limit.pk, 4)]
    assert second == ()
    assert counted(limit) == (0, 1, 0, 0)
    assert counted(other) == (0, 0, 0, 0)
    assert QuotaCounter.objects.get(pk=limit.pk).drift_units == 0
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.facts) == (
        "quotas:counter:repaired",
        {"drift_units": 4, "limits": [str(limit.pk)]},
    )


@pytest.mark.usefixtures("limit")
def test_a_repair_leaves_its_drift_on_the_counter(cluster: Cluster) -> None:
    ask(cluster)
    QuotaCounter.objects.update(reserved_units=0)

    repair_counters(actor=ACTOR, at=LATER)

    row = QuotaCounter.objects.get()
    assert (row.drift_units, row.checked_at) == (1, LATER)


def test_a_counter_that_drifted_below_stops_nobody(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster)
    beat(cluster, LATER)
    QuotaCounter.objects.update(reserved_units=0)

    assert sweep() == LiveUseSweep(released=1)
    assert counted(limit) == (0, 0, 0, 0)
