"""Directories: projects of namespaces, hour by hour; clusters with tokens; references."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from tenants.domain.clusters import REFERENCE_FIELDS
from tenants.models import Cluster, Organization, Project
from tenants.models.organization import LifecycleState
from tenants.selectors.clock import read_moment


@dataclass(frozen=True)
class NamespaceFact:
    """One namespace bound to one project for a range of whole UTC hours.

    Attributes:
        default_owner: User name that owns what no label claims; "" for none.
        end_at: Excluded; None for until further notice.
    """

    namespace: str
    project_id: UUID
    organization_id: UUID
    default_owner: str
    begin_at: datetime
    end_at: datetime | None


def namespace_directory(
    cluster_id: UUID, *, begin_at: datetime, end_at: datetime
) -> tuple[NamespaceFact, ...]:
    """Return the bindings of a cluster that hold within [begin_at, end_at), by namespace and time.

    Args:
        cluster_id: The cluster.
        begin_at: Start of the queried time, included.
        end_at: Its end, excluded.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BINDINGS, {"cluster": cluster_id, "begin": begin_at, "end": end_at})
        return tuple(
            NamespaceFact(
                namespace,
                project_id,
                organization_id,
                default_owner,
                read_moment(begin),
                None if end is None else read_moment(end),
            )
            for namespace, project_id, organization_id, default_owner, begin, end in cursor
        )


# The bounds of a range are read one by one: psycopg parses a range in Python, ten times as slowly.
_BINDINGS: Final = """
SELECT b.namespace, b.project_id, p.organization_id, coalesce(u.username, ''), lower(b.valid)::text,
       upper(b.valid)::text
  FROM tenants_namespacebinding b
  JOIN tenants_project p ON p.id = b.project_id
  LEFT JOIN auth_user u ON u.id = b.default_owner_id
 WHERE b.cluster_id = %(cluster)s
   AND b.valid && tstzrange(%(begin)s::timestamptz, %(end)s::timestamptz)
 ORDER BY b.namespace, b.valid
"""
Directory = Mapping[str, Sequence[NamespaceFact]]
"""Namespace to its bindings."""


def directory_of(bindings: Iterable[NamespaceFact]) -> Directory:
    """Return bindings by namespace."""
    by_namespace: dict[str, list[NamespaceFact]] = defaultdict(list)
    for binding in bindings:
        by_namespace[binding.namespace].append(binding)
    return by_namespace


def tenant_at(directory: Directory, *, namespace: str, moment: datetime) -> NamespaceFact | None:
    """Return the binding of a namespace at a moment, or None when it was not bound."""
    for binding in directory.get(namespace, ()):
        if binding.begin_at <= moment and (binding.end_at is None or moment < binding.end_at):
            return binding
    return None


def organization_names() -> list[tuple[str, str]]:
    """Return slug and name of every organization, by name."""
    return list(Organization.objects.order_by("name").values_list("slug", "name"))


def clusters_with_tokens() -> list[Cluster]:
    """Return the open clusters with a token in a file, the oldest first."""
    rows = Cluster.objects.filter(credential_reference__startswith="file:")
    return list(rows.filter(state=LifecycleState.ACTIVE).order_by("created_at", "slug"))


def references_with(fields: Mapping[str, object]) -> frozenset[str]:
    """Return the references to secrets of all clusters, and those among a cluster's new fields."""
    stored = Cluster.objects.values_list(*REFERENCE_FIELDS)
    named = {str(fields.get(field) or "") for field in REFERENCE_FIELDS}
    return frozenset(named.union(*stored)) - {""}


def shared_time_zone(
    projects: QuerySet[Project], *, organization_id: UUID | None, project_id: UUID | None
) -> str:
    """Return the time zone of the organizations of some projects, UTC where they have several.

    Args:
        projects: What is asked about.
        organization_id: Only this organization's; None for all.
        project_id: Only this one; None for all.
    """
    if organization_id is not None:
        projects = projects.filter(organization_id=organization_id)
    if project_id is not None:
        projects = projects.filter(pk=project_id)
    zones = list(
        projects.order_by().values_list("organization__time_zone", flat=True).distinct()[:2]
    )
    return zones[0] if len(zones) == 1 else "UTC"
