"""Where a request goes: the resource, the object and the part of it that a path names."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from metering.adapters.simulated_cluster.kubernetes_api.errors import no_such_path
from metering.adapters.simulated_cluster.kubernetes_api.resources import (
    NAMESPACES,
    RESOURCES,
    Resource,
)

PREFIX: Final = "/api/v1/"
_PARTS_MAX: Final = 3


@dataclass(frozen=True)
class Route:
    """What a path names; "" for the parts it does not have."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Return a request's path and its query, each key once."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    return parts.path, {key: values[0] for key, values in query.items()}


def route_of(path: str) -> Route:
    """Return what a path below /api/v1 names.

    Raises:
        StatusError: 404 for a path nobody serves.
    """
    if not path.startswith(PREFIX):
        raise no_such_path()
    parts = [unquote(part) for part in path.removeprefix(PREFIX).strip("/").split("/")]
    namespace = ""
    is_inside = len(parts) > _PARTS_MAX - 1 and parts[0] == NAMESPACES.plural
    if is_inside and parts[2] in RESOURCES and RESOURCES[parts[2]].is_namespaced:
        namespace, parts = parts[1], parts[2:]
    resource = RESOURCES.get(parts[0])
    if resource is None or len(parts) > _PARTS_MAX:
        raise no_such_path()
    name, subresource = [*parts[1:], "", ""][:2]
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.is_namespaced and not namespace:
        raise no_such_path()
    return Route(resource, namespace, name, subresource)
