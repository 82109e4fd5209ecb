"""What was in use without a usage record: devices as the kubelet named them, and allocations."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from metering.admin.devices import unbilled_context
from metering.api.device_usage import UNBILLED_COLUMNS
from metering.domain.devices.unbilled import UnbilledCause
from metering.models import (
    ClaimConsumer,
    MeteringException,
    MeteringWindow,
    PodAllocation,
)
from metering.selectors.devices.unbilled import UnbilledReport, unbilled_devices
from metering.services.collection.sealing import seal_window
from metering.services.collection.windows import open_due_windows
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.collecting import DUE, collect, measure
from tests.support.metering.device_rows import make_device_usage
from tests.support.metering.seen import ACTOR, HOUR, device, moment, node, observation, pod
from tests.support.shared_rows import shared_rows

END = HOUR + timedelta(hours=1)
URL = "/api/v1/reports/unbilled-devices/"
RANGE = {"from": HOUR.isoformat(), "to": END.isoformat()}

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def hopper(cast: Cast) -> Cluster:
    """A cluster whose namespace `team-nlp` belongs to LLM, and whose first window is due."""
    made = make_cluster(metered_from=HOUR)
    bind(made, "team-nlp", cast.llm)
    open_due_windows(at=DUE)
    return made


def report(**further: Any) -> UnbilledReport:  # noqa: ANN401 - Any argument.
    return unbilled_devices(begin_at=HOUR, end_at=END, limit=100, **further)


def found(**further: Any) -> list[tuple[str, str, str, int, str]]:  # noqa: ANN401 - As above.
    return [
        (one.cause.value, one.uuid, one.pod_name, one.seconds, one.exception)
        for one in report(**further).rows
    ]


def allocate(cluster: Cluster, uid: str, begin: int, end: int | None, **fields: object) -> None:
    """Write what the watch recorded of a pod that no window billed."""
    given: dict[str, object] = {
        "resource": "nvidia.com/gpu",
        "namespace": "team-nlp",
        "pod_name": f"pod-{uid}",
        "node": "node-1",
        "units": 1,
        "size": "large",
        "price_group": "H100/whole",
        "sharing_mode": "whole",
        "catalogue_version": 1,
        "end_kind": "open" if end is None else "exact",
    }
    PodAllocation.objects.create(
        cluster=cluster,
        pod_uid=uid,
        begin_at=moment(begin),
        end_at=None if end is None else moment(end),
        last_seen_at=DUE,
        **{**given, **fields},
    )


def use_device(window: MeteringWindow, attribution: str, **fields: object) -> None:
    """Write what a busy device did in an hour."""
    given: dict[str, object] = {
        "node": "node-1",
        "uuid": "GPU-9",
        "begin_at": window.start_at,
        "end_at": window.start_at + timedelta(hours=1),
        "busy_ratio": Decimal("0.9"),
    }
    make_device_usage(window, attribution=attribution, **{**given, **fields})


def seal_unmeasured(cluster: Cluster, start_at: datetime) -> MeteringWindow:
    """Write a sealed hour without any figures."""
    times = dict.fromkeys(("not_before", "as_of", "sealed_at"), start_at)
    made, _ = MeteringWindow.objects.update_or_create(
        cluster=cluster, start_at=start_at, defaults={"state": "sealed", **times}
    )
    return made


def test_a_billed_pods_device_and_an_idle_one_are_not_reported(hopper: Cluster) -> None:
    idle = device("GPU-2", namespace="", pod="", busy_ratio=Decimal("0.01"))
    measure(observation(pod(), devices=(device(), idle), nodes=(node(),)))

    assert found() == []
    assert report(cluster_id=hopper.pk).unknown_hours == {}


def test_a_device_is_reported_by_what_the_kubelet_named_or_by_its_activity(
    hopper: Cluster,  # noqa: ARG001 - Its window is measured.
) -> None:
    ghost = device("GPU-2", namespace="team-nlp", pod="ghost", end_at=moment(1800))
    busy = device("GPU-3", namespace="", pod="", busy_ratio=Decimal("0.8"))
    measure(observation(pod(), devices=(device(), ghost, busy), nodes=(node(),)))

    assert found() == [
        ("busy_without_pod", "GPU-3", "", 3600, ""),
        ("pod_named", "GPU-2", "ghost", 1800, ""),
    ]


def test_a_pod_that_waits_for_a_decision_is_reported_with_its_exception(
    hopper: Cluster,  # noqa: ARG001 - As above.
) -> None:
    stranger = pod("uid-2", namespace="nowhere")
    its = device("GPU-2", namespace="nowhere", pod="pod-uid-2")
    measure(observation(pod(), stranger, devices=(device(), its), nodes=(node(),)))

    assert found() == [("pod_named", "GPU-2", "pod-uid-2", 3600, "unbound_namespace")]


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("attribution", "count"), [("idle", 1), ("shared", 0), ("unattributed", 0)]
)
def test_a_busy_device_that_a_billed_pod_of_its_node_may_hold_is_left_out(
    attribution: str, count: int
) -> None:
    """Of a shared device the exporter names one of its pods, or none."""
    window_id = collect(observation(pod(), nodes=(node(),))).window_id
    seal_window(window_id=window_id, actor=ACTOR, at=DUE)
    use_device(MeteringWindow.objects.get(), attribution)

    assert [cause for cause, *_ in found()] == ["busy_without_pod"] * count


@pytest.mark.parametrize("attribution", ["idle", "shared", "unattributed"])
def test_a_busy_device_of_a_node_without_billed_pods_is_reported(
    hopper: Cluster, attribution: str
) -> None:
    use_device(seal_unmeasured(hopper, HOUR), attribution, node="node-2")

    assert found() == [("busy_without_pod", "GPU-9", "", 3600, "")]


def test_a_busy_device_is_held_by_an_exception_about_a_pod_of_its_node(hopper: Cluster) -> None:
    window = seal_unmeasured(hopper, HOUR)
    use_device(window, "unattributed", node="node-2")
    MeteringException.objects.create(
        cluster=hopper,
        window=window,
        window_start=HOUR,
        kind="unknown_device",
        subject="uid-9 example.com/vgpu",
        namespace="team-nlp",
        details={"node": "node-2"},
        created_at=DUE,
    )

    assert found() == [("busy_without_pod", "GPU-9", "", 3600, "unknown_device")]


def test_a_pod_that_a_device_names_is_reported_once(hopper: Cluster) -> None:
    allocate(hopper, "ghost", 0, None)
    use_device(
        seal_unmeasured(hopper, HOUR),
        "unattributed",
        namespace="team-nlp",
        pod_name="pod-ghost",
    )

    assert found() == [("pod_named", "GPU-9", "pod-ghost", 3600, "")]


@pytest.mark.parametrize(("seconds", "count"), [(240, 0), (600, 1)])
def test_a_name_that_outlives_its_pod_for_some_minutes_is_left_out(
    hopper: Cluster, seconds: int, count: int
) -> None:
    """The hour before is billed to the pod that the exporter still names."""
    measure(observation(pod(), devices=(device(),), nodes=(node(),)))
    late = HOUR + timedelta(hours=1)
    window = seal_unmeasured(hopper, late)
    use_device(
        window,
        "unattributed",
        namespace="team-nlp",
        pod_name="pod-uid-1",
        end_at=late + timedelta(seconds=seconds),
        seconds=seconds,
    )

    rows = unbilled_devices(begin_at=late, end_at=late + timedelta(hours=1), limit=9).rows

    assert [one.cause for one in rows].count(UnbilledCause.POD_NAMED) == count


def test_an_allocation_without_a_record_is_reported_for_its_part_of_the_hour(
    hopper: Cluster,
) -> None:
    measure(observation(pod(), devices=(device(),), nodes=(node(),)))
    allocate(hopper, "lost", -600, 900)
    allocate(hopper, "later", 3600, None)
    allocate(hopper, "other", 0, None, resource="nvidia.com/mig-1g.10gb")

    assert found() == [
        ("allocated", "", "pod-lost", 900, ""),
        ("allocated", "", "pod-other", 3600, ""),
    ]


def test_a_claim_is_billed_by_the_record_of_a_pod_that_used_it(hopper: Cluster) -> None:
    measure(observation(pod(), devices=(device(),), nodes=(node(),)))
    for uid in ("claim-1", "claim-2"):
        allocate(hopper, uid, 0, None, resource="nvidia.com/gpu", pod_name=uid)
    ClaimConsumer.objects.create(
        cluster=hopper, claim_uid="claim-1", pod_uid="uid-1", pod_name="pod-uid-1", begin_at=HOUR
    )

    assert found() == [("allocated", "", "claim-2", 3600, "")]


def test_an_hour_without_device_figures_is_unknown_and_not_unused(hopper: Cluster) -> None:
    seal_unmeasured(hopper, HOUR - timedelta(hours=5))
    early = unbilled_devices(begin_at=HOUR - timedelta(hours=6), end_at=HOUR, limit=9)

    assert (early.rows, early.unknown_hours) == ((), {"hopper": 1})


def test_it_takes_three_statements(
    hopper: Cluster,  # noqa: ARG001 - As above.
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    measure(observation(pod(), devices=(device(),), nodes=(node(),)))

    with django_assert_num_queries(3):
        report()


def ask(user: User, path: str = "", **query: str) -> Any:  # noqa: ANN401 - The client's answer.
    client = APIClient()
    client.force_login(user)
    return client.get(f"{URL}{path}", {**RANGE, **query})


def test_the_platforms_people_read_it_and_tenants_do_not(cast: Cast, hopper: Cluster) -> None:
    measure(observation(pod(), devices=(device(),), nodes=(node(),)))
    allocate(hopper, "lost", 0, None)

    answer = ask(cast.ann).json()
    lines = ask(cast.ann, "csv/").content.decode().splitlines()

    (row,) = answer["results"]
    assert (row["cause"], row["pod_name"], row["seconds"]) == ("allocated", "pod-lost", 3600)
    assert set(answer["causes"]) == set(UnbilledCause)
    assert lines[0] == ",".join(f'"{column}"' for column in UNBILLED_COLUMNS)
    assert '"pod-lost"' in lines[1]
    assert [ask(user).status_code for user in (cast.alice, cast.bob)] == [403, 403]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"to": HOUR.isoformat()}, "to"),
        ({"to": (HOUR + timedelta(days=32)).isoformat()}, "to"),
        ({"cluster": "nowhere"}, "cluster"),
    ],
)
def test_a_range_or_a_cluster_that_cannot_be_reported_is_refused_by_field(
    cast: Cast, query: dict[str, str], field: str
) -> None:
    answer = ask(cast.ann, **query)

    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_the_page_shows_what_is_held_and_what_is_in_no_queue(cast: Cast, hopper: Cluster) -> None:
    User.objects.update(is_staff=True)
    measure(observation(pod(), devices=(device(),), nodes=(node(),)))
    allocate(hopper, "lost", 0, None)
    client = Client()
    client.force_login(cast.ann)

    with override_settings(UNFOLD={}):
        page = client.get("/admin/metering/deviceusage/unbilled/", {"week": f"{HOUR:%Y-%m-%d}"})

    words = page.content.decode()
    assert page.status_code == 200
    assert "team-nlp/pod-lost" in words
    assert "<td>nothing</td>" in words
    clusters = Cluster.objects.all()
    empty = unbilled_context(week="2026-01-05", clusters=clusters, at=DUE)
    assert (empty["rows"], empty["is_cut"]) == ([], False)
