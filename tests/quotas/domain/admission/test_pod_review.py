"""What a pod asks of GPUs, however it spells or hides it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.domain.admission.pod_fields import ENTRIES_MAX, PodInvalidError
from quotas.domain.admission.pods import PodAsk, is_gpu, pod_ask
from tests.support.quotas.reviews import UID, container, pod

JSON = dict[str, Any]
GPU = "nvidia.com/gpu"
ALWAYS = {"restartPolicy": "Always"}


def asked(**spec: object) -> dict[str, int]:
    return dict(pod_ask({"metadata": {}, "spec": spec}).requests)


def test_a_pod_is_read_as_it_stands() -> None:
    made = pod(4, owner="alice", priorityClassName="low")
    made["metadata"]["labels"] = {"gpu-ledger.io/work-kind": "training"}
    made["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n"},
        {"kind": "Job", "name": "train", "controller": True},
    ]

    ask = pod_ask(made)

    assert (ask.uid, ask.name, dict(ask.requests)) == (UID, "train-x7k2p", {GPU: 4})
    assert (ask.owner, ask.work_kind, ask.priority_class) == ("alice", "training", "low")
    assert ask.controller == "Job/train"
    assert (ask.has_claims, ask.hidden, ask.concerns_gpus) == (False, (), True)


def test_a_pod_without_gpus_concerns_nobody() -> None:
    ask = pod_ask(pod(0))

    assert (dict(ask.requests), ask.concerns_gpus, ask.owner, ask.controller) == ({}, False, "", "")


def test_containers_add_up_and_resources_are_distinguished() -> None:
    slices: dict[str, Any] = {"nvidia.com/mig-1g.10gb": 3}
    one = {"containers": [container(gpu="1"), container(gpu="2", **slices)]}

    assert asked(**one) == {GPU: 3, "nvidia.com/mig-1g.10gb": 3}


def test_an_init_container_counts_where_it_asks_more() -> None:
    assert asked(containers=[container(gpu="1")], initContainers=[container(gpu="4")]) == {GPU: 4}
    assert asked(containers=[container(gpu="5")], initContainers=[container(gpu="4")]) == {GPU: 5}
    assert asked(containers=[{"name": "main"}], initContainers=[container(gpu="2")]) == {GPU: 2}


def test_what_a_runtime_class_adds_counts_on_top() -> None:
    overhead = {GPU: "1", "cpu": "250m"}

    assert asked(containers=[container(gpu="2")], overhead=overhead) == {GPU: 3}
    assert asked(containers=[{"name": "main"}], overhead=overhead) == {GPU: 1}
    with pytest.raises(PodInvalidError, match="The overhead of its runtime class asks for 500m"):
        asked(containers=[{"name": "main"}], overhead={GPU: "500m"})


def test_a_device_of_another_maker_does_not_open_the_way_to_gpus() -> None:
    shows = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    ask = pod_ask(
        {
            "metadata": {},
            "spec": {"containers": [{**container("main", **{"amd.com/gpu": "1"}), "env": shows}]},
        }
    )

    assert dict(ask.requests) == {"amd.com/gpu": 1}
    assert ask.hidden == ("container main sets NVIDIA_VISIBLE_DEVICES",)


def test_a_sidecar_counts_beside_what_comes_after_it() -> None:
    sidecar = {**container("s", gpu="1"), **ALWAYS}

    assert asked(containers=[container(gpu="2")], initContainers=[sidecar]) == {GPU: 3}
    assert asked(containers=[container(gpu="1")], initContainers=[sidecar, container(gpu="4")]) == {
        GPU: 5
    }
    assert asked(containers=[container(gpu="1")], initContainers=[container(gpu="4"), sidecar]) == {
        GPU: 4
    }


def test_limits_alone_and_requests_alone_count() -> None:
    limits = {"name": "a", "resources": {"limits": {GPU: "2"}}}
    requests = {"name": "b", "resources": {"requests": {GPU: 3}}}

    assert asked(containers=[limits]) == {GPU: 2}
    assert asked(containers=[requests]) == {GPU: 3}
    assert asked(containers=[limits, requests]) == {GPU: 5}


def test_an_ephemeral_container_that_asks_is_counted() -> None:
    assert asked(containers=[], ephemeralContainers=[container(gpu="1")]) == {GPU: 1}


@pytest.mark.parametrize(("spelt", "units"), [("1e0", 1), ("2k", 2_000), ("3000m", 3), (2, 2)])
def test_every_spelling_of_a_quantity_is_read(spelt: str | int, units: int) -> None:
    assert asked(containers=[container(gpu=spelt)]) == {GPU: units}


@pytest.mark.parametrize("spelt", ["500m", "0.5", "-1", "NaN", "", "many", "1e30", "2000000"])
def test_what_is_no_number_of_devices_is_refused(spelt: str) -> None:
    with pytest.raises(PodInvalidError, match="whole devices"):
        asked(containers=[container(gpu=spelt)])


@pytest.mark.parametrize(
    "resources",
    [
        [{"gpu": "1000000"}, {"gpu": "1"}],
        [{"gpu": "600000", "nvidia.com/mig-1g.10gb": "400001"}],
    ],
    ids=["one_resource", "together"],
)
def test_more_devices_than_can_be_counted_are_refused(resources: list[dict[str, str]]) -> None:
    containers = [container(f"c{index}", **one) for index, one in enumerate(resources)]

    with pytest.raises(PodInvalidError, match="1000001 devices: no more than 1000000"):
        asked(containers=containers)


def test_a_name_the_ledger_cannot_keep_is_refused() -> None:
    long = "nvidia.com/mig-" + "x" * 245
    assert asked(containers=[container(**{long: "1"})]) == {long: 1}

    with pytest.raises(PodInvalidError, match="more than 260 characters"):
        asked(containers=[container(**{long + "x": "1"})])


def test_nothing_asked_is_nothing() -> None:
    assert asked(containers=[container(gpu="0")]) == {}
    assert asked(containers=[container(cpu="500m", memory="1Gi")]) == {}


def test_a_device_class_named_as_a_resource_is_reported_as_a_claim() -> None:
    name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"

    assert asked(containers=[container(**{name: "2"})]) == {"claim/gpu.nvidia.com": 2}


def test_claims_are_seen() -> None:
    ask = pod_ask(pod(0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]))

    assert ask.has_claims
    assert not ask.concerns_gpus


@pytest.mark.parametrize(
    ("resource", "is_one"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/gpu-h100", True),
        ("nvidia.com/mig-9g.999gb", True),
        ("deviceclass.resource.kubernetes.io/x", True),
        ("example.com/accelerator", True),
        ("nvidia.com/hostdev", False),
        ("cpu", False),
        ("amd.com/gpu", True),
        ("nvidia.com/GRID_T4-4Q", True),
        ("amd.com/fpga", False),
    ],
)
def test_which_names_are_gpus(resource: str, is_one: bool) -> None:  # noqa: FBT001 - A table.
    assert is_gpu(resource, offered=frozenset({"example.com/accelerator"})) is is_one


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": "none"},
        {"metadata": {"uid": 7}},
        {"metadata": {"uid": "u" * 65}},
        {"metadata": {"name": "a\x00b"}},
        {"metadata": {"annotations": []}},
        {"metadata": {"annotations": {"gpu-ledger.io/owner": ["alice"]}}},
        {"metadata": {"annotations": {"gpu-ledger.io/owner": "a" * 151}}},
        {"metadata": {"labels": 1}},
        {"metadata": {"ownerReferences": {}}},
        {"spec": []},
        {"spec": {"containers": {}}},
        {"spec": {"containers": ["main"]}},
        {"spec": {"containers": [{"resources": []}]}},
        {"spec": {"containers": [{"resources": {"limits": "all"}}]}},
        {"spec": {"containers": [{}] * (ENTRIES_MAX + 1)}},
        {"spec": {"initContainers": "x"}},
        {"spec": {"nodeSelector": {"a": 1}}},
        {"spec": {"priorityClassName": {}}},
        {"spec": {"resourceClaims": 3}},
        {"spec": {"volumes": [{"hostPath": "/dev"}]}},
        {"spec": {"containers": [{"env": [1]}]}},
    ],
)
def test_a_pod_no_server_would_make_is_refused(broken: JSON) -> None:
    with pytest.raises(PodInvalidError):
        pod_ask(broken)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("metadata", "spec", "containers", "initContainers", "resources", "limits"),
                    *("env", "volumes", "hostPath", "nodeSelector", "affinity", "name", GPU),
                    *("annotations", "resourceClaims", "nodeAffinity", "ownerReferences"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), json_values))
def test_nothing_makes_it_fail_otherwise(obj: JSON) -> None:
    try:
        ask = pod_ask(obj)
    except PodInvalidError:
        return

    assert isinstance(ask, PodAsk)
    assert all(units > 0 for units in ask.requests.values())


@given(st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), max_size=4))
def test_no_container_hides_behind_another(regular: list[int], inits: list[int]) -> None:
    effective = asked(
        containers=[container(gpu=str(units)) for units in regular],
        initContainers=[container(gpu=str(units)) for units in inits],
    ).get(GPU, 0)

    assert effective == max([sum(regular), *inits])
