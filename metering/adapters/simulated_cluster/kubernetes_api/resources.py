"""The resources that are served, and the discovery documents that tell of them."""

from dataclasses import dataclass
from typing import Final

from metering.adapters.simulated_cluster.kubernetes_api.errors import JSON

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
API_VERSION: Final = "v1"
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


@dataclass(frozen=True)
class Resource:
    """One kind of object.

    Attributes:
        plural: As it stands in paths.
        answers_deleted: Whether DELETE answers the object instead of a Status.
        fields: What a field selector may ask beside name and namespace.
    """

    plural: str
    kind: str
    is_namespaced: bool
    subresources: tuple[str, ...] = ("status",)
    short_names: tuple[str, ...] = ()
    answers_deleted: bool = True
    fields: tuple[str, ...] = ()

    @property
    def singular(self) -> str:
        """Return the name as people say it."""
        return self.kind.lower()


NAMESPACES: Final = Resource(
    "namespaces", "Namespace", is_namespaced=False, short_names=("ns",), fields=("status.phase",)
)
NODES: Final = Resource(
    "nodes",
    "Node",
    is_namespaced=False,
    short_names=("no",),
    answers_deleted=False,
    fields=("spec.unschedulable",),
)
PODS: Final = Resource(
    "pods",
    "Pod",
    is_namespaced=True,
    subresources=("status", "binding"),
    short_names=("po",),
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ),
)
QUOTAS: Final = Resource(
    "resourcequotas", "ResourceQuota", is_namespaced=True, short_names=("quota",)
)
RESOURCES: Final = {one.plural: one for one in (NAMESPACES, NODES, PODS, QUOTAS)}


def discovery(path: str, address: str) -> JSON | None:
    """Return the discovery document of a path; None when the path is no such document."""
    documents: dict[str, JSON] = {
        "/api": {
            "kind": "APIVersions",
            "versions": [API_VERSION],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        },
        "/apis": {"kind": "APIGroupList", "apiVersion": API_VERSION, "groups": []},
        "/api/v1": {
            "kind": "APIResourceList",
            "groupVersion": API_VERSION,
            "resources": _resource_list(),
        },
        "/version": VERSION,
    }
    return documents.get(path.rstrip("/"))


def _resource_list() -> list[JSON]:
    entries: list[JSON] = []
    for one in RESOURCES.values():
        entries.append(
            {
                "name": one.plural,
                "singularName": one.singular,
                "namespaced": one.is_namespaced,
                "kind": one.kind,
                "verbs": list(_VERBS),
                "shortNames": list(one.short_names),
            }
        )
        entries += [
            {
                "name": f"{one.plural}/{subresource}",
                "singularName": "",
                "namespaced": one.is_namespaced,
                "kind": "Binding" if subresource == "binding" else one.kind,
                "verbs": ["create"] if subresource == "binding" else ["get", "patch", "update"],
            }
            for subresource in one.subresources
        ]
    return entries
