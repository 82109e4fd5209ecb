"""Raw pods into states: who asks for what, and when it held it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metering.adapters.kubernetes.pods import pod_state
from metering.domain.catalogue.units import effective_units
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import PodState
from tests.support.metering.allocations.kubernetes import GPU, NOW, pod

REGULAR, INIT, SIDECAR = ContainerKind.REGULAR, ContainerKind.INIT, ContainerKind.SIDECAR
SMALL = "nvidia.com/mig-1g.10gb"


def is_gpu(resource: str) -> bool:
    return resource.startswith("nvidia.com/")


def state_of(obj: dict[str, Any], *, user_label: str = "") -> PodState | None:
    return pod_state(obj, seen_at=NOW, is_gpu=is_gpu, user_label=user_label)


def read(obj: dict[str, Any], *, user_label: str = "") -> PodState:
    state = state_of(obj, user_label=user_label)
    assert state is not None
    return state


def container(name: str, amounts: dict[str, str], **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - Raw JSON.
    return {"name": name, "resources": {"requests": amounts}, **fields}


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-10-05T{text}Z")


def ran(name: str, begin: str, end: str | None = None) -> dict[str, Any]:
    times = {"startedAt": f"2026-10-05T{begin}Z"}
    if end is None:
        return {"name": name, "state": {"running": times}}
    return {"name": name, "state": {"terminated": {**times, "finishedAt": f"2026-10-05T{end}Z"}}}


def lived(phase: str, *statuses: dict[str, Any], **further: object) -> dict[str, Any]:
    obj = pod(nodeName="node-1")
    obj["status"] = {"phase": phase, "containerStatuses": list(statuses), **further}
    return obj


def test_a_pod_without_gpus_and_claims_is_none_of_ours() -> None:
    plain = pod(containers=[container("web", {"cpu": "2", "memory": "1Gi"}), {"name": "bare"}])
    zero = pod(containers=[container("web", {GPU: "0"})])

    assert state_of(plain) is None
    assert state_of(zero) is None


def test_what_a_runtime_class_adds_is_requested_too() -> None:
    kata = pod(containers=[container("main", {GPU: "2"})], overhead={GPU: "1", "cpu": "250m"})
    alone = pod(containers=[container("web", {"cpu": "1"})], overhead={GPU: "1"})

    assert read(kata).requests == (
        ContainerRequest("main", REGULAR, GPU, 2),
        ContainerRequest("", ContainerKind.OVERHEAD, GPU, 1),
    )
    assert [effective_units(read(one).requests) for one in (kata, alone)] == [3, 1]


def test_half_a_gpu_of_a_runtime_class_is_a_defect() -> None:
    half = read(pod(containers=[container("web", {})], overhead={GPU: "500m"}))

    assert effective_units(half.requests) == -1
    assert half.defects == (
        'The overhead of its runtime class for nvidia.com/gpu cannot be "500m".',
    )


def test_a_broken_part_of_a_pod_that_is_none_of_ours_does_not_matter() -> None:
    plain = pod(containers=[container("web", {"cpu": "half"})])
    plain["metadata"] = {"uid": "uid-1"}

    assert state_of(plain) is None


def test_every_container_keeps_its_kind_and_init_containers_their_order() -> None:
    state = read(
        pod(
            initContainers=[
                container("first", {GPU: "4"}),
                container("proxy", {GPU: "1"}, restartPolicy="Always"),
                container("second", {GPU: "2"}),
                container("fetch", {"cpu": "1"}),
            ],
            containers=[container("main", {GPU: "2", SMALL: "1", "cpu": "8"})],
        )
    )

    assert state.requests == (
        ContainerRequest("first", INIT, GPU, 4, 0),
        ContainerRequest("proxy", SIDECAR, GPU, 1, 1),
        ContainerRequest("second", INIT, GPU, 2, 2),
        ContainerRequest("main", REGULAR, GPU, 2),
        ContainerRequest("main", REGULAR, SMALL, 1),
    )
    whole = [request for request in state.requests if request.resource == GPU]
    assert effective_units(whole) == 4


def test_limits_alone_count_as_requests_and_requests_win() -> None:
    state = read(
        pod(
            containers=[
                {"name": "a", "resources": {"limits": {GPU: "3"}}},
                {"name": "b", "resources": {"limits": {GPU: "3"}, "requests": {GPU: "2"}}},
            ]
        )
    )

    assert [(one.container, one.units) for one in state.requests] == [("a", 3), ("b", 2)]


def test_a_pod_that_waits_has_neither_node_nor_times() -> None:
    obj = pod()
    obj["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-10-05T11:00:01Z"}
    ]

    state = read(obj)

    assert (state.node, state.phase, state.scheduled_at) == ("", "Pending", None)
    assert (state.started_at, state.finished_at, state.deletion_at) == (None, None, None)
    assert state.created_at == at("11:00:00")
    assert state.defects == ()


def test_a_bound_pod_counts_from_its_bind_not_from_the_kubelet() -> None:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-10-05T11:00:05Z"}
    obj = lived("Pending", conditions=[bound], startTime="2026-10-05T11:00:09Z")

    state = read(obj)

    assert (state.node, state.scheduled_at) == ("node-1", at("11:00:05"))


def test_a_pod_that_passed_no_scheduler_counts_from_when_the_kubelet_took_it() -> None:
    assert read(lived("Pending", startTime="2026-10-05T11:00:09Z")).scheduled_at == at("11:00:09")
    assert read(lived("Pending")).scheduled_at is None


def test_a_running_pod_has_started_and_not_finished() -> None:
    obj = lived("Running", ran("main", "11:01:00"), ran("helper", "11:00:30", "11:10:00"))
    obj["status"]["initContainerStatuses"] = [ran("fetch", "11:00:10", "11:00:20")]

    state = read(obj)

    assert (state.started_at, state.finished_at) == (at("11:00:10"), None)


def test_a_pod_ends_with_its_last_container_sidecars_too() -> None:
    obj = lived("Succeeded", ran("main", "11:01:00", "11:20:00"))
    obj["status"]["initContainerStatuses"] = [ran("proxy", "11:00:10", "11:20:04")]

    assert read(obj).finished_at == at("11:20:04")


def test_an_ended_pod_with_a_container_that_never_ran_ends_with_the_others() -> None:
    waits = {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}}

    state = read(lived("Failed", ran("main", "11:01:00", "11:20:00"), waits))

    assert state.finished_at == at("11:20:00")


def test_a_container_that_is_restarted_began_with_its_first_known_run() -> None:
    crashed = {
        "name": "main",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ran("main", "11:05:00", "11:06:00")["state"],
    }

    state = read(lived("Running", crashed))

    assert (state.started_at, state.finished_at) == (at("11:05:00"), None)


def test_a_pod_being_deleted_has_ended_once_no_container_runs_or_waits() -> None:
    done, runs = ran("main", "11:01:00", "11:20:00"), ran("side", "11:01:00")
    waits = {"name": "side", "state": {"waiting": {}}}
    ends = {}
    for name, statuses in {"done": [done], "runs": [done, runs], "waits": [done, waits]}.items():
        obj = lived("Running", *statuses)
        obj["metadata"]["deletionTimestamp"] = "2026-10-05T11:21:00Z"
        ends[name] = read(obj).finished_at

    assert ends == {"done": at("11:20:00"), "runs": None, "waits": None}
    assert read(lived("Running", done)).finished_at is None


def test_a_pod_the_kubelet_refused_never_started() -> None:
    state = read(
        lived("Failed", reason="UnexpectedAdmissionError", startTime="2026-10-05T11:00:06Z")
    )

    assert (state.phase, state.reason) == ("Failed", "UnexpectedAdmissionError")
    assert (state.started_at, state.finished_at) == (None, None)


def test_a_container_that_could_not_be_started_says_1970_and_did_not_start() -> None:
    failed = {
        "name": "main",
        "state": {
            "terminated": {
                "reason": "StartError",
                "startedAt": "1970-01-01T00:00:00Z",
                "finishedAt": "2026-10-05T11:00:40Z",
            }
        },
    }

    state = read(lived("Failed", failed))

    assert (state.started_at, state.finished_at) == (None, at("11:00:40"))
    assert state.defects == ()


def test_a_lost_container_status_without_times_gives_no_end() -> None:
    lost = {
        "name": "main",
        "state": {
            "terminated": {
                "reason": "ContainerStatusUnknown",
                "startedAt": None,
                "finishedAt": None,
            }
        },
    }

    assert read(lived("Failed", lost)).finished_at is None


def test_a_deletion_may_lie_a_long_grace_ahead_but_not_for_ever() -> None:
    soon, never = pod(), pod()
    soon["metadata"]["deletionTimestamp"] = (NOW + timedelta(days=365)).isoformat()
    never["metadata"]["deletionTimestamp"] = "9999-12-31T23:59:59Z"

    assert read(soon).deletion_at == NOW + timedelta(days=365)
    assert read(never).deletion_at is None
    assert read(never).defects == ('metadata.deletionTimestamp cannot be "9999-12-31T23:59:59Z".',)


def test_times_of_any_zone_and_fraction_are_utc_in_whole_seconds() -> None:
    obj = pod()
    obj["metadata"]["creationTimestamp"] = "2026-10-05T13:00:00.999999+02:00"

    created = read(obj).created_at

    assert (created, created.tzinfo) == (at("11:00:00"), UTC)


def test_an_object_that_does_not_say_when_it_was_made_is_marked() -> None:
    obj = pod()
    del obj["metadata"]["creationTimestamp"]

    state = read(obj)

    assert state.created_at == NOW
    assert state.defects == ("metadata.creationTimestamp is missing.",)


@pytest.mark.parametrize(
    ("user_label", "owner"),
    [
        ("billing.example.com/user", "lina"),
        ("billing_example_com_user", "lina"),
        ("team", ""),
        ("", ""),
    ],
)
def test_the_owner_is_found_by_the_labels_name_in_either_spelling(
    user_label: str, owner: str
) -> None:
    obj = pod()
    obj["metadata"]["labels"] = {"app": "train", "billing.example.com/user": "lina"}

    assert read(obj, user_label=user_label).owner == owner


@pytest.mark.parametrize(
    ("annotations", "vouched", "owner"),
    [
        ({"gpu-ledger.io/owner": "alice"}, "gpu-ledger.io/owner", "alice"),
        ({"gpu-ledger.io/owner": "alice"}, "", ""),
        ({"other": "alice"}, "gpu-ledger.io/owner", ""),
        ({"gpu-ledger.io/owner": 7}, "gpu-ledger.io/owner", ""),
        (None, "gpu-ledger.io/owner", ""),
        ({"gpu-ledger.io/owner": "a" * 200}, "gpu-ledger.io/owner", "a" * 150),
    ],
    ids=["vouched", "not_vouched", "another", "no_text", "none", "long"],
)
def test_an_owner_that_admission_may_vouch_for_is_kept_beside_the_label(
    annotations: dict[str, Any] | None, vouched: str, owner: str
) -> None:
    obj = pod()
    obj["metadata"] |= {"labels": {"user": "lina"}, "annotations": annotations}

    state = pod_state(obj, seen_at=NOW, is_gpu=is_gpu, user_label="user", owner_annotation=vouched)

    assert state is not None
    assert (state.owner, state.stamped_owner) == ("lina", owner)


def test_only_the_controlling_owner_is_the_controller() -> None:
    obj = pod()
    assert read(obj).controller == ""
    obj["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "node-1"},
        {"kind": "Job", "name": "train-7", "controller": True},
    ]

    assert read(obj).controller == "Job/train-7"


@pytest.mark.parametrize(
    ("given", "kept"),
    [(1000, 1000), (-5, -5), (None, None), (True, None), ("9", None), (2**40, None)],
)
def test_a_priority_is_a_number_that_fits(given: object, kept: int | None) -> None:
    state = read(pod(priority=given, priorityClassName="high"))

    assert (state.priority_class, state.priority) == ("high", kept)


def test_claims_are_named_by_the_pod_or_by_what_was_made_from_the_template() -> None:
    obj = pod(
        containers=[{"name": "main"}],
        resourceClaims=[
            {"name": "a", "resourceClaimName": "shared-gpu"},
            {"name": "b", "resourceClaimTemplateName": "one-gpu"},
            {"name": "c", "resourceClaimTemplateName": "one-gpu"},
        ],
    )
    obj["status"]["resourceClaimStatuses"] = [
        {"name": "b", "resourceClaimName": "pod-b-x7k2p"},
        {"name": "d", "resourceClaimName": "pod-d"},
    ]

    state = read(obj)

    assert state.requests == ()
    assert state.claims == ("shared-gpu", "pod-b-x7k2p")
