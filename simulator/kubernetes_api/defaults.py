"""What the server fills into a new object before anybody else sees it.

Source: kubernetes/pkg/apis/*/v1/defaults.go, and the strategies' PrepareForCreate.
"""

import copy
from collections.abc import Callable
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    VALIDATING_WEBHOOKS,
    Resource,
)

NOT_READY: Final = "node.kubernetes.io/not-ready"


def with_defaults(resource: Resource, obj: JSON) -> JSON:
    """Return a new object with what the server fills in; doing it twice changes nothing."""
    filled = copy.deepcopy(obj)
    _FILLERS.get(resource.plural, _fill_nothing)(filled)
    return filled


def finish_new(resource: Resource, made: JSON) -> None:
    """Write into a named object what follows from its name and uid: a Job's own selector."""
    if resource is not JOBS:
        return
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    prefix = "batch.kubernetes.io/"
    own = {"controller-uid": uid, "job-name": name}
    labels = {**own, **{f"{prefix}{key}": value for key, value in own.items()}}
    template = made["spec"].setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    made["spec"]["selector"] = {"matchLabels": {f"{prefix}controller-uid": uid}}


def _fill_nothing(obj: JSON) -> None:
    """Leave an object as it is."""


def _fill_pod(pod: JSON) -> None:
    spec = pod.setdefault("spec", {})
    fill_pod_spec(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("restartPolicy", "Always")
    for place in ("containers", "initContainers"):
        for container in spec.get(place) or []:
            resources = container.setdefault("resources", {})
            limits = resources.get("limits") or {}
            if limits:
                resources["requests"] = {**limits, **(resources.get("requests") or {})}
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def fill_pod_spec(spec: JSON) -> None:
    """Fill in what pods and templates of pods have alike."""
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")


def _quality(spec: JSON) -> str:
    is_asking = any(container.get("resources") for container in spec.get("containers") or [])
    return "Burstable" if is_asking else "BestEffort"


def _fill_namespace(namespace: JSON) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        labels = metadata.get("labels") or {}
        metadata["labels"] = {**labels, "kubernetes.io/metadata.name": metadata["name"]}
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _fill_quota(quota: JSON) -> None:
    quota.setdefault("spec", {})
    quota["status"] = {}


def _fill_node(node: JSON) -> None:
    """A new node is not ready, so nothing is placed on it until its kubelet says otherwise."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
    node.setdefault("status", {})


def _fill_job(job: JSON) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    for key, value in (("parallelism", 1), ("suspend", False)):
        if spec.get(key) is None:
            spec[key] = value
    fill_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    job["status"] = {}


def _fill_budget(budget: JSON) -> None:
    budget.setdefault("spec", {})
    budget["status"] = {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }


def _fill_priority_class(one: JSON) -> None:
    one.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _fill_claim(claim: JSON) -> None:
    _fill_devices(claim.setdefault("spec", {}))
    claim["status"] = {}


def _fill_claim_template(template: JSON) -> None:
    _fill_devices(template.setdefault("spec", {}).setdefault("spec", {}))


def _fill_devices(spec: JSON) -> None:
    """Say how many devices each request is for, as the API server does: one, unless told."""
    for request in (spec.get("devices") or {}).get("requests") or []:
        for one in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if one and one.setdefault("allocationMode", "ExactCount") == "ExactCount":
                one.setdefault("count", 1)


def _fill_validating(configuration: JSON) -> None:
    for webhook in configuration.get("webhooks") or []:
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for rule in webhook.get("rules") or []:
            rule.setdefault("scope", "*")


def _fill_mutating(configuration: JSON) -> None:
    _fill_validating(configuration)
    for webhook in configuration.get("webhooks") or []:
        webhook.setdefault("reinvocationPolicy", "Never")


_FILLERS: Final[dict[str, Callable[[JSON], None]]] = {
    PODS.plural: _fill_pod,
    NAMESPACES.plural: _fill_namespace,
    QUOTAS.plural: _fill_quota,
    NODES.plural: _fill_node,
    JOBS.plural: _fill_job,
    BUDGETS.plural: _fill_budget,
    PRIORITY_CLASSES.plural: _fill_priority_class,
    CLAIMS.plural: _fill_claim,
    CLAIM_TEMPLATES.plural: _fill_claim_template,
    VALIDATING_WEBHOOKS.plural: _fill_validating,
    MUTATING_WEBHOOKS.plural: _fill_mutating,
}
