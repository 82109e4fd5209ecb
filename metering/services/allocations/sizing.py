"""Sizes in the allocation ledger: looked up at the bind, and later where the device was unknown."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from metering.domain.catalogue.claimed_devices import size_of_held
from metering.domain.catalogue.sizing import Catalogue, Sized, Unsized
from metering.domain.catalogue.units import BURST_ENDING, CLAIM_PREFIX
from metering.models import PodAllocation
from metering.selectors.locks import lock_cluster_ledger
from metering.services.catalogue import ensure_catalogue
from tenants.domain.actors import Actor
from tenants.services.audit import record
from tenants.services.turns import for_each_isolated

SIZES = """
jsonb_to_recordset(%(sizes)s) AS z(resource text, labels jsonb, size text, price_group text,
  sharing_mode text, product text, share_numerator integer, share_denominator integer,
  catalogue_version integer)
"""
"""A relation of sizes by resource and labels; a thing without a size is not in it."""


def group_sql(priority_class: str) -> str:
    """Return the price group of a row of `SIZES` for a pod, as SQL; "" without a size.

    Args:
        priority_class: The column with the pod's priority class; `%(burst)s` are those that are
            preemptible.
    """
    burst = f"CASE WHEN {priority_class} = ANY(%(burst)s) THEN '{BURST_ENDING}' ELSE '' END"
    return f"COALESCE(z.price_group || {burst}, '')"


def burst_classes() -> list[str]:
    """Return the PriorityClasses whose pods may be preempted at any time."""
    return list(settings.BURST_PRIORITY_CLASSES)


_SIZING_LABELS = ("nvidia.com/gpu.", "nvidia.com/mig.", "nvidia.com/mig-")
_CHATTER = ("nvidia.com/gpu.deploy.",)
_DEDICATED_TO = "gpu-ledger.io/dedicated-to"
"""The tenant a node is dedicated to; isolation reads it from the record of the node."""


def sizing_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the raw node labels that show its GPUs and whether it is dedicated to a tenant.

    Labels for the progress of rollouts are left out: they change and do not affect the size.
    """
    return {
        key: text
        for key, text in sorted(labels.items())
        if key == _DEDICATED_TO or (key.startswith(_SIZING_LABELS) and not key.startswith(_CHATTER))
    }


def labelled(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield resources with their labels, from rows of raw SQL."""
    for resource, labels in rows:
        yield resource, json.loads(labels)


def sizes_json(catalogue: Catalogue, asked: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Return sizes as the relation `SIZES` reads them.

    Args:
        catalogue: The version in force.
        asked: Raw resource and the labels it is sized by, each pair once.
    """
    return json.dumps(
        [
            _values(resource, labels=labels, sized=sized)
            for resource, labels in asked
            if not isinstance(
                sized := size_of_held(catalogue, resource=resource, labels=labels), Unsized
            )
        ]
    )


def _values(resource: str, *, labels: Mapping[str, str], sized: Sized) -> dict[str, Any]:
    return {
        "resource": resource,
        "labels": dict(labels),
        "size": sized.size.value,
        "price_group": sized.price_group,
        "sharing_mode": sized.sharing_mode.value,
        "product": sized.product,
        "share_numerator": sized.share.numerator,
        "share_denominator": sized.share.denominator,
        "catalogue_version": sized.catalogue_version,
    }


LABELS_LATE: Final = timedelta(hours=1)
"""How long after a pod's end its node's first labels still apply to it."""

# Labels that are there already stay: they are those of the bind.
_FILL = """
UPDATE metering_podallocation a SET label_set_id = metering_label_set(n.labels)
  FROM (SELECT DISTINCT ON (u.id) u.id, r.labels
          FROM metering_podallocation u
          JOIN metering_noderecord r ON r.cluster_id = u.cluster_id AND r.node = u.node
           AND r.labels <> '{}' AND COALESCE(r.end_at, 'infinity') > u.begin_at
           AND r.begin_at <= COALESCE(u.end_at, 'infinity') + %(late)s
         WHERE u.cluster_id = %(cluster_id)s AND u.size = '' AND u.label_set_id IS NULL
           AND NOT starts_with(u.resource, %(claims)s)
         ORDER BY u.id, r.begin_at) n
 WHERE a.id = n.id
"""
_ASKED = """
SELECT DISTINCT a.resource, l.labels
  FROM metering_podallocation a JOIN metering_nodelabelset l ON l.id = a.label_set_id
 WHERE a.cluster_id = %(cluster_id)s AND a.size = ''
"""
_SETTLE = f"""
UPDATE metering_podallocation a
   SET size = z.size, price_group = {group_sql("a.priority_class")}, sharing_mode = z.sharing_mode,
       product = z.product, share_numerator = z.share_numerator,
       share_denominator = z.share_denominator, catalogue_version = z.catalogue_version
  FROM {SIZES} JOIN metering_nodelabelset l ON l.labels = z.labels
 WHERE a.cluster_id = %(cluster_id)s AND a.size = '' AND a.resource = z.resource
   AND a.label_set_id = l.id
"""  # noqa: S608 - The relation is a constant of ours.


def settle_sizes(*, cluster_id: UUID, actor: Actor, at: datetime) -> int:
    """Size the rows without a size in a cluster's ledger that the catalogue now covers.

    Each row is sized by the labels kept with it, once; what has a size is not touched.

    Returns:
        How many rows got their size. An audit entry is written when there were any.
    """
    catalogue = ensure_catalogue(actor=actor, at=at)
    with transaction.atomic():
        lock_cluster_ledger(cluster_id)
        settled = settle_open_sizes(cluster_id, catalogue=catalogue)
        if settled:
            record(
                actor=actor,
                at=at,
                action="metering:allocation:settle",
                object_kind="cluster",
                object_id=cluster_id,
                facts={"rows": settled, "catalogue_version": catalogue.version},
            )
    return settled


def settle_everywhere(*, actor: Actor, at: datetime) -> int:
    """Size what the catalogue now covers, in every cluster that has something open.

    One statement when there is nothing; each cluster is a separate transaction, and a failed one
    does not stop the others.
    """
    clusters = PodAllocation.objects.filter(size="").order_by("cluster_id")
    return for_each_isolated(
        clusters.values_list("cluster_id", flat=True).distinct(),
        lambda cluster_id: settle_sizes(cluster_id=cluster_id, actor=actor, at=at),
        event="metering.sizes.failed",
        at=at,
    )


def settle_open_sizes(cluster_id: UUID, *, catalogue: Catalogue) -> int:
    """Fill labels that have come since and size what can be sized, within a transaction."""
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "claims": CLAIM_PREFIX,
        "late": LABELS_LATE,
        "burst": burst_classes(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_FILL, given)
        cursor.execute(_ASKED, given)
        asked = list(labelled(cursor.fetchall()))
        if not asked:
            return 0
        cursor.execute(_SETTLE, given | {"sizes": sizes_json(catalogue, asked)})
        return int(cursor.rowcount)
