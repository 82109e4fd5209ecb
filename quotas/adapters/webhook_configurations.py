"""The webhook configurations of this service in a cluster: read, and kept at the bound namespaces.

Only selectors that name namespaces are changed; the rest is as it was applied.
"""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final

from quotas.adapters.cluster_calls import JSON, ClusterCalls, ClusterRefusalError, unavailable
from quotas.domain.admission.webhook_configuration import (
    configuration_name,
    selected_namespaces,
    selector_patch,
)
from quotas.protocols import EnforcementEndpoint, SelectorChange

REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
VALIDATING: Final = "validatingwebhookconfigurations"
MUTATING: Final = "mutatingwebhookconfigurations"


def webhooks_of(
    calls: ClusterCalls, endpoint: EnforcementEndpoint
) -> tuple[Mapping[str, Any], ...]:
    """Return the validating webhooks that a cluster has of this service; none is empty.

    Raises:
        SourceUnavailableError: The cluster did not answer, or refused us.
    """
    return tuple(_find(calls, endpoint, VALIDATING).get("webhooks") or ())


def follow_bound(
    calls: ClusterCalls, endpoint: EnforcementEndpoint, bound: Collection[str]
) -> SelectorChange:
    """Make both configurations name these namespaces; see `QuotaEnforcer.follow_bound`."""
    validating = _find(calls, endpoint, VALIDATING)
    operations = selector_patch(validating, bound)
    if not operations:
        return SelectorChange()
    # Owners are written before they are judged. Both are printed and applied together, so that the
    # mutating one, which reading alone needs a right for, is not asked for while this one is right.
    owners = selector_patch(_find(calls, endpoint, MUTATING), bound)
    for plural, changes in ((MUTATING, owners), (VALIDATING, operations)):
        if changes:
            _patch(calls, endpoint, plural, changes)
    before, after = selected_namespaces(validating) or frozenset(), frozenset(bound)
    return SelectorChange(is_changed=True, added=after - before, removed=before - after)


def _find(calls: ClusterCalls, endpoint: EnforcementEndpoint, plural: str) -> JSON:
    """Return a configuration; empty when there is none."""
    path = _path(endpoint, plural)
    try:
        return calls.get(endpoint, path)
    except ClusterRefusalError as error:
        if error.status == HTTPStatus.NOT_FOUND and error.document.get("details"):
            return {}
        raise unavailable(error, path) from error


def _patch(
    calls: ClusterCalls, endpoint: EnforcementEndpoint, plural: str, operations: tuple[JSON, ...]
) -> None:
    path = _path(endpoint, plural)
    try:
        calls.patch(endpoint, path, operations)
    except ClusterRefusalError as error:
        raise unavailable(error, path) from error


def _path(endpoint: EnforcementEndpoint, plural: str) -> str:
    return f"{REGISTRATIONS}/{plural}/{configuration_name(endpoint.slug)}"
