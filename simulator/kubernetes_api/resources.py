"""The resources that are served: their names, groups, subresources and habits."""

from dataclasses import dataclass
from typing import Final

API_VERSION: Final = "v1"


@dataclass(frozen=True)
class Resource:
    """One kind of object.

    Attributes:
        plural: As it stands in paths.
        answers_deleted: Whether DELETE answers the object instead of a Status.
        fields: What a field selector may ask beside name and namespace.
        group: Its API group; "" for the core group.
        has_generation: Whether a change of the spec makes a new `metadata.generation`.
        keeps_metadata: Whether a write of its status leaves labels and annotations alone.
        version: Of its API group.
    """

    plural: str
    kind: str
    is_namespaced: bool
    subresources: tuple[str, ...] = ("status",)
    short_names: tuple[str, ...] = ()
    answers_deleted: bool = True
    fields: tuple[str, ...] = ()
    group: str = ""
    has_generation: bool = False
    keeps_metadata: bool = False
    version: str = API_VERSION

    @property
    def singular(self) -> str:
        """Return the name as people say it."""
        return self.kind.lower()

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


POLICY: Final = "policy"
BATCH: Final = "batch"
SCHEDULING: Final = "scheduling.k8s.io"
REGISTRATION: Final = "admissionregistration.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
DYNAMIC: Final = "resource.k8s.io"
KUEUE: Final = "kueue.x-k8s.io"
AUTHENTICATION: Final = "authentication.k8s.io"

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
    subresources=("status", "binding", "eviction", "ephemeralcontainers"),
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
SERVICE_ACCOUNTS: Final = Resource(
    "serviceaccounts",
    "ServiceAccount",
    is_namespaced=True,
    subresources=("token",),
    short_names=("sa",),
)
SERVICES: Final = Resource("services", "Service", is_namespaced=True, short_names=("svc",))
BUDGETS: Final = Resource(
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    is_namespaced=True,
    short_names=("pdb",),
    answers_deleted=False,
    group=POLICY,
    has_generation=True,
)
JOBS: Final = Resource(
    "jobs",
    "Job",
    is_namespaced=True,
    answers_deleted=False,
    fields=("status.successful",),
    group=BATCH,
    has_generation=True,
)
PRIORITY_CLASSES: Final = Resource(
    "priorityclasses",
    "PriorityClass",
    is_namespaced=False,
    subresources=(),
    short_names=("pc",),
    answers_deleted=False,
    group=SCHEDULING,
    has_generation=True,
)


def _webhooks(plural: str, kind: str) -> Resource:
    return Resource(
        plural,
        kind,
        is_namespaced=False,
        subresources=(),
        answers_deleted=False,
        group=REGISTRATION,
        has_generation=True,
    )


VALIDATING_WEBHOOKS: Final = _webhooks(
    "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_WEBHOOKS: Final = _webhooks(
    "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)


def _role_object(plural: str, kind: str, *, is_namespaced: bool) -> Resource:
    return Resource(
        plural,
        kind,
        is_namespaced=is_namespaced,
        subresources=(),
        answers_deleted=False,
        group=RBAC,
    )


ROLES: Final = _role_object("roles", "Role", is_namespaced=True)
ROLE_BINDINGS: Final = _role_object("rolebindings", "RoleBinding", is_namespaced=True)
CLUSTER_ROLES: Final = _role_object("clusterroles", "ClusterRole", is_namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _role_object(
    "clusterrolebindings", "ClusterRoleBinding", is_namespaced=False
)

CLAIMS: Final = Resource(
    "resourceclaims", "ResourceClaim", is_namespaced=True, group=DYNAMIC, keeps_metadata=True
)
CLAIM_TEMPLATES: Final = Resource(
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    is_namespaced=True,
    subresources=(),
    group=DYNAMIC,
)
SLICES: Final = Resource(
    "resourceslices",
    "ResourceSlice",
    is_namespaced=False,
    subresources=(),
    fields=("spec.nodeName", "spec.driver"),
    group=DYNAMIC,
    has_generation=True,
)
DEVICE_CLASSES: Final = Resource(
    "deviceclasses",
    "DeviceClass",
    is_namespaced=False,
    subresources=(),
    group=DYNAMIC,
    has_generation=True,
)
CLUSTER_QUEUES: Final = Resource(
    "clusterqueues",
    "ClusterQueue",
    is_namespaced=False,
    short_names=("cq",),
    answers_deleted=False,
    group=KUEUE,
    has_generation=True,
    keeps_metadata=True,
    version="v1beta2",
)
LOCAL_QUEUES: Final = Resource(
    "localqueues",
    "LocalQueue",
    is_namespaced=True,
    short_names=("lq",),
    answers_deleted=False,
    group=KUEUE,
    has_generation=True,
    keeps_metadata=True,
    version="v1beta2",
)

ALL: Final = (
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
    BUDGETS,
    JOBS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
    MUTATING_WEBHOOKS,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    CLAIMS,
    CLAIM_TEMPLATES,
    SLICES,
    DEVICE_CLASSES,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
)
RESOURCES: Final = {one.plural: one for one in ALL}
"""By plural, which is unique among what is served; objects are stored under it."""
GROUPS: Final = dict(sorted({one.group: one.version for one in ALL if one.group}.items()))
"""The one version that is served of each group, by name."""
