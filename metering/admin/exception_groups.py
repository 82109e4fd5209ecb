"""Above the list of exceptions: those that are alike in one row, with the way to each of them."""

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from metering.domain.catalogue import UnsizedCause
from metering.domain.exceptions import SIDED_KINDS, ExceptionKind, remedy_of, unsized_sentence
from metering.domain.held_words import NOTHING_HELD, held_part_words, held_pods_words
from metering.models.exception import KIND_CHOICES
from metering.selectors.exception_groups import (
    GROUPS_MAX,
    AlikeExceptions,
    open_exception_groups,
)

LIST = "admin:metering_meteringexception_changelist"
REMEDY = "admin:metering_meteringexception_remedy"
_KIND_WORDS = dict(KIND_CHOICES)
_SETTLED_BY_BUTTON = SIDED_KINDS | {ExceptionKind.UNBOUND_NAMESPACE}


def groups_context() -> dict[str, Any]:
    """Return the template's values: one row for each cause, most urgent first."""
    found = open_exception_groups(limit=GROUPS_MAX + 1)
    return {
        "groups": [_row(group) for group in found[:GROUPS_MAX]],
        "groups_max": GROUPS_MAX,
        "are_groups_cut": len(found) > GROUPS_MAX,
    }


def _row(group: AlikeExceptions) -> dict[str, Any]:
    return {
        "group": group,
        "exceptions": f"{group.exceptions:,}",
        "reason": _KIND_WORDS[group.kind],
        "sentence": _sentence(group),
        "about": _about(group),
        "held": _held(group),
        "remedy": remedy_of(group.kind, cause=group.cause),
        "rows_link": f"{reverse(LIST)}?{urlencode(_filters(group))}",
        "settle_link": reverse(REMEDY, args=[group.oldest_id]),
        "settle_words": "Settle it" if _has_button(group) else "Look at the oldest",
    }


def _sentence(group: AlikeExceptions) -> str:
    """Return why a device has no size; "" where the kind says it all."""
    known = {cause.value: cause for cause in UnsizedCause}
    return unsized_sentence(known[group.cause]) if group.cause in known else ""


def _about(group: AlikeExceptions) -> list[str]:
    """Return the namespace, device and node it is about."""
    named = {"namespace": group.namespace, "device": group.resource, "node": group.node}
    told = [f"{name} {value}" for name, value in named.items() if value]
    return told or ["the whole hour"]


def _held(group: AlikeExceptions) -> list[str]:
    if not group.is_counted_in_units:
        return [held_pods_words(sum(part.pod_seconds for part in group.held))]
    return [
        held_part_words(size=part.size, unit_seconds=part.unit_seconds) for part in group.held
    ] or [NOTHING_HELD]


def _has_button(group: AlikeExceptions) -> bool:
    return group.kind in _SETTLED_BY_BUTTON or group.cause == UnsizedCause.UNMAPPED


def _filters(group: AlikeExceptions) -> dict[str, str]:
    """Return the list's filters that leave the rows of one group."""
    filters = {
        "state__exact": "open",
        "kind__exact": group.kind.value,
        "cluster__id__exact": str(group.cluster_id),
        "namespace__exact": group.namespace,
        "details__resource": group.resource,
        "details__cause": group.cause,
        "q": group.node,
    }
    return {name: value for name, value in filters.items() if value}
