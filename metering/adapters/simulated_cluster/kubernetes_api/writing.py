"""Create, replace, patch and apply: one write at a time, through admission.

Mutating webhooks first; then the name, the uid and validation; then validating webhooks, who see
the object as it will be stored; the quota last. No lock is held while a webhook is asked: a write
that finds another object than it began with begins again.
Source: kubernetes/apiserver, pkg/registry/generic/registry/store.go and pkg/endpoints/handlers.
"""

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from metering.adapters.simulated_cluster.kubernetes_api.admission import Admission
from metering.adapters.simulated_cluster.kubernetes_api.apply import apply_intent
from metering.adapters.simulated_cluster.kubernetes_api.defaults import finish_new, with_defaults
from metering.adapters.simulated_cluster.kubernetes_api.errors import (
    JSON,
    already_exists,
    bad_request,
    conflict,
    not_found,
    was_modified,
)
from metering.adapters.simulated_cluster.kubernetes_api.fields import (
    UPDATE,
    Claim,
    claim_changes,
)
from metering.adapters.simulated_cluster.kubernetes_api.homes import (
    make_default_account,
    refuse_without_home,
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
from metering.adapters.simulated_cluster.kubernetes_api.priorities import resolve_priority
from metering.adapters.simulated_cluster.kubernetes_api.quota import admit
from metering.adapters.simulated_cluster.kubernetes_api.reading import typed
from metering.adapters.simulated_cluster.kubernetes_api.resources import (
    NAMESPACES,
    PODS,
    Resource,
)
from metering.adapters.simulated_cluster.kubernetes_api.reviews import CREATE, Review
from metering.adapters.simulated_cluster.kubernetes_api.reviews import UPDATE as CHANGE
from metering.adapters.simulated_cluster.kubernetes_api.store import Key, ObjectStore
from metering.adapters.simulated_cluster.kubernetes_api.validation import (
    check_change,
    check_new,
)

APPLY_PATCH: Final = "application/apply-patch+yaml"
NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
TRIES_MAX: Final = 16
"""How often a write begins again before it is a conflict; the real server gives up a patch sooner
and other writes never."""

Stamp = Callable[[JSON], JSON]
"""Says on a new object who owns which field."""


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
        self._admission = Admission(store)
        self._random = random.Random(seed)  # noqa: S311 - Names of a simulation.

    def now(self) -> str:
        """Return the present moment as Kubernetes prints it: whole seconds, Z."""
        return printed_time(self._clock())

    def create(self, resource: Resource, namespace: str, body: JSON, how: Writing) -> JSON:
        """Return a new object, stored unless this is a dry run.

        Raises:
            StatusError: 400, 403, 404, 409, 422 or 500, as the real server has them.
        """
        obj = incoming_object(resource, namespace, body)
        return self._create(
            resource,
            namespace,
            obj,
            how,
            lambda made: claim_changes(None, made, self._claim(resource, how)),
        )

    def replace(self, resource: Resource, key: Key, body: JSON, how: Writing) -> JSON:
        """Return an object replaced by another of the same name.

        Raises:
            StatusError: 400, 404, 409, 422 or 500.
        """

        def change(before: JSON) -> JSON:
            del before
            incoming = incoming_object(resource, key[0], body)
            name = incoming["metadata"].setdefault("name", key[1])
            if name != key[1]:
                raise bad_request(
                    f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
                )
            return incoming

        return self._update(resource, key, how, change)

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
            StatusError: 400, 404, 409, 415, 422 or 500.
        """
        if kind == APPLY_PATCH:
            return self._apply(resource, key, body, how)
        changed = self._update(
            resource, key, how, lambda before: patched_object(typed(resource, before), body, kind)
        )
        return changed, False

    def live(self, resource: Resource, key: Key) -> JSON:
        """Return the object as it is.

        Raises:
            StatusError: 404.
        """
        found = self._store.get(resource, key)
        if found is None:
            raise not_found(resource.qualified, key[1])
        return found

    def _create(
        self, resource: Resource, namespace: str, obj: JSON, how: Writing, stamp: Stamp
    ) -> JSON:
        refuse_without_home(self._store, resource, namespace, obj["metadata"].get("name", ""))
        review = Review(
            operation=CREATE,
            resource=resource,
            namespace=namespace,
            name=obj["metadata"].get("name", ""),
            obj=self._completed(resource, obj),
            old=None,
            how=how,
        )
        made = self._completed(resource, self._admission.mutate(review).obj or {})
        self._name(resource, made)
        check_new(resource, made)
        name = made["metadata"]["name"]
        self._admission.validate(replace(review, name=name, obj=made))
        with self._store.lock:
            refuse_without_home(self._store, resource, namespace, name)
            if resource is PODS:
                admit(self._store, made, at=self._clock(), is_dry_run=how.is_dry_run)
            if self._store.get(resource, (namespace, name)) is not None:
                raise already_exists(resource.qualified, name)
            stored = self._put(resource, (namespace, name), stamp(made), how)
            if resource is NAMESPACES and not how.is_dry_run:
                make_default_account(self._store, name, self._uid(), self.now())
            return stored

    def _completed(self, resource: Resource, obj: JSON) -> JSON:
        """Return a new object with what the server and its own admission fill in."""
        made = with_defaults(resource, obj)
        if resource is PODS:
            resolve_priority(self._store, made)
        return made

    def _name(self, resource: Resource, made: JSON) -> None:
        metadata = made["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._random.choices(NAME_LETTERS, k=5))
            metadata["name"] = metadata["generateName"] + suffix
        metadata["uid"] = self._uid()
        metadata["creationTimestamp"] = self.now()
        if resource.has_generation:
            metadata["generation"] = 1
        finish_new(resource, made)

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _apply(self, resource: Resource, key: Key, body: JSON, how: Writing) -> tuple[JSON, bool]:
        intent = intended_object(resource, key, body, how)
        version = intent["metadata"].pop("resourceVersion", None)
        for name in SYSTEM_METADATA:
            intent["metadata"].pop(name, None)
        merge = partial(
            apply_intent,
            intent=intent,
            manager=how.manager,
            time=self.now(),
            api_version=resource.api_version,
        )
        if self._store.get(resource, key) is not None:
            return self._change_applied(resource, key, how, merge, version), False
        if version is not None:
            raise not_found(resource.qualified, key[1])
        home = {"namespace": key[0]} if resource.is_namespaced else {}
        named = {**intent, "metadata": {**intent["metadata"], "name": key[1], **home}}
        # What the server fills in belongs to nobody.
        stamp = partial(merge, is_forced=True)
        return self._create(resource, key[0], named, how, stamp), True

    def _change_applied(
        self,
        resource: Resource,
        key: Key,
        how: Writing,
        merge: Callable[..., JSON],
        version: str | None,
    ) -> JSON:
        for _ in range(TRIES_MAX):
            before = self.live(resource, key)
            if version not in {None, before["metadata"]["resourceVersion"]}:
                break
            after = merge(before, is_forced=how.is_forced)
            if after is before:
                return typed(resource, before)
            stored = self._admitted(resource, key, before, after, how, stamp=lambda one: one)
            if stored is not None:
                return stored
        raise was_modified(resource.qualified, key[1])

    def _update(
        self, resource: Resource, key: Key, how: Writing, change: Callable[[JSON], JSON]
    ) -> JSON:
        """Return an object changed; what another writer did in between is taken into account."""
        for _ in range(TRIES_MAX):
            before = self.live(resource, key)
            incoming = change(before)
            refuse_other_object(resource, key, before, incoming["metadata"])
            after = merged_object(before, incoming, how.subresource, resource)

            def stamp(one: JSON, before: JSON = before) -> JSON:
                if without_version(one) == without_version(before):
                    return before
                return claim_changes(before, one, self._claim(resource, how))

            stored = self._admitted(resource, key, before, after, how, stamp=stamp)
            if stored is not None:
                return stored
        raise was_modified(resource.qualified, key[1])

    def _admitted(
        self,
        resource: Resource,
        key: Key,
        before: JSON,
        after: JSON,
        how: Writing,
        *,
        stamp: Stamp,
    ) -> JSON | None:
        """Return a change as it is stored; None when the object is another by then."""
        review = self._admission.mutate(
            Review(
                operation=CHANGE,
                resource=resource,
                namespace=key[0],
                name=key[1],
                obj=after,
                old=before,
                how=how,
            )
        )
        after = review.obj or after
        check_change(resource, before, after, how.subresource)
        self._admission.validate(review)
        with self._store.lock:
            if self._store.get(resource, key) is not before:
                return None
            stamped = stamp(after)
            if stamped is before:
                return typed(resource, before)
            return self._put(resource, key, stamped, how)

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

    def _claim(self, resource: Resource, how: Writing) -> Claim:
        return Claim(
            manager=how.manager,
            operation=UPDATE,
            time=self.now(),
            paths=frozenset(),
            subresource=how.subresource,
            api_version=resource.api_version,
        )


def refuse_other_object(resource: Resource, key: Key, before: JSON, metadata: JSON) -> None:
    """Refuse a write that was meant for another version of an object, or for another object.

    Raises:
        StatusError: 409.
    """
    if metadata.get("resourceVersion") not in {None, "", before["metadata"]["resourceVersion"]}:
        raise was_modified(resource.qualified, key[1])
    if metadata.get("uid") not in {None, before["metadata"]["uid"]}:
        told = f"Precondition failed: UID in precondition: {metadata['uid']}, "
        raise conflict(
            resource.qualified, key[1], f"{told}UID in object meta: {before['metadata']['uid']}"
        )
