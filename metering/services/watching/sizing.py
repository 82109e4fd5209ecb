"""Sizing in the watch's ledger: the catalogue asked once per resource and set of labels."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.conf import settings

from metering.domain.catalogue import Catalogue, Sized, Unsized, size_of
from metering.domain.claimed_devices import size_of_device
from metering.domain.pod_life import CLAIM_PREFIX
from metering.domain.price_groups import BURST_ENDING

SIZES = """
jsonb_to_recordset(%(sizes)s) AS z(resource text, labels jsonb, size text, price_group text,
  sharing_mode text, product text, share_numerator integer, share_denominator integer,
  catalogue_version integer)
"""
"""A relation of sizes by resource and labels; a thing without a size is not in it."""


def group_sql(priority_class: str) -> str:
    """Return the price group of a row of `SIZES` for a pod, as SQL; "" without a size.

    Args:
        priority_class: The column that tells the pod's; `%(burst)s` are those that are preemptible.
    """
    burst = f"CASE WHEN {priority_class} = ANY(%(burst)s) THEN '{BURST_ENDING}' ELSE '' END"
    return f"COALESCE(z.price_group || {burst}, '')"


def burst_classes() -> list[str]:
    """Return the PriorityClasses whose pods may be taken away at any time."""
    return list(settings.BURST_PRIORITY_CLASSES)


_SIZING_LABELS = ("nvidia.com/gpu.", "nvidia.com/mig.", "nvidia.com/mig-")
_CHATTER = ("nvidia.com/gpu.deploy.",)
_DEDICATED_TO = "gpu-ledger.io/dedicated-to"
"""Whose alone a node is; isolation reads it from the record of the node."""


def sizing_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the raw node labels that tell what its GPUs are and whose alone the node is.

    Labels that tell the progress of rollouts are left out: they change and say nothing of it.
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
            if not isinstance(sized := _size(catalogue, resource, labels), Unsized)
        ]
    )


def _size(catalogue: Catalogue, resource: str, labels: Mapping[str, str]) -> Sized | Unsized:
    if resource.startswith(CLAIM_PREFIX):
        return size_of_device(catalogue, attributes=labels)
    return size_of(catalogue, resource=resource, labels=labels)


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
