"""What the server fills into a new object of each kind, and what makes an object valid.

Source: kubernetes/pkg/apis/*/v1/defaults.go, kubernetes/pkg/apis/*/validation and
kubernetes-sigs/kueue, config/components/crd/bases.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from simulator.kubernetes_api.access import Write
from simulator.kubernetes_api.errors import JSON, Cause, forbidden, invalid
from simulator.kubernetes_api.quota import is_extended, parse_quantity
from simulator.kubernetes_api.resources import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CLUSTER_QUEUES,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    RBAC,
    SLICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.webhooks import TIMEOUT_SECONDS, condition_causes

NOT_READY: Final = "node.kubernetes.io/not-ready"
REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
_PREEMPTION: Final = "PreemptLowerPriority"
_NAME_PARTS_MIN: Final = 3
_TIMEOUT_SECONDS_MAX: Final = 30
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"(?!.*\.\.)[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_PATH_SEGMENT: Final = re.compile(r"(?!\.{1,2}\Z)[^/%]+")
_QUOTA_KEY: Final = re.compile(
    r"cpu|memory|ephemeral-storage|pods|services|secrets|configmaps|resourcequotas"
    r"|(requests|limits)\.(cpu|memory|ephemeral-storage)"
    r"|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_CONTAINERS: Final = ("containers", "initContainers")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_NEW_STATUS: Final[dict[Resource, JSON]] = {
    NAMESPACES: {"phase": "Active"},
    PODS: {"phase": "Pending"},
    QUOTAS: {},
    JOBS: {},
    BUDGETS: dict.fromkeys(_COUNTS, 0),
    CLAIMS: {},
}
"""The status of new objects, whatever a client sends."""


def fill_defaults(store: ObjectStore, resource: Resource, obj: JSON) -> JSON:
    """Return a new object with what the server fills in; doing it twice changes nothing."""
    filled = copy.deepcopy(obj)
    if resource in _NEW_STATUS:
        _set_missing(filled, spec={})
        filled["status"] = dict(_NEW_STATUS[resource])
    if resource in _FILLERS:
        _FILLERS[resource](filled)
    if resource is PODS:
        _fill_priority(store, filled)
    return filled


def finish_new(resource: Resource, made: JSON) -> None:
    """Write into a named Job what follows from its name and uid: its own selector."""
    if resource is not JOBS:
        return
    own = {"controller-uid": made["metadata"]["uid"], "job-name": made["metadata"]["name"]}
    labels = {**own, **{f"batch.kubernetes.io/{key}": value for key, value in own.items()}}
    template = made["spec"]["template"].setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    selector = {"batch.kubernetes.io/controller-uid": own["controller-uid"]}
    made["spec"]["selector"] = {"matchLabels": selector}


def check_new(store: ObjectStore, resource: Resource, obj: JSON) -> None:
    """Refuse a new object that is not valid."""
    _refuse(resource, obj, [*_name_causes(resource, obj), *_causes(store, resource, obj)])


def check_change(write: Write, before: JSON, after: JSON) -> None:
    """Refuse a change that is not valid, or of what cannot change."""
    resource = write.resource
    if write.subresource:
        _refuse(resource, after, _claim_status_causes(after) if resource is CLAIMS else [])
        return
    fixed = _FIXED.get(resource, _nothing_fixed)
    message = "Forbidden: may not be changed in an update"
    causes = [
        ("FieldValueForbidden", message, field)
        for field, value in fixed(before).items()
        if fixed(after)[field] != value
    ]
    _refuse(resource, after, [*causes, *_causes(write.store, resource, after)])


def _refuse(resource: Resource, obj: JSON, causes: Iterable[Cause]) -> None:
    found = list(causes)
    if found:
        raise invalid(resource.qualified_kind, obj["metadata"].get("name", ""), found)


def _causes(store: ObjectStore, resource: Resource, obj: JSON) -> Iterator[Cause]:
    if resource in {VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS}:
        yield from condition_causes(store.compile_condition, obj)
    if resource in _CHECKS:
        yield from _CHECKS[resource](obj)


def _name_causes(resource: Resource, obj: JSON) -> Iterator[Cause]:
    name = obj["metadata"].get("name", "")
    shape = _PATH_SEGMENT if resource.group == RBAC else _SUBDOMAIN
    if resource is NAMESPACES:
        shape = _LABEL
    if not name:
        yield REQUIRED, "Required value: name or generateName is required", "metadata.name"
    elif shape.fullmatch(name) is None:
        message = f"a name must match the regular expression '{shape.pattern}'"
        yield INVALID, f'Invalid value: "{name}": {message}', "metadata.name"


def _pod_causes(pod: JSON) -> Iterator[Cause]:
    if not pod["spec"].get("containers"):
        yield REQUIRED, "Required value", "spec.containers"
    for kind in _CONTAINERS:
        for index, container in enumerate(pod["spec"].get(kind) or []):
            yield from _container_causes(container, f"spec.{kind}[{index}]")


def _container_causes(container: JSON, field: str) -> Iterator[Cause]:
    for name in ("name", "image"):
        if not container.get(name):
            yield REQUIRED, "Required value", f"{field}.{name}"
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            yield from _amount_causes(name, value, f"{field}.resources.{kind}[{name}]")
    for name, value in requests.items():
        if is_extended(name) and name not in limits:
            message = "Required value: Limit must be set for non overcommitable resources"
            yield REQUIRED, message, f"{field}.resources.limits"
        elif is_extended(name) and value != limits[name]:
            message = f'Invalid value: "{value}": must be equal to {name} limit of {limits[name]}'
            yield INVALID, message, f"{field}.resources.requests"


def _amount_causes(name: str, value: object, field: str) -> Iterator[Cause]:
    try:
        amount = parse_quantity(value)
    except ValueError as error:
        yield INVALID, f'Invalid value: "{value}": {error}', field
        return
    if amount < 0:
        yield INVALID, f'Invalid value: "{value}": must be greater than or equal to 0', field
    if is_extended(name) and amount.denominator != 1:
        yield INVALID, f'Invalid value: "{value}": must be an integer', field


def _quota_causes(quota: JSON) -> Iterator[Cause]:
    for key, value in (quota["spec"].get("hard") or {}).items():
        field = f"spec.hard[{key}]"
        if _QUOTA_KEY.fullmatch(key) is None:
            yield INVALID, f'Invalid value: "{key}": must be a standard resource for quota', field
        yield from _amount_causes(key, value, field)


def _job_causes(job: JSON) -> Iterator[Cause]:
    template = job["spec"].get("template", {}).get("spec", {})
    if not template.get("containers"):
        yield REQUIRED, "Required value", "spec.template.spec.containers"
    if template.get("restartPolicy") not in {"Never", "OnFailure"}:
        message = 'Unsupported value: valid values: "OnFailure", "Never"'
        yield "FieldValueNotSupported", message, "spec.template.spec.restartPolicy"


def _budget_causes(budget: JSON) -> Iterator[Cause]:
    if {"minAvailable", "maxUnavailable"} <= budget["spec"].keys():
        message = "Invalid value: minAvailable and maxUnavailable cannot be both set"
        yield INVALID, message, "spec"


def _slice_causes(one: JSON) -> Iterator[Cause]:
    if not one.get("spec", {}).get("driver"):
        yield REQUIRED, "Required value", "spec.driver"


def _queue_causes(queue: JSON) -> Iterator[Cause]:
    """Yield what the schema of Kueue's own definition refuses."""
    for index, group in enumerate(queue["spec"].get("resourceGroups") or []):
        if not group.get("coveredResources"):
            field = f"spec.resourceGroups[{index}].coveredResources"
            yield INVALID, f"Invalid value: 0: {field} in body should have at least 1 items", field


def _claim_status_causes(claim: JSON) -> Iterator[Cause]:
    """Yield what is wrong with a claim's status: consumers only of what is allocated, and once."""
    status = claim.get("status") or {}
    uids = [one.get("uid") for one in status.get("reservedFor") or []]
    if uids and not status.get("allocation"):
        message = "Forbidden: may not be specified when `allocated` is not set"
        yield "FieldValueForbidden", message, "status.reservedFor"
    for index, uid in enumerate(uids):
        if uid in uids[:index]:
            message = f'Duplicate value: "{uid}"'
            yield "FieldValueDuplicate", message, f"status.reservedFor[{index}].uid"


def _webhook_causes(configuration: JSON) -> Iterator[Cause]:
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        field, name = f"webhooks[{index}]", webhook.get("name", "")
        if len(name.split(".")) < _NAME_PARTS_MIN:
            message = "should be a domain with at least three segments separated by dots"
            yield INVALID, f'Invalid value: "{name}": {message}', f"{field}.name"
        if webhook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            message = "Required value: must specify one of None, NoneOnDryRun"
            yield REQUIRED, message, f"{field}.sideEffects"
        if "v1" not in (webhook.get("admissionReviewVersions") or []):
            message = "Required value: must specify one of v1, v1beta1"
            yield REQUIRED, message, f"{field}.admissionReviewVersions"
        if not 0 < webhook.get("timeoutSeconds", TIMEOUT_SECONDS) <= _TIMEOUT_SECONDS_MAX:
            message = "Invalid value: the timeout value must be between 1 and 30 seconds"
            yield INVALID, message, f"{field}.timeoutSeconds"
        client = webhook.get("clientConfig") or {}
        if ("url" in client) is ("service" in client):
            message = "Required value: exactly one of url or service is required"
            yield REQUIRED, message, f"{field}.clientConfig"
        elif not client.get("url", "https://").startswith("https://"):
            message = "Invalid value: 'https' is the only allowed URL scheme"
            yield INVALID, message, f"{field}.clientConfig.url"


def _fixed_pod(pod: JSON) -> JSON:
    """Return a pod's spec without what may change."""
    spec: JSON = copy.deepcopy(pod["spec"])
    for key in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"):
        spec.pop(key, None)
    for kind in _CONTAINERS:
        for container in spec.get(kind, []):
            container.pop("image", None)
    return {"spec": spec}


def _fixed_job(job: JSON) -> JSON:
    names = ("completions", "selector", "template")
    return {f"spec.{name}": job["spec"].get(name) for name in names}


def _nothing_fixed(_: JSON) -> JSON:
    return {}


def _set_missing(target: JSON, **defaults: object) -> None:
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = value


def _fill_pod_spec(spec: JSON) -> None:
    """Fill in what pods and templates of pods have alike."""
    _set_missing(
        spec,
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
    )


def _fill_pod(pod: JSON) -> None:
    _fill_pod_spec(pod["spec"])
    _set_missing(pod["spec"], serviceAccountName="default", restartPolicy="Always")
    for kind in _CONTAINERS:
        for container in pod["spec"].get(kind) or []:
            resources = container.setdefault("resources", {})
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _fill_priority(store: ObjectStore, pod: JSON) -> None:
    """Write the priority and the preemption policy of a pod's PriorityClass into it.

    Source: kubernetes/plugin/pkg/admission/priority/admission.go.
    """
    spec, name = pod["spec"], pod["spec"].get("priorityClassName")
    found = store.get(PRIORITY_CLASSES, ("", name)) if name else {"value": 0}
    if found is None:
        subject = pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
        raise forbidden(PODS.plural, subject, f"no PriorityClass with name {name} was found")
    spec["priority"] = found["value"]
    spec["preemptionPolicy"] = found.get("preemptionPolicy", _PREEMPTION)


def _fill_namespace(namespace: JSON) -> None:
    metadata = namespace["metadata"]
    named = {"kubernetes.io/metadata.name": metadata["name"]} if metadata.get("name") else {}
    metadata["labels"] = {**(metadata.get("labels") or {}), **named}
    namespace["spec"] = {"finalizers": ["kubernetes"]}


def _fill_node(node: JSON) -> None:
    """Taint a new node, so that nothing is placed on it until its kubelet removes the taint."""
    _set_missing(node, spec={}, status={})
    taints = node["spec"].setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def _fill_job(job: JSON) -> None:
    spec = job["spec"]
    if spec.get("parallelism") is None:
        _set_missing(spec, completions=1)
    _set_missing(spec, parallelism=1, suspend=False, template={})
    _set_missing(spec["template"], spec={})
    _fill_pod_spec(spec["template"]["spec"])


def _fill_claim(claim: JSON) -> None:
    _fill_devices(claim["spec"])


def _fill_claim_template(template: JSON) -> None:
    _fill_devices(template.get("spec", {}).get("spec", {}))


def _fill_devices(spec: JSON) -> None:
    """Write how many devices each request is for: one, unless it says otherwise."""
    for request in spec.get("devices", {}).get("requests") or []:
        for one in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if one and one.setdefault("allocationMode", "ExactCount") == "ExactCount":
                one.setdefault("count", 1)


def _fill_webhooks(configuration: JSON) -> None:
    for webhook in configuration.get("webhooks") or []:
        _set_missing(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=TIMEOUT_SECONDS,
        )
        for rule in webhook.get("rules") or []:
            _set_missing(rule, scope="*")


_FILLERS: Final[dict[Resource, Callable[[JSON], None]]] = {
    PODS: _fill_pod,
    NAMESPACES: _fill_namespace,
    NODES: _fill_node,
    JOBS: _fill_job,
    PRIORITY_CLASSES: lambda one: _set_missing(one, value=0, preemptionPolicy=_PREEMPTION),
    CLAIMS: _fill_claim,
    CLAIM_TEMPLATES: _fill_claim_template,
    VALIDATING_WEBHOOKS: _fill_webhooks,
    MUTATING_WEBHOOKS: _fill_webhooks,
}
_CHECKS: Final[dict[Resource, Callable[[JSON], Iterator[Cause]]]] = {
    PODS: _pod_causes,
    QUOTAS: _quota_causes,
    JOBS: _job_causes,
    BUDGETS: _budget_causes,
    SLICES: _slice_causes,
    CLUSTER_QUEUES: _queue_causes,
    VALIDATING_WEBHOOKS: _webhook_causes,
    MUTATING_WEBHOOKS: _webhook_causes,
}
_FIXED: Final[dict[Resource, Callable[[JSON], JSON]]] = {
    PODS: _fixed_pod,
    JOBS: _fixed_job,
    QUOTAS: lambda quota: {"spec.scopes": quota["spec"].get("scopes")},
    PRIORITY_CLASSES: lambda one: {"value": one.get("value")},
    CLAIMS: lambda claim: {"spec": claim["spec"]},
}
"""The fields of each kind that cannot change, by their names in a cause."""
