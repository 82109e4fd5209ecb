"""The discovery documents: which groups, versions and resources there are."""

from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import (
    ALL,
    API_VERSION,
    AUTHENTICATION,
    GROUPS,
    POLICY,
    Resource,
)

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
_CREATED: Final[dict[str, JSON]] = {
    "binding": {"kind": "Binding"},
    "eviction": {"kind": "Eviction", "group": POLICY, "version": API_VERSION},
    "token": {"kind": "TokenRequest", "group": AUTHENTICATION, "version": API_VERSION},
}
"""Subresources one only posts to, with the kind that is posted."""


def discovery(path: str, address: str) -> JSON | None:
    """Return the discovery document of a path; None when the path is no such document.

    Args:
        path: Of the request.
        address: The host and port the client asked.
    """
    documents: dict[str, JSON] = {
        "/api": {
            "kind": "APIVersions",
            "versions": [API_VERSION],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        },
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": API_VERSION,
            "groups": [_group(name) for name in GROUPS],
        },
        "/api/v1": _resource_list(""),
        "/version": VERSION,
    }
    for name in GROUPS:
        documents[f"/apis/{name}"] = {
            "kind": "APIGroup",
            "apiVersion": API_VERSION,
            **_group(name),
        }
        documents[f"/apis/{name}/{GROUPS[name]}"] = _resource_list(name)
    return documents.get(path.rstrip("/"))


def _group(name: str) -> JSON:
    version = {"groupVersion": f"{name}/{GROUPS[name]}", "version": GROUPS[name]}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource_list(group: str) -> JSON:
    entries: list[JSON] = []
    for one in ALL:
        if one.group == group:
            entries += [_entry(one), *(_subentry(one, name) for name in one.subresources)]
    return {
        "kind": "APIResourceList",
        "apiVersion": API_VERSION,
        "groupVersion": f"{group}/{GROUPS[group]}" if group else API_VERSION,
        "resources": entries,
    }


def _entry(resource: Resource) -> JSON:
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(_VERBS),
        "shortNames": list(resource.short_names),
    }


def _subentry(resource: Resource, subresource: str) -> JSON:
    posted = _CREATED.get(subresource)
    return {
        "name": f"{resource.plural}/{subresource}",
        "singularName": "",
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": ["create"] if posted else ["get", "patch", "update"],
        **(posted or {}),
    }
