"""The catalogue in force, the hardware that pods held, and the GPU models that are known."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from django.db import connection

from metering.domain.catalogue.editing import SeenHardware
from metering.domain.catalogue.model_groups import SHORT_GROUPS, group_of_product, is_named
from metering.domain.catalogue.names import possible_sizes, unsized_name_sentence
from metering.domain.catalogue.sizing import DEFAULT_RULES, Catalogue, rule_from_json
from metering.models import CatalogueVersion, NodeRecord, PodAllocation

_VERSIONS_CACHED_MAX = 8


def catalogue_in_force() -> Catalogue | None:
    """Return the newest catalogue, or None when none was ever stored."""
    newest = CatalogueVersion.objects.order_by("-version").values_list("version", "digest").first()
    return None if newest is None else _load(*newest)


def catalogue_of(version: int) -> Catalogue:
    """Return a stored version."""
    stored = CatalogueVersion.objects.values_list("version", "digest")
    return _load(*stored.get(version=version))


@lru_cache(maxsize=_VERSIONS_CACHED_MAX)
def _load(version: int, digest: str) -> Catalogue:
    """Return a stored version; rows never change, so a version with its digest is read once."""
    stored = CatalogueVersion.objects.get(version=version, digest=digest)
    return Catalogue(version=version, rules=tuple(rule_from_json(rule) for rule in stored.rules))


def advise_on_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return one sentence for each offered resource name that no rule in force names.

    The setting CLUSTER_ADVICE names this function, for those who register the names.

    Args:
        names: As Kubernetes spells them, device classes as "claim/<device class>".
    """
    if not names:
        return ()
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    return tuple(
        unsized_name_sentence(name) for name in names if not possible_sizes(name, rules=rules)
    )


# Every kind of hardware is one (resource, labels), however many pods and nodes there were. Labels
# are the sizing ones only, so nothing of a single node is among them. Whether a pod was preemptible
# is no matter of the hardware.
_SEEN = """
WITH used AS (
  SELECT cluster_id, pod_uid, resource, sum(unit_seconds)::bigint AS unit_seconds
    FROM metering_usage WHERE window_start >= %(since)s GROUP BY 1, 2, 3
)
SELECT a.resource, coalesce(l.labels, '{}'), a.size, regexp_replace(a.price_group, '/burst$', ''),
       coalesce(sum(a.units) FILTER (WHERE a.end_at IS NULL), 0)::bigint,
       coalesce(sum(u.unit_seconds), 0)::bigint
  FROM metering_podallocation a
  LEFT JOIN metering_nodelabelset l ON l.id = a.label_set_id
  LEFT JOIN used u USING (cluster_id, pod_uid, resource)
 WHERE a.end_at IS NULL OR a.end_at >= %(since)s
 GROUP BY 1, 2, 3, 4
 ORDER BY 1, 3, 4, 2
"""


def hardware_seen(*, since: datetime) -> tuple[SeenHardware, ...]:
    """Return what pods held at or after a time, one per kind, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, {"since": since})
        rows = cursor.fetchall()
    return tuple(
        SeenHardware(
            resource=resource,
            labels=json.loads(labels),
            size=size,
            price_group=price_group,
            open_units=open_units,
            unit_seconds=unit_seconds,
        )
        for resource, labels, size, price_group, open_units, unit_seconds in rows
    )


def unknown_model_group(model_group: str) -> tuple[str, ...] | None:
    """Return the known names when a model group is none of them, or None when it is right.

    Nothing is read for "", which is every model, nor for a short name of the catalogue; what pods
    hold and nodes were seen is read only for a name that the catalogue does not have.
    """
    if not model_group or model_group in SHORT_GROUPS:
        return None
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    if is_named(model_group, rules=rules):
        return None
    known = SHORT_GROUPS | _seen()
    return None if model_group in known else tuple(sorted(known))


def _seen() -> frozenset[str]:
    """Return the model groups of nodes that were ever watched, and of what pods hold now."""
    key = "labels__nvidia.com/gpu.product"
    products = NodeRecord.objects.order_by().values_list(key, flat=True).distinct()
    held = PodAllocation.objects.filter(end_at=None).order_by()
    groups = held.values_list("price_group", flat=True).distinct()
    return frozenset(
        {group_of_product(product) for product in products if product}
        | {group.partition("/")[0] for group in groups if group}
    )
