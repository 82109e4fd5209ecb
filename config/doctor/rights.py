"""Rights that each part of the service needs in a cluster, as deploy/kubernetes grants them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from quotas.adapters.cluster_inspection import ClusterRight
from quotas.domain.admission.webhook_configuration import configuration_name
from tenants.models import Cluster
from tenants.models.cluster import QuotaTarget

READ: Final = ("get", "list", "watch")
REGISTRATION: Final = "admissionregistration.k8s.io"
CLUSTER_WIDE: Final = frozenset(
    {
        "nodes",
        "resourceslices",
        "deviceclasses",
        "clusterqueues",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    }
)
"""Resources outside of namespaces: no RoleBinding grants them."""
Rule = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Group, resources and verbs, as a rule of RBAC has them."""

WATCHER: Final[tuple[Rule, ...]] = (
    ("", ("pods", "nodes"), READ),
    ("resource.k8s.io", ("resourceclaims", "resourceslices", "deviceclasses"), READ),
    ("", ("replicationcontrollers",), ("get",)),
    ("apps", ("replicasets",), ("get",)),
    ("batch", ("jobs",), ("get",)),
    (REGISTRATION, ("validatingwebhookconfigurations",), ("list",)),
)
ENFORCER: Final[tuple[Rule, ...]] = (
    ("", ("resourcequotas",), (*READ, "create", "patch")),
    ("", ("events",), ("list",)),
    ("", ("replicationcontrollers",), ("get",)),
    ("apps", ("replicasets", "statefulsets"), ("get",)),
    ("batch", ("jobs",), ("get",)),
    (REGISTRATION, ("validatingwebhookconfigurations",), ("get",)),
)
KUEUE: Final[tuple[Rule, ...]] = (
    ("kueue.x-k8s.io", ("clusterqueues", "localqueues"), ("get", "create", "patch")),
)
PREEMPTION: Final[tuple[Rule, ...]] = (
    ("batch", ("jobs",), ("get", "patch")),
    ("", ("pods",), ("list",)),
    ("", ("pods/eviction",), ("create",)),
)
SELECTOR: Final[tuple[Rule, ...]] = (
    (
        REGISTRATION,
        ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
        ("get", "patch"),
    ),
)


@dataclass(frozen=True)
class ServicePart:
    """A part of the service, and what it needs in a cluster.

    Attributes:
        manifest: That grants it.
        without: What is left undone without it, as the end of a sentence.
        is_needed: Whether the cluster is set up for it; else its lack is a warning.
    """

    manifest: str
    without: str
    rights: tuple[ClusterRight, ...]
    is_needed: bool


def parts_of(cluster: Cluster) -> tuple[ServicePart, ...]:
    """Return the parts that a cluster may have, and what each needs."""
    quotas: tuple[Rule, ...] = ENFORCER
    if cluster.quota_target == QuotaTarget.KUEUE:
        quotas += KUEUE
    name = configuration_name(cluster.slug)
    watched = ServicePart(
        "watcher-rbac.yaml", "its API is not watched", _rights(WATCHER), is_needed=True
    )
    return (
        *((watched,) if cluster.is_watched else ()),
        ServicePart("enforcer-rbac.yaml", "no quota is written", _rights(quotas), is_needed=True),
        ServicePart(
            "preemption-rbac.yaml",
            "plans of preemption are only shown",
            _rights(PREEMPTION),
            is_needed=False,
        ),
        ServicePart(
            "selector-rbac.yaml",
            "webhooks do not follow the bound namespaces",
            _rights(SELECTOR, name=name),
            is_needed=False,
        ),
    )


def _rights(rules: Iterable[Rule], *, name: str = "") -> tuple[ClusterRight, ...]:
    return tuple(_each(rules, name))


def _each(rules: Iterable[Rule], name: str) -> Iterator[ClusterRight]:
    for group, resources, verbs in rules:
        for resource in resources:
            for verb in verbs:
                yield ClusterRight(verb, resource, group, name=name)
