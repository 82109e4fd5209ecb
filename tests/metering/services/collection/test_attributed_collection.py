"""Collection: what cannot be sized or attributed is held, what was settled stays so."""

from datetime import timedelta

import pytest

from metering.domain.collection.windows import WindowState
from metering.models import (
    CapacityRecord,
    ExceptionState,
    MeteringException,
    PodAllocation,
    UsageRecord,
)
from metering.services.collection.collecting import collect_window
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.models import Cluster, Project
from tests.support.builders import bind, make_organization, make_project, make_user
from tests.support.metering.collecting import DUE, collect, exceptions, usage
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    SLICED_A100,
    device,
    moment,
    node,
    observation,
    pod,
    ticks,
    worker,
)

pytestmark = pytest.mark.usefixtures("project")


# ---------------------------------------------------------------- what is held


def test_an_unknown_device_is_held_and_not_billed() -> None:
    seen = observation(
        pod("a", "nvidia_com_mig_9g_10gb", 2),
        nodes=(node(allocatable={"nvidia_com_mig_9g_10gb": 3}),),
    )

    assert collect(seen).state is WindowState.RECONCILED

    assert usage() == []
    assert exceptions() == [("unknown_device", "a nvidia_com_mig_9g_10gb", 7200)]
    capacity = CapacityRecord.objects.get()
    assert capacity.size == ""
    assert (capacity.held_unit_seconds, capacity.idle_unit_seconds) == (7200, 3600)


def test_a_node_without_labels_is_an_exception_of_its_own() -> None:
    collect(observation(pod("a", labels={})))

    assert exceptions() == [("unknown_node", "a nvidia_com_gpu", 3600)]


def test_a_node_with_two_models_is_refused() -> None:
    seen = observation(
        pod("a"), devices=(device(), device("GPU-2", model="NVIDIA L40S", pod="", namespace=""))
    )

    collect(seen)

    [found] = MeteringException.objects.all()
    assert (found.kind, found.details["cause"]) == ("unknown_device", "mixed_models")


def test_an_unbound_namespace_is_held_until_it_is_bound_and_metered_again(
    cluster: Cluster, project: Project
) -> None:
    seen = observation(pod("a", namespace="stray"))
    collect(seen)
    assert exceptions() == [("unbound_namespace", "a nvidia_com_gpu", 3600)]
    assert not PodAllocation.objects.exists()

    bind(cluster, "stray", project)
    collect(seen)

    assert usage() == [("a", "large", "H100/whole", "whole", 1, 3600, 3600)]
    assert exceptions() == []
    assert exceptions(ExceptionState.RESOLVED) == [("unbound_namespace", "a nvidia_com_gpu", 3600)]


def test_an_impossible_request_is_an_exception() -> None:
    collect(observation(pod("a", units=10_001), pod("b", units=-1)))

    assert usage() == []
    assert exceptions() == [
        ("invalid_request", "a nvidia_com_gpu", 0),
        ("invalid_request", "b nvidia_com_gpu", 0),
    ]


def test_an_impossible_request_for_an_unknown_device_is_one_too() -> None:
    collect(
        observation(
            pod("a", "nvidia_com_gpumem", -1),
            pod("b", "nvidia_com_gpumem", 10**12 + 1),
            pod("c", "nvidia_com_gpumem", 40_960),
            nodes=(node(allocatable={"nvidia_com_gpumem": 81_920}),),
        )
    )

    assert exceptions() == [
        ("invalid_request", "a nvidia_com_gpumem", 0),
        ("invalid_request", "b nvidia_com_gpumem", 0),
        ("unknown_device", "c nvidia_com_gpumem", 40_960 * 3600),
    ]


@pytest.mark.parametrize("resource", ["amd_com_gpu", "nvidia_com_GRID_T4_4Q", "habana_ai_gaudi"])
def test_an_accelerator_that_no_rule_can_size_is_an_exception_that_names_it(resource: str) -> None:
    collect(observation(pod("a", resource, 2), nodes=(node(allocatable={resource: 8}),)))

    assert exceptions() == [("unknown_device", f"a {resource}", 2 * 3600)]
    [found] = MeteringException.objects.all()
    assert found.summary.endswith(f"holds 2 x {resource} on node-1.")


def test_a_request_for_nothing_is_nothing() -> None:
    collect(observation(pod("a", units=0)))

    assert (usage(), exceptions()) == ([], [])


# ---------------------------------------------------------------- owners


def test_the_label_owns_before_the_bindings_default_and_nobody_is_not_dropped(
    cluster: Cluster, project: Project
) -> None:
    bind(cluster, "team-cv", project, default_owner=make_user("bob"))

    collect(
        observation(
            pod("a", namespace="team-cv", owner="carol"),
            pod("b", namespace="team-cv"),
            pod("c"),
        )
    )

    owners = dict(UsageRecord.objects.values_list("pod_uid", "owner"))
    assert owners == {"a": "carol", "b": "bob", "c": ""}


def test_a_default_owner_stays_with_its_tenant_when_the_namespace_moves() -> None:
    cluster = Cluster.objects.get()
    noon = HOUR + timedelta(hours=1)
    ours, theirs = (make_project(make_organization(slug), slug) for slug in ("ours", "theirs"))
    bind(cluster, "moved", ours, end_at=noon, default_owner=make_user("bob"))
    bind(cluster, "moved", theirs, begin_at=noon, default_owner=make_user("dan"))
    last = moment(7200 + LATER)
    pods = (
        pod("a", namespace="moved", last_seen_at=last),
        pod("b", namespace="moved", owner="carol", last_seen_at=last),
    )
    collect(observation(*pods))
    open_due_windows(at=DUE + timedelta(hours=1))
    [claimed] = claim_windows(worker="w", limit=1, at=DUE + timedelta(hours=1))
    seen = observation(
        *pods, start_at=noon, end_at=moment(7200), as_of=last, ticks=ticks(start_at=noon)
    )

    collect_window(claimed=claimed, source=worker(seen).source, actor=ACTOR, at=last)

    owners = UsageRecord.objects.order_by("window_start", "pod_uid")
    assert list(owners.values_list("project__slug", "pod_uid", "owner")) == [
        ("ours", "a", "bob"),
        ("ours", "b", "carol"),
        ("theirs", "a", "dan"),
        ("theirs", "b", "carol"),
    ]
    assert dict(PodAllocation.objects.values_list("pod_uid", "owner")) == {"a": "", "b": "carol"}


# ---------------------------------------------------------------- snapshots


def test_what_a_pod_holds_is_never_derived_again() -> None:
    collect(observation(pod("a", labels=SLICED_A100)))

    collect(observation(pod("a", labels={}, node="renamed", owner="mallory")))

    assert usage() == [("a", "small", "A100/1of4", "time-slicing", 1, 3600, 3600)]
    assert UsageRecord.objects.get().node == "node-1"


def test_a_request_that_changed_is_billed_as_it_was_and_reported() -> None:
    collect(observation(pod("a", units=1)))

    collect(observation(pod("a", units=2)))

    assert usage()[0][4:] == (1, 3600, 3600)
    assert exceptions() == [("invalid_request", "a nvidia_com_gpu", 0)]


def test_an_open_allocation_that_is_gone_an_hour_later_is_closed() -> None:
    collect(observation(pod("a", last_seen_at=moment(3600 + 7))))
    PodAllocation.objects.update(end_at=None, end_kind="open")
    next_hour = HOUR + timedelta(hours=1)
    open_due_windows(at=DUE + timedelta(hours=1))
    [claimed] = claim_windows(worker="w", limit=1, at=DUE + timedelta(hours=1))
    assert claimed.start_at == next_hour
    late = PodAllocation.objects.get()
    assert late.last_seen_at == moment(3607)

    PodAllocation.objects.update(last_seen_at=moment(3590))
    collect_window(
        claimed=claimed, source=worker().source, actor=ACTOR, at=DUE + timedelta(hours=1)
    )

    allocation = PodAllocation.objects.get()
    assert (allocation.end_at, allocation.end_kind) == (moment(3590), "vanished_in_gap")
