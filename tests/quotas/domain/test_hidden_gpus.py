"""Ways into a GPU that no request tells."""

from typing import Any

import pytest

from quotas.domain.hidden_gpus import VISIBLE_DEVICES, ways_in

JSON = dict[str, Any]


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
    ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps", "//dev/nvidia0", "/dev/./nvidia1"],
)
def test_a_device_file_is_a_way_in(path: str) -> None:
    spec = {"volumes": [{"name": "d", "hostPath": {"path": path}}]}

    assert ways_in({}, spec) == (f"volume d mounts {path}",)


@pytest.mark.parametrize("volume", [{"hostPath": {"path": "/srv/data"}}, {"emptyDir": {}}, {}])
def test_another_volume_is_not(volume: JSON) -> None:
    assert ways_in({}, {"volumes": [{"name": "v", **volume}]}) == ()


def test_an_annotation_for_the_device_interface_is_a_way_in() -> None:
    annotations = {
        "cdi.k8s.io/x": "nvidia.com/gpu=all",
        "cdi.k8s.io/y": "vendor.com/nic=1",
        "a": "b",
    }

    assert ways_in({"annotations": annotations}, {}) == (
        "annotation cdi.k8s.io/x asks for devices",
    )
