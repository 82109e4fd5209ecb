"""Hidden GPUs: ways into a device that no resource request tells.

NVIDIA's container toolkit gives every GPU of a node to a container whose environment says
`NVIDIA_VISIBLE_DEVICES=all`; a mounted device file and an annotation for the Container Device
Interface do the same. Nobody would count, and nobody would be billed. What an image says of itself
is not in the pod: the toolkit has `accept-nvidia-visible-devices-envvar-when-unprivileged=false`
against it.
Source: NVIDIA container toolkit, docs of the container runtime; CDI specification, annotations.
"""

from collections.abc import Iterator
from typing import Final

from quotas.domain.pod_fields import JSON, mapping, objects, text

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
NOTHING_VISIBLE: Final = frozenset({"", "none", "void"})
DEVICE_FILES: Final = "/dev/nvidia"
CDI_PREFIX: Final = "cdi.k8s.io/"
CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_VALUE_MAX: Final = 131_072


def ways_in(metadata: JSON, spec: JSON) -> tuple[str, ...]:
    """Return how a pod reaches GPUs beside what it requests, one phrase each; empty for none.

    Raises:
        PodInvalidError: It is no pod.
    """
    return (*_variables(spec), *_files(spec), *_annotations(metadata))


def _variables(spec: JSON) -> Iterator[str]:
    for name in CONTAINER_LISTS:
        for container in objects(spec.get(name), f"spec.{name}"):
            for variable in objects(container.get("env"), f"spec.{name}.env"):
                if variable.get("name") == VISIBLE_DEVICES and not _shows_nothing(variable):
                    yield f"container {text(container.get('name'), 'name')} sets {VISIBLE_DEVICES}"


def _shows_nothing(variable: JSON) -> bool:
    """Whether a variable hides every device; a value from elsewhere may be anything."""
    if variable.get("valueFrom") is not None:
        return False
    return text(variable.get("value"), VISIBLE_DEVICES, limit=_VALUE_MAX) in NOTHING_VISIBLE


def _files(spec: JSON) -> Iterator[str]:
    for volume in objects(spec.get("volumes"), "spec.volumes"):
        source = mapping(volume.get("hostPath"), "spec.volumes.hostPath")
        path = text(source.get("path"), "spec.volumes.hostPath.path", limit=4_096)
        if _plain(path).startswith(DEVICE_FILES):
            yield f"volume {text(volume.get('name'), 'name')} mounts {path}"


def _plain(path: str) -> str:
    """Return a path without the detours that say nothing; the API server refuses `..`."""
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


def _annotations(metadata: JSON) -> Iterator[str]:
    for key, value in mapping(metadata.get("annotations"), "metadata.annotations").items():
        if key.startswith(CDI_PREFIX) and "nvidia.com/" in str(value):
            yield f"annotation {key} asks for devices"
