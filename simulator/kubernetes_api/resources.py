"""The resources that are served, and the discovery documents about them."""

from dataclasses import dataclass
from typing import Any, Final

from simulator.kubernetes_api.errors import JSON

POLICY: Final = "policy"
BATCH: Final = "batch"
SCHEDULING: Final = "scheduling.k8s.io"
REGISTRATION: Final = "admissionregistration.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
DYNAMIC: Final = "resource.k8s.io"
KUEUE: Final = "kueue.x-k8s.io"
AUTHENTICATION: Final = "authentication.k8s.io"
GROUPS: Final = {
    REGISTRATION: "v1",
    BATCH: "v1",
    KUEUE: "v1beta2",
    POLICY: "v1",
    RBAC: "v1",
    DYNAMIC: "v1",
    SCHEDULING: "v1",
}
"""The one version that is served of each group, by name."""
POSTED: Final[dict[str, JSON]] = {
    "binding": {"kind": "Binding"},
    "eviction": {"kind": "Eviction", "group": POLICY, "version": "v1"},
    "token": {"kind": "TokenRequest", "group": AUTHENTICATION, "version": "v1"},
}
"""Subresources that only take a POST, with the kind that is posted."""
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_UNKNOWN: Final = ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
_VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    **dict.fromkeys(_UNKNOWN, ""),
}


@dataclass(frozen=True)
class Resource:
    """One kind of object.

    Attributes:
        plural: The name in paths; unique, objects are stored under it.
        group: The API group; "" for the core group.
        fields: What a field selector may select by, beside name and namespace.
    """

    plural: str
    kind: str
    group: str = ""
    is_namespaced: bool = True
    subresources: tuple[str, ...] = ("status",)
    short_name: str = ""
    fields: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Return the version of its group."""
        return GROUPS.get(self.group, "v1")

    @property
    def api_version(self) -> str:
        """Return group and version as objects carry them: "v1", "batch/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return the name as errors print it: "pods", "jobs.batch"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """Return the kind as errors print it: "Pod", "Job.batch"."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def has_generation(self) -> bool:
        """Return whether a change of the spec raises `metadata.generation`."""
        return self.group not in {"", RBAC}

    @property
    def keeps_metadata(self) -> bool:
        """Return whether a write of the status leaves labels and annotations as they are."""
        return self.group in {DYNAMIC, KUEUE}

    def typed(self, obj: JSON) -> JSON:
        """Return an object as it is sent alone: with kind and apiVersion first."""
        return {"kind": self.kind, "apiVersion": self.api_version, **obj}


RESOURCES: Final[dict[str, Resource]] = {}
"""What is served, by plural."""


def _serve(plural: str, kind: str, group: str = "", **fields: Any) -> Resource:  # noqa: ANN401 - A Resource's own.
    RESOURCES[plural] = Resource(plural, kind, group, **fields)
    return RESOURCES[plural]


def _serve_global(plural: str, kind: str, group: str, **fields: Any) -> Resource:  # noqa: ANN401 - As above.
    """Serve a kind without namespaces and without a status."""
    return _serve(plural, kind, group, is_namespaced=False, subresources=(), **fields)


NAMESPACES: Final = _serve(
    "namespaces", "Namespace", is_namespaced=False, short_name="ns", fields=("status.phase",)
)
NODES: Final = _serve(
    "nodes", "Node", is_namespaced=False, short_name="no", fields=("spec.unschedulable",)
)
PODS: Final = _serve(
    "pods",
    "Pod",
    subresources=("status", "binding", "eviction", "ephemeralcontainers"),
    short_name="po",
    fields=("spec.nodeName", "spec.schedulerName", "spec.serviceAccountName", "status.phase"),
)
CONFIG_MAPS: Final = _serve("configmaps", "ConfigMap", subresources=(), short_name="cm")
QUOTAS: Final = _serve("resourcequotas", "ResourceQuota", short_name="quota")
SERVICE_ACCOUNTS: Final = _serve(
    "serviceaccounts", "ServiceAccount", subresources=("token",), short_name="sa"
)
EVENTS: Final = _serve(
    "events", "Event", subresources=(), short_name="ev", fields=("reason", "type")
)
SERVICES: Final = _serve("services", "Service", short_name="svc")
BUDGETS: Final = _serve("poddisruptionbudgets", "PodDisruptionBudget", POLICY, short_name="pdb")
JOBS: Final = _serve("jobs", "Job", BATCH)
PRIORITY_CLASSES: Final = _serve_global(
    "priorityclasses", "PriorityClass", SCHEDULING, short_name="pc"
)
VALIDATING_WEBHOOKS: Final = _serve_global(
    "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", REGISTRATION
)
MUTATING_WEBHOOKS: Final = _serve_global(
    "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", REGISTRATION
)
ROLES: Final = _serve("roles", "Role", RBAC, subresources=())
ROLE_BINDINGS: Final = _serve("rolebindings", "RoleBinding", RBAC, subresources=())
CLUSTER_ROLES: Final = _serve_global("clusterroles", "ClusterRole", RBAC)
CLUSTER_ROLE_BINDINGS: Final = _serve_global("clusterrolebindings", "ClusterRoleBinding", RBAC)
CLAIMS: Final = _serve("resourceclaims", "ResourceClaim", DYNAMIC)
CLAIM_TEMPLATES: Final = _serve(
    "resourceclaimtemplates", "ResourceClaimTemplate", DYNAMIC, subresources=()
)
SLICES: Final = _serve_global(
    "resourceslices", "ResourceSlice", DYNAMIC, fields=("spec.nodeName", "spec.driver")
)
DEVICE_CLASSES: Final = _serve_global("deviceclasses", "DeviceClass", DYNAMIC)
CLUSTER_QUEUES: Final = _serve(
    "clusterqueues", "ClusterQueue", KUEUE, is_namespaced=False, short_name="cq"
)
LOCAL_QUEUES: Final = _serve("localqueues", "LocalQueue", KUEUE, short_name="lq")


def discovery(path: str) -> JSON | None:
    """Return the discovery document of a path; None when the path has none."""
    documents: dict[str, JSON] = {
        "/version": _VERSION,
        # The official client refuses a document without the last list.
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/api/v1": _resource_list("", "v1"),
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name) for name in GROUPS],
        },
    }
    for name, version in GROUPS.items():
        documents[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}
        documents[f"/apis/{name}/{version}"] = _resource_list(name, f"{name}/{version}")
    return documents.get(path.rstrip("/"))


def _group(name: str) -> JSON:
    version = {"groupVersion": f"{name}/{GROUPS[name]}", "version": GROUPS[name]}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource_list(group: str, group_version: str) -> JSON:
    entries: list[JSON] = []
    for one in RESOURCES.values():
        if one.group == group:
            entries.append(_entry(one, one.plural, _VERBS))
            entries += [_subentry(one, name) for name in one.subresources]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }


def _entry(resource: Resource, name: str, verbs: tuple[str, ...]) -> JSON:
    return {
        "name": name,
        "singularName": resource.kind.lower(),
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(verbs),
        "shortNames": [resource.short_name] if resource.short_name else [],
    }


def _subentry(resource: Resource, name: str) -> JSON:
    verbs = ("create",) if name in POSTED else ("get", "patch", "update")
    return {**_entry(resource, f"{resource.plural}/{name}", verbs), **POSTED.get(name, {})}
