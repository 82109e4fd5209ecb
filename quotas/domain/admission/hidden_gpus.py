"""Hidden GPUs: ways to use a device without a resource request.

NVIDIA's container toolkit gives every GPU of a node to a container whose environment says
`NVIDIA_VISIBLE_DEVICES=all`; a mounted device file, a privileged container under the toolkit's
runtime class and an annotation for the Container Device Interface do the same. Such use would be
neither counted nor billed. Each container is checked against its own requests: a request of one
container does not cover another.

What an image says of itself and what `envFrom` brings is not in the pod: the toolkit has
`accept-nvidia-visible-devices-envvar-when-unprivileged=false` against it.
Source: NVIDIA container toolkit, docs of the container runtime; CDI specification, annotations.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quotas.domain.admission.pod_fields import JSON, mapping, objects, text

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
NOTHING_VISIBLE: Final = frozenset({"", "none", "void"})
DEVICE_FILES: Final = ("/dev/nvidia", "/dev/char")
"""Beginnings of the paths of devices; the second is where links to them are by number."""
DEVICE_FOLDERS: Final = frozenset({"/", "/dev"})
RUNTIME_PREFIX: Final = "nvidia"
"""How the names of the toolkit's runtime classes begin."""
CDI_PREFIX: Final = "cdi.k8s.io/"
EPHEMERAL: Final = "ephemeralContainers"
CONTAINER_LISTS: Final = ("initContainers", "containers", EPHEMERAL)
_VALUE_MAX: Final = 131_072
_DEVICES_MAX: Final = 4_096


@dataclass(frozen=True)
class Ways:
    """Ways in which a pod can use GPUs beyond its requests, one phrase each.

    Attributes:
        hidden: Ways of containers that request none.
        beside: Ways of containers that request some, and may so reach more than that.
    """

    hidden: tuple[str, ...]
    beside: tuple[str, ...]


@dataclass(frozen=True)
class _Container:
    """One container, and whether it requests GPUs; an ephemeral one cannot."""

    obj: JSON
    requests: bool

    @property
    def name(self) -> str:
        return text(self.obj.get("name"), "name")


def ways_in(metadata: JSON, spec: JSON, *, requests: Callable[[JSON], bool]) -> Ways:
    """Return the ways in which a pod can use GPUs beyond its requests.

    Args:
        metadata: Of the pod.
        spec: Of the pod.
        requests: Whether a container requests GPUs.

    Raises:
        PodInvalidError: It is no pod.
    """
    containers = [
        _Container(one, name != EPHEMERAL and requests(one))
        for name in CONTAINER_LISTS
        for one in objects(spec.get(name), f"spec.{name}")
    ]
    ways = [
        *_variables(containers),
        *_privileges(spec, containers),
        *_files(spec, containers),
        *_annotations(metadata, containers),
    ]
    return Ways(
        hidden=tuple(way for way, is_covered in ways if not is_covered),
        beside=tuple(way for way, is_covered in ways if is_covered),
    )


_Way = tuple[str, bool]
"""A phrase, and whether every container it is open to requests GPUs."""


def _variables(containers: list[_Container]) -> Iterator[_Way]:
    for container in containers:
        for variable in objects(container.obj.get("env"), "spec.containers.env"):
            if variable.get("name") == VISIBLE_DEVICES and not _shows_nothing(variable):
                yield f"container {container.name} sets {VISIBLE_DEVICES}", container.requests


def _shows_nothing(variable: JSON) -> bool:
    """Whether a variable hides every device; a value from elsewhere may be anything."""
    if variable.get("valueFrom") is not None:
        return False
    return text(variable.get("value"), VISIBLE_DEVICES, limit=_VALUE_MAX) in NOTHING_VISIBLE


def _privileges(spec: JSON, containers: list[_Container]) -> Iterator[_Way]:
    """Yield privileged containers of the toolkit's runtime: it asks those for no permission."""
    runtime = text(spec.get("runtimeClassName"), "spec.runtimeClassName")
    if not runtime.startswith(RUNTIME_PREFIX):
        return
    for container in containers:
        if mapping(container.obj.get("securityContext"), "securityContext").get("privileged"):
            phrase = f"container {container.name} is privileged in runtime class {runtime}"
            yield phrase, container.requests


def _files(spec: JSON, containers: list[_Container]) -> Iterator[_Way]:
    for volume in objects(spec.get("volumes"), "spec.volumes"):
        source = mapping(volume.get("hostPath"), "spec.volumes.hostPath")
        path = text(source.get("path"), "spec.volumes.hostPath.path", limit=4_096)
        plain = _plain(path)
        if path and (plain in DEVICE_FOLDERS or plain.startswith(DEVICE_FILES)):
            name = text(volume.get("name"), "name")
            open_to = [one for one in containers if _mounts(one, name)]
            yield f"volume {name} mounts {path}", _all_request(open_to)


def _mounts(container: _Container, volume: str) -> bool:
    mounts = objects(container.obj.get("volumeMounts"), "volumeMounts")
    return any(mount.get("name") == volume for mount in mounts)


def _all_request(containers: list[_Container]) -> bool:
    return bool(containers) and all(one.requests for one in containers)


def _plain(path: str) -> str:
    """Return a path without the detours that say nothing; the API server refuses `..`."""
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


def _annotations(metadata: JSON, containers: list[_Container]) -> Iterator[_Way]:
    """Yield annotations that name devices; they are for every container."""
    for key, value in mapping(metadata.get("annotations"), "metadata.annotations").items():
        if key.startswith(CDI_PREFIX) and "nvidia.com/" in str(value):
            devices = text(value, key, limit=_DEVICES_MAX)
            yield f"annotation {key} asks for {devices}", _all_request(containers)
