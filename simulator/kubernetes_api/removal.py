"""Deletions, evictions and the other things that are posted to an object: bindings and tokens.

Source: kubernetes/apiserver, pkg/registry/rest/delete.go; kubernetes/pkg/registry/core/pod/storage
and pkg/registry/core/serviceaccount/storage; kubernetes/pkg/controller/disruption/disruption.go.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from simulator.kubernetes_api import webhooks
from simulator.kubernetes_api.access import Tokens, Write, service_account
from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    bad_request,
    conflict,
    invalid,
    status,
    success,
)
from simulator.kubernetes_api.kinds import REQUIRED
from simulator.kubernetes_api.quota import TERMINAL
from simulator.kubernetes_api.reading import matches_labels
from simulator.kubernetes_api.resources import (
    AUTHENTICATION,
    BUDGETS,
    DYNAMIC,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    POLICY,
    Resource,
)
from simulator.kubernetes_api.store import Key, ObjectStore
from simulator.kubernetes_api.webhooks import CREATE, DELETE, WriteReview

_TOKEN_SECONDS: Final = 3600
_VERSIONS: Final = {
    "Binding": ("v1",),
    "Eviction": (f"{POLICY}/v1", f"{POLICY}/v1beta1"),
    "TokenRequest": (f"{AUTHENTICATION}/v1",),
}
"""Versions of what is posted to subresources."""


def delete_object(write: Write, delete_options: JSON) -> JSON:
    """Return the answer to a deletion: the object as it is then, or a Status.

    A pod on a node stays with a deletionTimestamp until its kubelet deletes it with no grace.
    """
    live = write.read()
    is_dry_run = write.is_dry_run or "All" in (delete_options.get("dryRun") or [])
    write = replace(write, is_dry_run=is_dry_run)
    review = WriteReview(write, DELETE, None, live, delete_options)
    webhooks.mutate(review)
    _refuse_precondition(write.resource, live, delete_options)
    webhooks.validate(review)
    return end_object(write.store, write.resource, write.key, delete_options, is_dry_run=is_dry_run)


def end_object(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    delete_options: JSON,
    *,
    is_dry_run: bool = False,
) -> JSON:
    """Delete without admission, as the server itself does after an eviction."""
    with store.lock:
        live = store.read(resource, key)
        _refuse_precondition(resource, live, delete_options)
        if not is_dry_run:
            if resource is JOBS:
                _leave_pods(store, live, delete_options.get("propagationPolicy", "Orphan"))
            grace = _grace_seconds(resource, live, delete_options)
            is_kept = grace or live["metadata"].get("finalizers") or resource is NAMESPACES
            if is_kept or resource is PODS:
                # Watchers see a pod marked before they see it gone, even without any grace.
                live = _mark(store, resource, key, grace)
            if not is_kept:
                live = store.remove(resource, key)
    if resource.group in {"", DYNAMIC} and resource is not NODES:
        return resource.typed(live)
    return success(name=key[1], qualified=resource.qualified, uid=live["metadata"]["uid"])


def bind_pod(write: Write, body: object) -> JSON:
    """Bind a pod to a node, as a scheduler does."""
    name, binding = write.key[1], _posted(write, body, "Binding")
    node = (binding.get("target") or {}).get("name", "")
    if not node:
        raise invalid("Binding", name, [(REQUIRED, "Required value", "target.name")])
    with write.store.lock:
        pod = write.read()
        why = ""
        if pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif "deletionTimestamp" in pod["metadata"]:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        if why:
            raise conflict("pods/binding", name, why)
        if not write.is_dry_run:
            write.store.put(PODS, write.key, bound_pod(pod, node, write.store.now()))
    return success(name=name, qualified=PODS.plural, uid=pod["metadata"]["uid"])


def bound_pod(pod: JSON, node: str, now: str) -> JSON:
    """Return a pod that is bound to a node."""
    conditions = pod["status"].get("conditions") or []
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    others = [one for one in conditions if one["type"] != "PodScheduled"]
    status = {**pod["status"], "conditions": [*others, scheduled]}
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def evict_pod(write: Write, body: object) -> JSON:
    """End a pod, unless a disruption budget would be violated."""
    delete_options: JSON = _posted(write, body, "Eviction").get("deleteOptions") or {}
    is_dry_run = write.is_dry_run or "All" in (delete_options.get("dryRun") or [])
    with write.store.lock:
        reconcile_budgets(write.store)
        pod = write.read()
        # No budget is about a pod that is over, does not run yet, or is ending.
        is_idle = pod["status"].get("phase") in {*TERMINAL, "Pending"}
        if not is_idle and "deletionTimestamp" not in pod["metadata"]:
            _refuse_disruption(write.store, pod)
        end_object(write.store, PODS, write.key, delete_options, is_dry_run=is_dry_run)
        reconcile_budgets(write.store)
    return status("Success", code=201)


def issue_token(write: Write, tokens: Tokens, body: object) -> JSON:
    """Return a TokenRequest with a token of a ServiceAccount; the token does not expire."""
    request = _posted(write, body, "TokenRequest")
    token = tokens.issue(service_account(*write.key, uid=write.read()["metadata"]["uid"]))
    seconds = (request.get("spec") or {}).get("expirationSeconds", _TOKEN_SECONDS)
    expiry = write.store.now(after_seconds=seconds)
    return {**request, "status": {"token": token, "expirationTimestamp": expiry}}


def reconcile_budgets(store: ObjectStore) -> None:
    """Write the status of every disruption budget that differs from what its pods are.

    A budget in whole pods is exact. One in percent, or of what may be unavailable, needs the scale
    of a controller, which nothing here has: it allows nothing, as for bare pods on a real server.
    """
    with store.lock:
        for key, budget in store.items(BUDGETS):
            least = budget["spec"].get("minAvailable")
            if isinstance(least, int):
                pods = [pod for _, pod in store.items(PODS, key[0]) if _is_about(budget, pod)]
                healthy = sum(map(_is_healthy, pods))
                counts = {
                    "expectedPods": len(pods),
                    "currentHealthy": healthy,
                    "desiredHealthy": least,
                    "disruptionsAllowed": max(0, healthy - least) if pods else 0,
                    "observedGeneration": budget["metadata"].get("generation", 1),
                }
                store.put_status(BUDGETS, key, counts)


def _posted(write: Write, body: object, kind: str) -> JSON:
    """Return what is posted to a subresource, once the webhooks admitted it."""
    versions = _VERSIONS[kind]
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    posted = {"apiVersion": versions[0], "kind": kind, **body}
    if posted["kind"] != kind or posted["apiVersion"] not in versions:
        message = (
            f"{posted['kind']} in version {posted['apiVersion']} cannot be handled as a {kind}"
        )
        raise bad_request(message)
    if body.get("metadata", {}).get("name", write.key[1]) != write.key[1]:
        raise bad_request(f"name in URL does not match name in {kind} object")
    write.read()
    webhooks.validate(webhooks.mutate(WriteReview(write, CREATE, posted, None)))
    return posted


def _refuse_disruption(store: ObjectStore, pod: JSON) -> None:
    """Refuse an eviction that a disruption budget does not allow."""
    budgets = [
        one for _, one in store.items(BUDGETS, pod["metadata"]["namespace"]) if _is_about(one, pod)
    ]
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise StatusError(HTTPStatus.INTERNAL_SERVER_ERROR, "", f"{message} does not support.")
    for budget in budgets:
        counts = budget["status"]
        if counts["disruptionsAllowed"] <= 0:
            # The real server sends no time to wait here: it is not known.
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            why = (
                f"The disruption budget {budget['metadata']['name']} needs"
                f" {counts['desiredHealthy']} healthy pods and has {counts['currentHealthy']}"
                " currently"
            )
            causes = [{"reason": "DisruptionBudget", "message": why}]
            raise StatusError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                message,
                details={"causes": causes},
            )


def _is_about(budget: JSON, pod: JSON) -> bool:
    """Return whether a budget selects a pod; one without a selector selects none."""
    selector = budget["spec"].get("selector")
    return selector is not None and matches_labels(selector, pod["metadata"].get("labels") or {})


def _is_healthy(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions") or []
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def _leave_pods(store: ObjectStore, job: JSON, policy: str) -> None:
    """End the pods of a Job that is deleted, or leave them without an owner."""
    uid = job["metadata"]["uid"]
    for key, pod in store.items(PODS, job["metadata"]["namespace"]):
        owners = pod["metadata"].get("ownerReferences") or []
        left = [one for one in owners if one["uid"] != uid]
        if left != owners and policy != "Orphan":
            end_object(store, PODS, key, {})
        elif left != owners:
            metadata = {**pod["metadata"], "ownerReferences": left}
            store.put(PODS, key, {**pod, "metadata": metadata})


def _mark(store: ObjectStore, resource: Resource, key: Key, grace: int) -> JSON:
    """Return the object marked for deletion; a second deletion may only shorten the grace."""
    live = store.read(resource, key)
    metadata = live["metadata"]
    if metadata.get("deletionGracePeriodSeconds", 0) <= grace and "deletionTimestamp" in metadata:
        return live
    marks: JSON = {"deletionTimestamp": store.now(after_seconds=grace)}
    if resource is PODS:
        marks["deletionGracePeriodSeconds"] = grace
    marked = {**live, "metadata": {**metadata, **marks}}
    if resource is NAMESPACES:
        marked["status"] = {**live["status"], "phase": "Terminating"}
    return store.put(resource, key, marked)


def _refuse_precondition(resource: Resource, live: JSON, delete_options: JSON) -> None:
    for field, wanted in (delete_options.get("preconditions") or {}).items():
        found = live["metadata"].get(field)
        if wanted is not None and wanted != found:
            name = {"uid": "UID", "resourceVersion": "ResourceVersion"}.get(field, field)
            why = (
                f"the {name} in the precondition ({wanted}) does not match the {name} in record"
                f" ({found}). The object might have been deleted and then recreated"
            )
            raise conflict(resource.qualified_kind, live["metadata"]["name"], why)


def _grace_seconds(resource: Resource, live: JSON, delete_options: JSON) -> int:
    """Return the grace of an object: only a pod on a node that still runs has one."""
    if resource is not PODS or not live["spec"].get("nodeName"):
        return 0
    if live["status"].get("phase") in TERMINAL:
        return 0
    seconds = delete_options.get("gracePeriodSeconds")
    return int(
        live["spec"].get("terminationGracePeriodSeconds", 30) if seconds is None else seconds
    )
