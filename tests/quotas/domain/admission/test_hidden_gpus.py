"""Ways into a GPU that no request shows."""

from typing import Any

import pytest

from quotas.domain.admission import hidden_gpus
from quotas.domain.admission.hidden_gpus import VISIBLE_DEVICES, Ways

JSON = dict[str, Any]


def requests(container: JSON) -> bool:
    return bool(container.get("resources"))


def ways_in(metadata: JSON, spec: JSON) -> tuple[str, ...]:
    """Return what is refused; nothing is covered by a request unless a test says so."""
    ways = hidden_gpus.ways_in(metadata, spec, requests=requests)
    assert ways.beside == ()
    return ways.hidden


def with_variable(value: object = None, *, where: str = "containers", **more: object) -> JSON:
    given = {} if value is None else {"value": value}
    return {where: [{"name": "main", "env": [{"name": VISIBLE_DEVICES, **given, **more}]}]}


@pytest.mark.parametrize(
    "value", ["all", "0", "GPU-1234", "0,1", "None", "none ", "nvidia.com/gpu=0"]
)
@pytest.mark.parametrize("where", ["containers", "initContainers", "ephemeralContainers"])
def test_a_variable_that_shows_devices_is_a_way_in(value: str, where: str) -> None:
    spec = with_variable(value, where=where)

    assert ways_in({}, spec) == ("container main sets NVIDIA_VISIBLE_DEVICES",)


@pytest.mark.parametrize("value", ["none", "void", "", None])
def test_a_variable_that_shows_none_is_not(value: str | None) -> None:
    assert ways_in({}, with_variable(value)) == ()


def test_a_variable_from_elsewhere_may_show_anything() -> None:
    spec = with_variable(None, valueFrom={"configMapKeyRef": {"name": "c", "key": "k"}})

    assert ways_in({}, spec) == ("container main sets NVIDIA_VISIBLE_DEVICES",)


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps", "//dev/nvidia0", "/dev/./nvidia1"),
        *("/dev", "/dev/", "/", "//", "/./", "/dev/char", "/dev/char/195:0", "dev"),
    ],
)
def test_a_device_file_is_a_way_in(path: str) -> None:
    spec = {"volumes": [{"name": "d", "hostPath": {"path": path}}]}

    assert ways_in({}, spec) == (f"volume d mounts {path}",)


@pytest.mark.parametrize(
    "volume",
    [
        {"hostPath": {"path": "/srv/data"}},
        {"hostPath": {"path": "/dev/hugepages"}},
        {"hostPath": {"path": "/dev/infiniband"}},
        {"hostPath": {"path": "/srv/dev"}},
        {"hostPath": {}},
        {"emptyDir": {}},
        {},
    ],
)
def test_another_volume_is_not(volume: JSON) -> None:
    assert ways_in({}, {"volumes": [{"name": "v", **volume}]}) == ()


def test_an_annotation_for_the_device_interface_is_a_way_in() -> None:
    annotations = {
        "cdi.k8s.io/x": "nvidia.com/gpu=all",
        "cdi.k8s.io/y": "vendor.com/nic=1",
        "a": "b",
    }

    assert ways_in({"annotations": annotations}, {}) == (
        "annotation cdi.k8s.io/x asks for nvidia.com/gpu=all",
    )


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "nvidia-legacy"])
def test_a_privileged_container_of_the_toolkits_runtime_is_a_way_in(name: str) -> None:
    privileged = {"name": "main", "securityContext": {"privileged": True}}
    spec = {"runtimeClassName": name, "containers": [{"name": "other"}, privileged]}

    assert ways_in({}, spec) == (f"container main is privileged in runtime class {name}",)
    assert ways_in({}, {**spec, "runtimeClassName": "gvisor"}) == ()
    assert ways_in({}, {"runtimeClassName": name, "containers": [{"name": "other"}]}) == ()


def test_each_container_is_judged_by_what_it_requests_itself() -> None:
    variable = {"env": [{"name": VISIBLE_DEVICES, "value": "all"}]}
    spec = {
        "containers": [
            {"name": "one", "resources": {"limits": {"nvidia.com/gpu": "1"}}, **variable},
            {"name": "rest", **variable},
        ],
        "ephemeralContainers": [{"name": "late", "resources": {"limits": {}}, **variable}],
    }

    assert hidden_gpus.ways_in({}, spec, requests=lambda one: "resources" in one) == Ways(
        hidden=(
            "container rest sets NVIDIA_VISIBLE_DEVICES",
            "container late sets NVIDIA_VISIBLE_DEVICES",
        ),
        beside=("container one sets NVIDIA_VISIBLE_DEVICES",),
    )


@pytest.mark.parametrize(
    ("mounting", "is_covered"),
    [(("one",), True), (("one", "rest"), False), (("rest",), False), ((), False)],
)
def test_a_device_file_is_covered_where_all_that_mount_it_request(
    mounting: tuple[str, ...],
    is_covered: bool,  # noqa: FBT001 - A table.
) -> None:
    containers = [
        {"name": name, "volumeMounts": [{"name": "d"}] if name in mounting else []}
        for name in ("one", "rest")
    ]
    spec = {
        "containers": containers,
        "volumes": [{"name": "d", "hostPath": {"path": "/dev"}}],
    }

    ways = hidden_gpus.ways_in({}, spec, requests=lambda one: one["name"] == "one")

    assert (ways.beside if is_covered else ways.hidden) == ("volume d mounts /dev",)


def test_an_annotation_is_covered_where_every_container_requests() -> None:
    metadata = {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=0"}}
    spec = {"containers": [{"name": "one"}, {"name": "two"}]}

    assert hidden_gpus.ways_in(metadata, spec, requests=lambda _: True).hidden == ()
    one_only = hidden_gpus.ways_in(metadata, spec, requests=lambda one: one["name"] == "one")
    assert one_only.beside == ()
