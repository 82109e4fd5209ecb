"""Which webhooks a write concerns: by rules, namespace labels, object labels and conditions.

Source: kubernetes/apiserver, pkg/admission/plugin/webhook/predicates.
"""

from typing import Final

from simulator.kubernetes_api.conditions import conditions_hold
from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import (
    API_VERSION,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
)
from simulator.kubernetes_api.reviews import DELETE, Review
from simulator.kubernetes_api.selectors import matches_labels
from simulator.kubernetes_api.store import ObjectStore

_ALL: Final = "*"


def concerns(store: ObjectStore, webhook: JSON, review: Review) -> bool:
    """Whether a webhook is asked about a write.

    Webhook configurations themselves concern no webhook, so that a broken one can be removed.

    Raises:
        StatusError: 403 for a match condition that has no answer.
    """
    if review.resource in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}:
        return False
    return (
        any(_fits(rule, review) for rule in webhook.get("rules") or [])
        and _fits_namespace(store, webhook.get("namespaceSelector") or {}, review)
        and _fits_object(webhook.get("objectSelector") or {}, review)
        and conditions_hold(store.compile_condition, webhook, review)
    )


def _fits(rule: JSON, review: Review) -> bool:
    return (
        _has(rule.get("operations"), review.operation)
        and _has(rule.get("apiGroups"), review.resource.group)
        and _has(rule.get("apiVersions"), API_VERSION)
        and any(_fits_resource(one, review) for one in rule.get("resources") or [])
        and _fits_scope(rule.get("scope", _ALL), review)
    )


def _fits_resource(pattern: str, review: Review) -> bool:
    plural, _, subresource = pattern.partition("/")
    return plural in {_ALL, review.resource.plural} and (
        subresource in {_ALL, review.how.subresource}
    )


def _fits_scope(scope: str, review: Review) -> bool:
    is_inside = review.resource.is_namespaced
    return scope == _ALL or (scope == "Namespaced") is is_inside


def _fits_namespace(store: ObjectStore, selector: JSON, review: Review) -> bool:
    if review.resource is NAMESPACES:
        told = review.old if review.operation == DELETE else review.obj
        return matches_labels(selector, _labels(told))
    if not review.resource.is_namespaced:
        return True
    home = store.get(NAMESPACES, ("", review.namespace))
    return matches_labels(selector, _labels(home))


def _fits_object(selector: JSON, review: Review) -> bool:
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    known = (one for one in (review.obj, review.old) if one is not None)
    return any(matches_labels(selector, _labels(one)) for one in known)


def _labels(obj: JSON | None) -> dict[str, str]:
    labels: dict[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _has(values: list[str] | None, wanted: str) -> bool:
    return _ALL in (values or []) or wanted in (values or [])
