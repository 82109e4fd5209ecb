"""Delete: at once, or gracefully as pods on a node end, or by finalizers, or a whole namespace.

Source: kubernetes/apiserver, pkg/registry/rest/delete.go; kubernetes/pkg/registry/core/pod.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from simulator.kubernetes_api.admission import Admission
from simulator.kubernetes_api.errors import (
    JSON,
    conflict,
    not_found,
    success,
)
from simulator.kubernetes_api.incoming import Writing, printed_time
from simulator.kubernetes_api.pod_usage import TERMINAL
from simulator.kubernetes_api.reading import typed
from simulator.kubernetes_api.resources import (
    JOBS,
    NAMESPACES,
    PODS,
    RESOURCES,
    Resource,
)
from simulator.kubernetes_api.reviews import DELETE, Review
from simulator.kubernetes_api.store import Key, ObjectStore

_WAKE_SECONDS: Final = 0.2
_LAG_SECONDS: Final = 0.02


class Remover:
    """Removes objects.

    Args:
        store: Where they are.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(self, store: ObjectStore, *, clock: Callable[[], datetime]) -> None:
        """Keep the store."""
        self._store = store
        self._clock = clock
        self._admission = Admission(store)

    def delete(self, resource: Resource, key: Key, options: JSON, how: Writing) -> JSON:
        """Return what a deletion answers: the object as it is then, or a Status.

        A pod on a node stays with a deletionTimestamp until its kubelet deletes it with no grace.

        Raises:
            StatusError: 404, 409 for a precondition that does not hold, or a webhook's refusal.
        """
        live = self._live(resource, key)
        review = Review(
            operation=DELETE,
            resource=resource,
            namespace=key[0],
            name=key[1],
            obj=None,
            old=live,
            how=how,
            options=options,
        )
        self._admission.mutate(review)
        _refuse_precondition(resource, live, options.get("preconditions") or {})
        self._admission.validate(review)
        return self.end(resource, key, options, is_dry_run=how.is_dry_run)

    def end(self, resource: Resource, key: Key, options: JSON, *, is_dry_run: bool) -> JSON:
        """Delete past admission, as the server itself does after an eviction.

        Raises:
            StatusError: 404, or 409 for a precondition that does not hold.
        """
        with self._store.lock:
            live = self._live(resource, key)
            _refuse_precondition(resource, live, options.get("preconditions") or {})
            if is_dry_run:
                return self._answer(resource, live)
            if resource is JOBS:
                self._let_go(live, options.get("propagationPolicy", "Orphan"))
            grace = _grace(resource, live, options)
            is_kept = (
                grace > 0 or bool(live["metadata"].get("finalizers")) or resource is NAMESPACES
            )
            if is_kept or resource is PODS:
                # Watchers see a pod marked before they see it gone, even without any grace.
                live = self._mark(resource, key, live, grace)
            if is_kept:
                return self._answer(resource, live)
            return self._answer(resource, self._store.remove(resource, key))

    def _let_go(self, job: JSON, policy: str) -> None:
        """End the pods of a Job that goes, or leave them without an owner."""
        uid = job["metadata"]["uid"]
        for key, pod in self._store.items(PODS, job["metadata"]["namespace"]):
            owners = pod["metadata"].get("ownerReferences") or []
            if not any(one["uid"] == uid for one in owners):
                continue
            if policy != "Orphan":
                self.end(PODS, key, {}, is_dry_run=False)
                continue
            left = [one for one in owners if one["uid"] != uid]
            metadata = {**pod["metadata"], "ownerReferences": left}
            self._store.put(PODS, key, {**pod, "metadata": metadata})

    def _live(self, resource: Resource, key: Key) -> JSON:
        live = self._store.get(resource, key)
        if live is None:
            raise not_found(resource.qualified, key[1])
        return live

    def end_namespace(self, name: str) -> None:
        """Remove a terminating namespace with everything in it, as its controller does.

        The pods in it are removed at once: there is no kubelet to wait for.
        """
        with self._store.lock:
            for resource in RESOURCES.values():
                if resource.is_namespaced:
                    for key, _ in self._store.items(resource, name):
                        self._store.remove(resource, key)
            self._store.remove(NAMESPACES, ("", name))

    def ending_namespaces(self) -> Iterator[str]:
        """Return the names of the namespaces that are being deleted."""
        return (
            name
            for (_, name), one in self._store.items(NAMESPACES)
            if "deletionTimestamp" in one["metadata"]
        )

    def _mark(self, resource: Resource, key: Key, live: JSON, grace: int) -> JSON:
        """Return the object marked for deletion; a second deletion may only shorten the grace."""
        metadata = live["metadata"]
        if "deletionTimestamp" in metadata and grace >= metadata.get(
            "deletionGracePeriodSeconds", 0
        ):
            return live
        marked = copy.deepcopy(live)
        at = self._clock() + timedelta(seconds=grace)
        marked["metadata"]["deletionTimestamp"] = printed_time(at)
        if resource is PODS:
            marked["metadata"]["deletionGracePeriodSeconds"] = grace
        if resource is NAMESPACES:
            marked["status"] = {**marked.get("status", {}), "phase": "Terminating"}
        return self._store.put(resource, key, marked)

    def _answer(self, resource: Resource, obj: JSON) -> JSON:
        if resource.answers_deleted:
            return typed(resource, obj)
        metadata = obj["metadata"]
        return success(name=metadata["name"], plural=resource.qualified, uid=metadata["uid"])


class NamespaceController:
    """Ends namespaces that are being deleted, a little later; runs in a thread of its own."""

    def __init__(self, store: ObjectStore, remover: Remover) -> None:
        """Nothing runs yet."""
        self._store = store
        self._remover = remover
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._thread = threading.Thread(target=self._run, name="namespace-controller", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            version = self._store.version
            ending = list(self._remover.ending_namespaces())
            if ending:
                self._is_stopping.wait(_LAG_SECONDS)
            for name in ending:
                self._remover.end_namespace(name)
            self._store.wait(version, timeout_seconds=_WAKE_SECONDS)


def _refuse_precondition(resource: Resource, live: JSON, preconditions: JSON) -> None:
    metadata = live["metadata"]
    for field, told, what in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        wanted = preconditions.get(field)
        if wanted is not None and wanted != metadata[field]:
            why = (
                f"the {told} in the precondition ({wanted}) does not match the {told} in record"
                f" ({metadata[field]}). The object might have been {what}"
            )
            raise conflict(resource.qualified_kind, metadata["name"], why)


def _grace(resource: Resource, live: JSON, options: JSON) -> int:
    """Return how long an object is given: only pods on a node that still run are."""
    if resource is not PODS:
        return 0
    is_running = live["spec"].get("nodeName") and live["status"].get("phase") not in TERMINAL
    if not is_running:
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(live["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)
