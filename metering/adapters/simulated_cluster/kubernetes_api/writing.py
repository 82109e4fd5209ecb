"""Create, replace, patch and apply: one write at a time, with who owns which field.

Source: kubernetes/apiserver, pkg/registry/generic/registry/store.go and pkg/endpoints/handlers.
"""

import copy
import random
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from metering.adapters.simulated_cluster.kubernetes_api.apply import apply_intent
from metering.adapters.simulated_cluster.kubernetes_api.errors import (
    JSON,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    was_modified,
)
from metering.adapters.simulated_cluster.kubernetes_api.fields import (
    UPDATE,
    Claim,
    claim_changes,
)
from metering.adapters.simulated_cluster.kubernetes_api.incoming import (
    SYSTEM_METADATA,
    Writing,
    incoming_object,
    intended_object,
    merged_object,
    patched_object,
    printed_time,
    without_version,
)
from metering.adapters.simulated_cluster.kubernetes_api.quota import admit
from metering.adapters.simulated_cluster.kubernetes_api.reading import typed
from metering.adapters.simulated_cluster.kubernetes_api.resources import (
    NAMESPACES,
    PODS,
    Resource,
)
from metering.adapters.simulated_cluster.kubernetes_api.store import Key, ObjectStore
from metering.adapters.simulated_cluster.kubernetes_api.validation import (
    REQUIRED,
    check_change,
    check_new,
    with_defaults,
)

APPLY_PATCH: Final = "application/apply-patch+yaml"
NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Writer:
    """Writes objects.

    Args:
        store: Where they are.
        clock: Returns the present moment, aware UTC.
        seed: Of generated names and uids.
    """

    def __init__(self, store: ObjectStore, *, clock: Callable[[], datetime], seed: int = 1) -> None:
        """Keep the store."""
        self._store = store
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311 - Names of a simulation.

    def now(self) -> str:
        """Return the present moment as Kubernetes prints it: whole seconds, Z."""
        return printed_time(self._clock())

    def create(self, resource: Resource, namespace: str, body: JSON, how: Writing) -> JSON:
        """Return a new object, stored unless this is a dry run.

        Raises:
            StatusError: 400, 403, 404, 409 or 422, as the real server has them.
        """
        obj = incoming_object(resource, namespace, body)
        metadata = obj["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._random.choices(NAME_LETTERS, k=5))
            metadata["name"] = metadata["generateName"] + suffix
        check_new(resource, obj)
        with self._store.lock:
            self._refuse_without_namespace(resource, namespace, metadata["name"])
            made = with_defaults(resource, obj)
            made["metadata"]["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            made["metadata"]["creationTimestamp"] = self.now()
            if resource is PODS:
                admit(self._store, made, at=self._clock(), is_dry_run=how.is_dry_run)
            key = (namespace, metadata["name"])
            if self._store.get(resource, key) is not None:
                raise already_exists(resource.plural, metadata["name"])
            return self._put(resource, key, claim_changes(None, made, self._claim(how)), how)

    def replace(self, resource: Resource, key: Key, body: JSON, how: Writing) -> JSON:
        """Return an object replaced by another of the same name.

        Raises:
            StatusError: 400, 404, 409 or 422.
        """
        with self._store.lock:
            before = self.live(resource, key)
            incoming = incoming_object(resource, key[0], body)
            name = incoming["metadata"].setdefault("name", key[1])
            if name != key[1]:
                raise bad_request(
                    f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
                )
            return self._update(resource, key, before, incoming, how)

    def patch(
        self,
        resource: Resource,
        key: Key,
        body: Any,  # noqa: ANN401 - JSON is any value.
        kind: str,
        how: Writing,
    ) -> tuple[JSON, bool]:
        """Return an object with a patch applied, and whether it was made by it.

        Args:
            resource: Of the object.
            key: Of the object.
            body: The patch.
            kind: Its content type.
            how: How the write is meant.

        Raises:
            StatusError: 400, 404, 409, 415 or 422.
        """
        if kind == APPLY_PATCH:
            return self._apply(resource, key, body, how)
        with self._store.lock:
            before = self.live(resource, key)
            patched = patched_object(typed(resource, before), body, kind)
            return self._update(resource, key, before, patched, how), False

    def live(self, resource: Resource, key: Key) -> JSON:
        """Return the object as it is.

        Raises:
            StatusError: 404.
        """
        found = self._store.get(resource, key)
        if found is None:
            raise not_found(resource.plural, key[1])
        return found

    def bind(self, namespace: str, name: str, body: JSON, how: Writing) -> JSON:
        """Bind a pod to a node, as a scheduler does, and return the pod.

        Raises:
            StatusError: 400, 404 or 409.
        """
        node = (body.get("target") or {}).get("name", "")
        if not node:
            raise invalid("Binding", name, [(REQUIRED, "Required value", "target.name")])
        with self._store.lock:
            pod = self.live(PODS, (namespace, name))
            if pod["spec"].get("nodeName"):
                told = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
                raise conflict("pods/binding", name, told)
            if "deletionTimestamp" in pod["metadata"]:
                raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be"
                               " assigned to a host")  # fmt: skip
            bound = copy.deepcopy(pod)
            bound["spec"]["nodeName"] = node
            others = [
                one
                for one in bound["status"].get("conditions", [])
                if one["type"] != "PodScheduled"
            ]
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.now()}
            bound["status"]["conditions"] = [*others, scheduled]
            return self._put(PODS, (namespace, name), bound, how)

    def _apply(self, resource: Resource, key: Key, body: JSON, how: Writing) -> tuple[JSON, bool]:
        intent = intended_object(resource, key, body, how)
        version = intent["metadata"].pop("resourceVersion", None)
        for name in SYSTEM_METADATA:
            intent["metadata"].pop(name, None)
        with self._store.lock:
            before = self._store.get(resource, key)
            if before is None:
                if version is not None:
                    raise not_found(resource.plural, key[1])
                named = {**intent, "metadata": {**intent["metadata"], "name": key[1]}}
                return self._create_applied(resource, key, named, how), True
            if version not in {None, before["metadata"]["resourceVersion"]}:
                raise was_modified(resource.plural, key[1])
            after = apply_intent(
                before, intent, manager=how.manager, time=self.now(), is_forced=how.is_forced
            )
            if after is before:
                return typed(resource, before), False
            check_change(resource, before, after)
            return self._put(resource, key, after, how), False

    def _create_applied(self, resource: Resource, key: Key, intent: JSON, how: Writing) -> JSON:
        """Make what was applied: what the server fills in belongs to nobody."""
        dry = Writing(manager=how.manager, is_dry_run=True)
        made = self.create(resource, key[0], intent, dry)
        bare = {**made, "metadata": {**made["metadata"]}}
        for name in ("managedFields", "resourceVersion"):
            bare["metadata"].pop(name, None)
        for name in ("kind", "apiVersion"):
            bare.pop(name, None)
        if resource is PODS:
            admit(self._store, bare, at=self._clock(), is_dry_run=how.is_dry_run)
        owned = apply_intent(bare, intent, manager=how.manager, time=self.now(), is_forced=True)
        return self._put(resource, key, owned, how)

    def _update(
        self, resource: Resource, key: Key, before: JSON, incoming: JSON, how: Writing
    ) -> JSON:
        metadata = incoming["metadata"]
        if metadata.get("resourceVersion") not in {
            None,
            "",
            before["metadata"]["resourceVersion"],
        }:
            raise was_modified(resource.plural, key[1])
        if metadata.get("uid") not in {None, before["metadata"]["uid"]}:
            told = f"Precondition failed: UID in precondition: {metadata['uid']}, "
            raise conflict(
                resource.plural, key[1], f"{told}UID in object meta: {before['metadata']['uid']}"
            )
        after = merged_object(before, incoming, how.subresource)
        if not how.subresource:
            check_change(resource, before, after)
        if without_version(after) == without_version(before):
            return typed(resource, before)
        return self._put(resource, key, claim_changes(before, after, self._claim(how)), how)

    def _put(self, resource: Resource, key: Key, obj: JSON, how: Writing) -> JSON:
        if how.is_dry_run:
            return typed(resource, obj)
        metadata = obj["metadata"]
        is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in metadata and not is_held and resource is not NAMESPACES:
            # The last finalizer has gone, and with it the object.
            self._store.put(resource, key, obj)
            return typed(resource, self._store.remove(resource, key))
        return typed(resource, self._store.put(resource, key, obj))

    def _refuse_without_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.is_namespaced:
            return
        home = self._store.get(NAMESPACES, ("", namespace))
        if home is None:
            raise not_found(NAMESPACES.plural, namespace)
        if "deletionTimestamp" in home["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being"
            raise forbidden(resource.plural, name, f"{why} terminated")

    def _claim(self, how: Writing) -> Claim:
        return Claim(
            manager=how.manager,
            operation=UPDATE,
            time=self.now(),
            paths=frozenset(),
            subresource=how.subresource,
        )
