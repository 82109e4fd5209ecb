"""A plan says who would go, and does nothing."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.catalogue.units import GPUSize
from metering.models import ClaimConsumer, QueuedPod
from quotas.domain.errors import (
    PreemptionInputError,
    PreemptionNotNeededError,
    PreemptionRunningError,
)
from quotas.domain.preemption.overage import OverageKind
from quotas.models import PreemptionAction, PreemptionPlan, QuotaGrant, Reservation
from quotas.services.preemption.planning import (
    YieldDemand,
    overage_from_json,
    overage_to_json,
    plan_preemption,
)
from quotas.services.preemption.protected_windows import close_window
from simulator.adapters.workload_evictor import SimulatedWorkloadEvictor
from tenants.domain.errors import ForbiddenError
from tenants.models import AuditEntry, Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit
from tests.support.quotas.preempting import admit, let_go, protect
from tests.support.quotas.preemption_steps import TICK, execute, order
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster(cast: Cast) -> Cluster:
    """Three pods of LLM and one of Vision, where Acme may hold three large units."""
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=3)
    make_limit(cast.acme, cast.llm, units=2)
    for number in range(3):
        admit(hopper, cast.llm, f"llm-{number}", age_minutes=10 + number)
    admit(hopper, cast.vision, "vision-0", age_minutes=1)
    return hopper


def plan_of(cast: Cast, **fields: object) -> PreemptionPlan:
    given = {"organization": cast.acme, "actor": TICK, "at": AT, **fields}
    return plan_preemption(**given)  # type: ignore[arg-type]


@pytest.mark.usefixtures("cluster")
def test_a_plan_shows_what_is_over_and_who_would_go(cast: Cast) -> None:
    plan = plan_of(cast)

    (step,) = PreemptionAction.objects.all()
    assert [one["sentence"] for one in plan.overage] == [
        "1 large over the limit of organization acme",
        "1 large over the limit of project llm",
    ]
    assert (plan.state, plan.is_dry_run, plan.reason) == ("planned", True, "over_limit")
    assert (plan.remainders, plan.not_before) == ([], None)
    assert plan.expires_at == AT + timedelta(hours=1)
    assert (step.pod_name, step.pod_uid, step.victim) == ("llm-0", "uid-llm-0", 0)
    assert (step.project, step.username, step.units) == (cast.llm, "carol", {"large": 1})
    assert (step.step, step.state) == ("evict", "planned")
    assert step.reason.startswith("Over the limit of its own project or user, priority 0")


@pytest.mark.usefixtures("cluster")
def test_nothing_is_done_in_any_cluster(cast: Cast) -> None:
    plan_of(cast)

    assert SimulatedWorkloadEvictor.cluster("hopper").asked == []


@pytest.mark.usefixtures("cluster")
def test_a_plan_leaves_one_audit_entry(cast: Cast) -> None:
    plan = plan_of(cast, actor=actor_of(cast.frank))

    entry = AuditEntry.objects.get(action="quotas:preemption:plan")
    assert (entry.object_id, entry.organization_id) == (str(plan.pk), cast.acme.pk)
    assert entry.facts == {
        "reason": "over_limit",
        "overage": [one["sentence"] for one in plan.overage],
        "victims": 1,
        "pods": 1,
        "remains": 0,
    }


def test_who_fits_needs_no_plan(cast: Cast) -> None:
    make_limit(cast.acme, units=3)
    admit(make_cluster("hopper"), cast.llm, "a", units=3)

    with pytest.raises(PreemptionNotNeededError):
        plan_of(cast)
    assert not PreemptionPlan.objects.exists()


def test_a_grant_counts_and_its_end_counts_too(cast: Cast) -> None:
    limit = make_limit(cast.acme, units=1)
    admit(make_cluster("hopper"), cast.llm, "a", units=3)
    QuotaGrant.objects.create(
        limit=limit,
        organization=cast.acme,
        units=2,
        valid=(AT - timedelta(days=1), AT + timedelta(minutes=1)),
        reason="manual",
        created_at=AT,
    )

    with pytest.raises(PreemptionNotNeededError):
        plan_of(cast)
    later = plan_of(cast, at=AT + timedelta(minutes=1))
    assert [one["units"] for one in later.overage] == [2]


def test_a_whole_job_is_suspended(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=1)
    for number in range(2):
        admit(hopper, cast.llm, f"w-{number}", controller="Job/train")
    admit(hopper, cast.llm, "w-2", controller="Job/train", is_bound=False)

    plan = plan_of(cast)

    rows = PreemptionAction.objects.filter(plan=plan)
    assert {(row.step, row.victim) for row in rows} == {("suspend", 0)}
    assert {row.pod_name: row.units for row in rows} == {
        "w-0": {"large": 1},
        "w-1": {"large": 1},
        "w-2": {},
    }


def test_priorities_decide_and_system_pods_stay(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    admit(hopper, cast.llm, "important", priority=100)
    admit(hopper, cast.llm, "cheap", priority=-1, age_minutes=999)
    admit(hopper, cast.llm, "node", priority=2_000_001_000)
    admit(hopper, cast.llm, "critical", priority_class="system-cluster-critical")

    plan = plan_of(cast)

    assert order(plan) == ["cheap", "important"]
    assert plan.remainders == [
        {
            "units": 2,
            "sentence": "2 large over the limit of organization acme",
            "why": "May not go: 2 of the system.",
        }
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_in_a_protected_window_stays(cast: Cast, *, whole: bool) -> None:
    make_limit(cast.acme, units=0)
    admit(make_cluster("hopper"), cast.llm, "a")
    protect(cast.acme, None if whole else cast.llm)
    protect(cast.acme, cast.vision)
    protect(cast.umbrella)

    plan = plan_of(cast)

    assert order(plan) == []
    assert plan.remainders[0]["why"] == "May not go: 1 in a protected window (release)."


def test_a_cancelled_window_protects_nobody_even_within_its_times(cast: Cast) -> None:
    make_limit(cast.acme, units=0)
    admit(make_cluster("hopper"), cast.llm, "a")
    window = protect(cast.acme, begin_at=AT)
    spared = order(plan_of(cast))

    close_window(window_id=window.pk, actor=actor_of(cast.frank), at=AT)

    assert (spared, order(plan_of(cast))) == ([], ["a"])


def test_a_protected_window_that_has_ended_protects_nobody(cast: Cast) -> None:
    make_limit(cast.acme, units=0)
    admit(make_cluster("hopper"), cast.llm, "a")
    protect(cast.acme, end_at=AT)

    assert order(plan_of(cast)) == ["a"]


def test_a_pod_whose_deletion_was_asked_for_counts_as_free(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=1)
    going = admit(hopper, cast.llm, "going")
    admit(hopper, cast.llm, "stays")
    QueuedPod.objects.create(
        cluster=hopper,
        pod_uid=going.pod_uid,
        namespace="llm",
        pod_name="going",
        created_at=AT,
        bound_at=AT,
        deletion_at=AT,
    )

    plan = plan_of(cast)

    assert order(plan) == []
    assert plan.remainders == []


def test_what_ended_before_the_sweep_has_seen_it_counts_as_free(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    ended = admit(hopper, cast.llm, "ended")
    let_go(ended)
    Reservation.objects.filter(pk=ended.pk).update(state="held", released_at=None)

    assert order(plan_of(cast)) == []


def test_a_pod_with_two_kinds_of_devices_is_one_pod(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    large = admit(hopper, cast.llm, "both", units=2)
    Reservation.objects.create(
        **{
            **{
                name: getattr(large, name)
                for name in ("cluster", "pod_uid", "namespace", "pod_name", "organization")
            },
            "project": cast.llm,
            "resource": "nvidia.com/mig-1g.10gb",
            "size": "small",
            "units": 1,
            "state": "held",
            "origin": "admission",
            "admitted_at": AT,
        }
    )

    plan_of(cast)

    assert PreemptionAction.objects.get().units == {"large": 2, "small": 1}


def test_pods_that_share_a_claim_go_together(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    claim = admit(hopper, cast.llm, "shared", uid="uid-claim")
    Reservation.objects.filter(pk=claim.pk).update(resource="claim/gpu.nvidia.com")
    for name in ("b", "a"):
        ClaimConsumer.objects.create(
            cluster=hopper,
            claim_uid="uid-claim",
            pod_uid=f"uid-{name}",
            pod_name=name,
            begin_at=AT,
        )

    plan_of(cast)

    rows = PreemptionAction.objects.order_by("pod_name")
    assert [(row.pod_uid, row.units, row.victim) for row in rows] == [
        ("uid-a", {"large": 1}, 0),
        ("uid-b", {}, 0),
    ]
    assert {(row.controller, row.step) for row in rows} == {("", "evict")}


def test_burst_yields_what_is_asked_and_nominal_stays(cast: Cast) -> None:
    hopper, ampere = make_cluster("hopper"), make_cluster("ampere")
    make_limit(cast.acme, units=9)
    admit(hopper, cast.llm, "nominal")
    for cluster, name in ((hopper, "burst-0"), (hopper, "burst-1"), (ampere, "burst-2")):
        admit(cluster, cast.llm, name, is_burst=True)
    cast.acme.quota_limits.update(burst_units=9)

    plan = plan_of(cast, yields=[YieldDemand(GPUSize.LARGE, 3, hopper.pk)])

    assert plan.reason == "burst_yield"
    assert order(plan) == ["burst-0", "burst-1"]
    assert plan.remainders[0]["units"] == 1
    assert plan.remainders[0]["why"] == "No known pod holds it."


@pytest.mark.parametrize("units", [0, -1, 1_000_001])
def test_so_much_cannot_be_yielded(cast: Cast, units: int) -> None:
    with pytest.raises(PreemptionInputError) as refusal:
        plan_of(cast, yields=[YieldDemand(GPUSize.SMALL, 1), YieldDemand(GPUSize.LARGE, units)])

    assert [one.field for one in refusal.value.problems] == ["yields.1.units"]
    assert not PreemptionPlan.objects.exists()


@pytest.mark.usefixtures("cluster")
def test_a_newer_plan_takes_an_older_ones_place(cast: Cast) -> None:
    older, newer = plan_of(cast), plan_of(cast)

    older.refresh_from_db()
    assert (older.state, older.message) == ("expired", "A newer plan was made.")
    assert newer.state == "planned"


@pytest.mark.usefixtures("cluster")
def test_while_a_plan_runs_no_other_is_made(cast: Cast) -> None:
    execute(plan_of(cast))

    with pytest.raises(PreemptionRunningError):
        plan_of(cast)
    assert PreemptionPlan.objects.count() == 1


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", ["bob", "carol", "ann", "dora", "mallory"])
def test_others_may_not_plan(cast: Cast, name: str) -> None:
    with pytest.raises(ForbiddenError):
        plan_of(cast, actor=actor_of(getattr(cast, name)))
    assert not PreemptionPlan.objects.exists()


def test_the_number_of_statements_does_not_grow_with_pods(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    make_limit(cast.acme, cast.llm, units=0)
    counts = []
    for number in range(3):
        for place in range(5):
            admit(hopper, cast.llm, f"pod-{number}-{place}")
        with CaptureQueriesContext(
            connection,
        ) as asked:
            plan_of(cast)
        counts.append(len(asked))

    assert counts[1] == counts[2]


def test_a_stored_overage_is_read_back_as_it_was(cast: Cast) -> None:
    make_limit(cast.acme, units=0)
    admit(make_cluster("hopper"), cast.llm, "a")

    (stored,) = plan_of(cast, yields=[]).overage

    overage = overage_from_json(stored)
    assert (overage.kind, overage.units) == (OverageKind.NOMINAL, 1)
    assert overage_to_json(overage) == stored
