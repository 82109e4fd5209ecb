"""What makes a Job, a webhook, a priority class, a budget, a claim or a queue valid.

Source: kubernetes/pkg/apis/{batch,admissionregistration,scheduling,policy,resource}/validation;
kubernetes-sigs/kueue, config/components/crd/bases.
"""

from collections.abc import Callable, Iterator
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import (
    BUDGETS,
    CLAIMS,
    CLUSTER_QUEUES,
    JOBS,
    MUTATING_WEBHOOKS,
    PRIORITY_CLASSES,
    SLICES,
    VALIDATING_WEBHOOKS,
)

Cause = tuple[str, str, str]
"""A reason such as "FieldValueRequired", the message, and the field."""
REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
FORBIDDEN: Final = "FieldValueForbidden"
UNSUPPORTED: Final = "FieldValueNotSupported"
_NAME_PARTS_MIN: Final = 3
_TIMEOUT_SECONDS_MAX: Final = 30
_IMMUTABLE: Final = "field is immutable"


def new_causes(plural: str, obj: JSON) -> Iterator[Cause]:
    """Yield what is wrong with a new object of one of these kinds."""
    yield from _CHECKS.get(plural, _nothing)(obj)


def change_causes(plural: str, before: JSON, after: JSON) -> Iterator[Cause]:
    """Yield what is wrong with a change of an object of one of these kinds."""
    yield from new_causes(plural, after)
    if plural == PRIORITY_CLASSES.plural and before["value"] != after.get("value"):
        yield FORBIDDEN, "Forbidden: may not be changed in an update.", "value"
    for field in _FIXED.get(plural, ()):
        value = after["spec"].get(field)
        is_free = field == "template" and before["spec"].get("suspend")
        if before["spec"].get(field) != value and not is_free:
            yield INVALID, f"Invalid value: {value!r}: {_IMMUTABLE}", f"spec.{field}"
    if plural == CLAIMS.plural and before["spec"] != after["spec"]:
        yield INVALID, f"Invalid value: {_IMMUTABLE}", "spec"


def claim_status_causes(after: JSON) -> Iterator[Cause]:
    """Yield what is wrong with a claim's new status: consumers only of what is allocated."""
    status = after.get("status") or {}
    consumers = status.get("reservedFor") or []
    if consumers and not status.get("allocation"):
        told = "Forbidden: may not be specified when `allocated` is not set"
        yield FORBIDDEN, told, "status.reservedFor"
    seen: set[str] = set()
    for index, consumer in enumerate(consumers):
        uid = consumer.get("uid", "")
        if uid in seen:
            told = f'Duplicate value: "{uid}"'
            yield "FieldValueDuplicate", told, f"status.reservedFor[{index}].uid"
        seen.add(uid)


def _nothing(obj: JSON) -> Iterator[Cause]:
    del obj
    return iter(())


def _job_causes(job: JSON) -> Iterator[Cause]:
    spec = job["spec"]
    template = (spec.get("template") or {}).get("spec") or {}
    if not template.get("containers"):
        yield REQUIRED, "Required value", "spec.template.spec.containers"
    policy = template.get("restartPolicy", "")
    if policy not in {"Never", "OnFailure"}:
        reason, told = (REQUIRED, "Required value") if not policy else (UNSUPPORTED, "Unsupported")
        valid = 'valid values: "OnFailure", "Never"'
        yield reason, f"{told}: {valid}", "spec.template.spec.restartPolicy"


def _budget_causes(budget: JSON) -> Iterator[Cause]:
    spec = budget["spec"]
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        told = "minAvailable and maxUnavailable cannot be both set"
        yield INVALID, f"Invalid value: {told}", "spec"


def _queue_causes(queue: JSON) -> Iterator[Cause]:
    """Yield what the schema of Kueue's own definition refuses."""
    for index, group in enumerate(queue["spec"].get("resourceGroups") or []):
        field = f"spec.resourceGroups[{index}].coveredResources"
        if not group.get("coveredResources"):
            told = f"{field} in body should have at least 1 items"
            yield INVALID, f"Invalid value: 0: {told}", field


def _slice_causes(one: JSON) -> Iterator[Cause]:
    spec = one.get("spec") or {}
    if not spec.get("driver"):
        yield REQUIRED, "Required value", "spec.driver"


def _configuration_causes(configuration: JSON) -> Iterator[Cause]:
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        yield from _webhook_causes(webhook, f"webhooks[{index}]")


def _webhook_causes(webhook: JSON, field: str) -> Iterator[Cause]:
    name = webhook.get("name", "")
    if len(name.split(".")) < _NAME_PARTS_MIN:
        told = "should be a domain with at least three segments separated by dots"
        yield INVALID, f'Invalid value: "{name}": {told}', f"{field}.name"
    if webhook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
        told = "Required value: must specify one of None, NoneOnDryRun"
        yield REQUIRED, told, f"{field}.sideEffects"
    if "v1" not in (webhook.get("admissionReviewVersions") or []):
        told = "Required value: must specify one of v1, v1beta1"
        yield REQUIRED, told, f"{field}.admissionReviewVersions"
    seconds = webhook.get("timeoutSeconds", 1)
    if not 0 < seconds <= _TIMEOUT_SECONDS_MAX:
        told = "the timeout value must be between 1 and 30 seconds"
        yield INVALID, f"Invalid value: {seconds}: {told}", f"{field}.timeoutSeconds"
    yield from _client_causes(webhook.get("clientConfig") or {}, f"{field}.clientConfig")


def _client_causes(client: JSON, field: str) -> Iterator[Cause]:
    if ("url" in client) is ("service" in client):
        told = "Required value: exactly one of url or service is required"
        yield REQUIRED, told, field
    elif "url" in client and not client["url"].startswith("https://"):
        told = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield INVALID, f'Invalid value: "{client["url"]}": {told}', f"{field}.url"


_FIXED: Final = {JOBS.plural: ("completions", "selector", "template")}
_CHECKS: Final[dict[str, Callable[[JSON], Iterator[Cause]]]] = {
    JOBS.plural: _job_causes,
    BUDGETS.plural: _budget_causes,
    SLICES.plural: _slice_causes,
    CLUSTER_QUEUES.plural: _queue_causes,
    VALIDATING_WEBHOOKS.plural: _configuration_causes,
    MUTATING_WEBHOOKS.plural: _configuration_causes,
}
