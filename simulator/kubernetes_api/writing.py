"""Create, replace, patch and apply: one write at a time, through admission.

Mutating webhooks first; then the name, the uid and validation; then validating webhooks, who see
the object as it will be stored; the quota last. No lock is held while a webhook is asked: a write
that finds another object than it began with begins again.
Source: kubernetes/apiserver, pkg/registry/generic/registry/store.go and pkg/endpoints/handlers.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final

from simulator.kubernetes_api.admission import Admission
from simulator.kubernetes_api.apply import apply_intent
from simulator.kubernetes_api.conditions import check_conditions
from simulator.kubernetes_api.creating import Creator, Stamp
from simulator.kubernetes_api.errors import (
    JSON,
    bad_request,
    not_found,
    was_modified,
)
from simulator.kubernetes_api.fields import (
    claim_changes,
)
from simulator.kubernetes_api.incoming import (
    SYSTEM_METADATA,
    Writing,
    incoming_object,
    intended_object,
    merged_object,
    patched_object,
    printed_time,
    with_generation,
    without_version,
)
from simulator.kubernetes_api.reading import typed
from simulator.kubernetes_api.resources import (
    Resource,
)
from simulator.kubernetes_api.reviews import UPDATE as CHANGE
from simulator.kubernetes_api.reviews import Review
from simulator.kubernetes_api.store import Key, ObjectStore
from simulator.kubernetes_api.storing import (
    claim_of,
    refuse_other_object,
    store_object,
)
from simulator.kubernetes_api.validation import (
    check_change,
)

APPLY_PATCH: Final = "application/apply-patch+yaml"
TRIES_MAX: Final = 16
"""How often a write begins again before it is a conflict; the real server gives up a patch sooner
and other writes never."""


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
        self._creator = Creator(store, self._admission, clock=clock, seed=seed)

    def now(self) -> str:
        """Return the present moment as Kubernetes prints it: whole seconds, Z."""
        return printed_time(self._clock())

    def create(self, resource: Resource, namespace: str, body: JSON, how: Writing) -> JSON:
        """Return a new object, stored unless this is a dry run.

        Raises:
            StatusError: 400, 403, 404, 409, 422 or 500, as the real server has them.
        """
        obj = incoming_object(resource, namespace, body)
        return self._creator.create(
            resource,
            namespace,
            obj,
            how,
            lambda made: claim_changes(None, made, claim_of(resource, how, self.now())),
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
        return self._creator.create(resource, key[0], named, how, stamp), True

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
            after = with_generation(before, after, resource)
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
                return claim_changes(before, one, claim_of(resource, how, self.now()))

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
        check_conditions(self._store.compile_condition, resource, after)
        self._admission.validate(review)
        with self._store.lock:
            if self._store.get(resource, key) is not before:
                return None
            stamped = stamp(after)
            if stamped is before:
                return typed(resource, before)
            return store_object(self._store, resource, key, stamped, how)
