"""Where a request goes: the resource, the object and the part of it that a path names."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from simulator.kubernetes_api.errors import no_such_path
from simulator.kubernetes_api.resources import (
    API_VERSION,
    GROUPS,
    NAMESPACES,
    RESOURCES,
    Resource,
)

_CORE: Final = ("api", API_VERSION)
_PARTS_MAX: Final = 3
_INSIDE: Final = 3
"""Parts of "namespaces/NAME/something"."""
_GROUPED: Final = 4
_TRUE: Final = frozenset({"true", "True", "1"})
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Route:
    """What a path names; "" for the parts it does not have."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True)
class Asked:
    """What a request asks for, as an authorizer sees it: before it is known whether that is there.

    Attributes:
        resource: "pods", or "pods/status"; "" for a path that names no resource.
    """

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def plural(self) -> str:
        """Return the resource without its subresource."""
        return self.resource.split("/", maxsplit=1)[0]


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Return a request's path and its query, each key once."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    return parts.path, {key: values[0] for key, values in query.items()}


def asked_of(method: str, target: str) -> Asked:
    """Return what a request asks for, whether that is served or not.

    Source: kubernetes/apiserver, pkg/endpoints/request/requestinfo.go.
    """
    path, query = split_target(target)
    group, parts = _split_group(path)
    if not parts or not parts[0]:
        return Asked(verb=method.lower(), path=path)
    namespace = ""
    if parts[0] == NAMESPACES.plural and len(parts) > 1:
        namespace = parts[1]
        if len(parts) >= _INSIDE and parts[2] != "status":
            parts = parts[2:]
    plural, name, subresource = [*parts[:_PARTS_MAX], "", ""][:_PARTS_MAX]
    return Asked(
        verb=_verb(method, name, query),
        path=path,
        group=group,
        resource=f"{plural}/{subresource}" if subresource else plural,
        namespace=namespace,
        name=name,
    )


def route_of(path: str) -> Route:
    """Return what a path below /api/v1 or /apis names.

    Raises:
        StatusError: 404 for a path nobody serves.
    """
    group, parts = _split_group(path)
    if not parts or (group and not _is_served(group, path)):
        raise no_such_path()
    namespace = ""
    if len(parts) >= _INSIDE and parts[0] == NAMESPACES.plural:
        inner = _resource(group, parts[2])
        if inner is not None and inner.is_namespaced:
            namespace, parts = parts[1], parts[2:]
    resource = _resource(group, parts[0])
    if resource is None or len(parts) > _PARTS_MAX:
        raise no_such_path()
    name, subresource = [*parts[1:], "", ""][:2]
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.is_namespaced and not namespace:
        raise no_such_path()
    return Route(resource, namespace, name, subresource)


def _split_group(path: str) -> tuple[str, list[str]]:
    """Return the group of a path and what follows its version; nothing for other paths."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if tuple(parts[:2]) == _CORE:
        return "", parts[2:]
    if parts[0] == "apis" and len(parts) >= _GROUPED:
        return parts[1], parts[3:]
    return "", []


def _is_served(group: str, path: str) -> bool:
    version = path.strip("/").split("/")[2]
    return GROUPS.get(group) == version


def _resource(group: str, plural: str) -> Resource | None:
    found = RESOURCES.get(plural)
    return found if found is not None and found.group == group else None


def _verb(method: str, name: str, query: dict[str, str]) -> str:
    if method == "GET":
        if name:
            return "get"
        return "watch" if query.get("watch", "") in _TRUE else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS.get(method, method.lower())
