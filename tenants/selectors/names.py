"""Slugs and names of what other rows point at."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from tenants.models import Cluster


@dataclass(frozen=True)
class ObjectName:
    """What people call an object."""

    id: UUID
    slug: str
    name: str


def names_of(rows: QuerySet[Any], ids: Collection[UUID]) -> dict[UUID, ObjectName]:
    """Return the names of those rows that have one of the ids, by id: one statement."""
    found = rows.filter(pk__in=ids).values_list("pk", "slug", "name")
    return {pk: ObjectName(id=pk, slug=slug, name=name) for pk, slug, name in found}


def cluster_names(ids: Collection[UUID]) -> dict[UUID, ObjectName]:
    """Return the names of clusters, which are no secret to those whose pods run there."""
    return names_of(Cluster.objects.all(), ids)


def slugs_of_clusters(slugs: Collection[str]) -> set[str]:
    """Return those of the slugs that clusters have."""
    return set(Cluster.objects.filter(slug__in=slugs).values_list("slug", flat=True))
