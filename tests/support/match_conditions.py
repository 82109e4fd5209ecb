"""Match conditions as an API server evaluates them, and pods that match or do not."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

JSON = dict[str, Any]
OFFERED = ("example.com/gpu",)
"""GPU resource names beside NVIDIA's."""
VISIBLE = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
IMAGE = "example.com/none:1"


@lru_cache
def compile_condition(expression: str) -> Callable[[JSON], bool]:
    """Return the program of a CEL expression over `object`, `oldObject` and `request`.

    Raises:
        ValueError: It is none, or says something else than true or false.
    """
    names = ("object", "oldObject", "request")
    try:
        program = cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN)).compile(expression)
    except RuntimeError as error:
        raise ValueError(f"compilation failed: {error}") from error
    kind = program.return_type()
    if kind != cel.Type.BOOL:
        raise ValueError(f"must evaluate to bool but got {kind.name().lower()}")

    def holds(variables: JSON) -> bool:
        found = program.eval(data=variables)
        if found.type() != cel.Type.BOOL:
            raise ValueError(str(found.value()))
        return bool(found.value())

    return holds


def container(name: str = "main", **fields: object) -> JSON:
    return {"name": name, "image": IMAGE, **fields}


def limited(name: str, resource: str) -> JSON:
    return container(name, resources={"limits": {resource: "1"}})


@dataclass(frozen=True)
class PodCase:
    """A pod.

    Attributes:
        name: What is special about it.
        needs: A group version without which a server drops what is special.
    """

    name: str
    spec: JSON = field(default_factory=dict)
    metadata: JSON = field(default_factory=dict)
    needs: str = "v1"

    def pod(self) -> JSON:
        """Return the pod with no more than it must have."""
        spec = {"containers": [container()], **self.spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": dict(self.metadata), "spec": spec}


def _of(*containers: JSON) -> JSON:
    return {"containers": list(containers)}


def _after(one: JSON) -> JSON:
    return {"initContainers": [one]}


def _path(path: str) -> JSON:
    return {"volumes": [{"name": "v", "hostPath": {"path": path}}]}


def _annotated(name: str) -> JSON:
    return {"annotations": {name: "x"}}


_CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
_EMPTY = {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "x"}}]}
UNCONCERNED = (
    PodCase("nothing"),
    PodCase("empty resources", _of(container(resources={}))),
    PodCase("cpu", _of(limited("main", "cpu"))),
    PodCase("another device", _of(limited("main", "example.com/fpga"))),
    PodCase("another variable", _of(container(env=[{"name": "CUDA", "value": "1"}]))),
    PodCase("other volumes", _EMPTY),
    PodCase("another path", _path("/var/log")),
    PodCase("another annotation", {}, _annotated("example.com/note")),
    PodCase("init container without", _after(limited("init", "cpu"))),
)
"""Pods that have to do with no GPU."""
CONCERNED = (
    PodCase("gpu", _of(limited("main", "nvidia.com/gpu"))),
    PodCase("gpu of the second", _of(container("a"), limited("b", "nvidia.com/gpu"))),
    PodCase("slice", _of(limited("main", "nvidia.com/mig-1g.10gb"))),
    PodCase("of another maker", _of(limited("main", "amd.com/gpu"))),
    PodCase("of a virtual GPU", _of(limited("main", "nvidia.com/GRID_T4-4Q"))),
    PodCase("offered", _of(limited("main", "example.com/gpu"))),
    PodCase(
        "device class",
        _of(limited("main", "deviceclass.resource.kubernetes.io/gpu.nvidia.com")),
        needs="resource.k8s.io/v1",
    ),
    PodCase("init container", _after(limited("init", "nvidia.com/gpu"))),
    PodCase("sidecar", _after({**limited("s", "nvidia.com/gpu"), "restartPolicy": "Always"})),
    PodCase("variable", _of(container(env=VISIBLE))),
    PodCase("variable of an init container", _after(container("init", env=VISIBLE))),
    PodCase("claim", _CLAIM, needs="resource.k8s.io/v1"),
    PodCase("device file", _path("/dev/nvidia0")),
    PodCase("folder of devices", _path("/dev")),
    PodCase("root", _path("/")),
    PodCase("runtime class", {"runtimeClassName": "nvidia-legacy"}),
    PodCase("device interface", {}, _annotated("cdi.k8s.io/x")),
    PodCase("owner", {}, _annotated("gpu-ledger.io/owner")),
)
