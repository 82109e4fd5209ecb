"""Facts of isolation, as admission keeps them: policies, and whose namespaces a cluster has."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from quotas.domain.isolation_policy import Policy, ServingMode, WorkKind
from quotas.models import IsolationPolicy
from tenants.models import NamespaceBinding


@dataclass(frozen=True)
class Tenant:
    """Whose a namespace is, by slugs, as policies name them."""

    organization: str
    project: str


def isolation_policies() -> tuple[Policy, ...]:
    """Return every policy, by organization, project and kind of work; one statement."""
    rows = IsolationPolicy.objects.order_by(
        "organization__slug", "project__slug", "work_kind"
    ).values_list(
        "organization__slug",
        "project__slug",
        "work_kind",
        "modes",
        "may_meet_tenants",
        "default_kind",
    )
    return tuple(
        Policy(
            organization=organization,
            project=project,
            work_kind=WorkKind(kind) if kind else None,
            modes=frozenset(ServingMode(mode) for mode in modes),
            may_meet_tenants=may_meet,
            default_kind=WorkKind(default) if default else None,
        )
        for organization, project, kind, modes, may_meet, default in rows.iterator()
    )


def tenants_of_namespaces(*, at: datetime, cluster_id: UUID) -> Mapping[str, Tenant]:
    """Return whose each bound namespace of a cluster is at a time; one statement.

    Several organizations among them mean that tenants may meet on its shared devices.
    """
    rows = NamespaceBinding.objects.filter(cluster_id=cluster_id, valid__contains=at).values_list(
        "namespace", "project__organization__slug", "project__slug"
    )
    return {
        namespace: Tenant(organization, project)
        for namespace, organization, project in rows.iterator()
    }
