"""A new object's way in: completed, mutated, named, checked, validated, counted and stored.

Source: kubernetes/apiserver, pkg/endpoints/handlers/create.go.
"""

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from simulator.kubernetes_api.admission import Admission
from simulator.kubernetes_api.conditions import check_conditions
from simulator.kubernetes_api.defaults import finish_new, with_defaults
from simulator.kubernetes_api.errors import JSON, already_exists
from simulator.kubernetes_api.homes import (
    make_default_account,
    refuse_without_home,
)
from simulator.kubernetes_api.incoming import Writing, printed_time
from simulator.kubernetes_api.priorities import resolve_priority
from simulator.kubernetes_api.quota import admit
from simulator.kubernetes_api.resources import (
    NAMESPACES,
    PODS,
    Resource,
)
from simulator.kubernetes_api.reviews import CREATE, Review
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.storing import store_object
from simulator.kubernetes_api.validation import check_new

NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
Stamp = Callable[[JSON], JSON]
"""Says on an object who owns which field."""


class Creator:
    """Makes new objects.

    Args:
        store: Where they go.
        admission: Asks the webhooks.
        clock: Returns the present moment, aware UTC.
        seed: Of generated names and uids.
    """

    def __init__(
        self,
        store: ObjectStore,
        admission: Admission,
        *,
        clock: Callable[[], datetime],
        seed: int,
    ) -> None:
        """Keep the store."""
        self._store = store
        self._admission = admission
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311 - Names of a simulation.

    def create(
        self, resource: Resource, namespace: str, obj: JSON, how: Writing, stamp: Stamp
    ) -> JSON:
        """Return a new object, stored unless this is a dry run.

        Args:
            resource: Of the object.
            namespace: Of the object; "" for what has none.
            obj: As it was asked for.
            how: How the write is meant.
            stamp: Says on the object who owns which field.

        Raises:
            StatusError: 403, 404, 409, 422 or 500.
        """
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
        check_conditions(self._store.compile_condition, resource, made)
        name = made["metadata"]["name"]
        self._admission.validate(replace(review, name=name, obj=made))
        with self._store.lock:
            refuse_without_home(self._store, resource, namespace, name)
            if resource is PODS:
                admit(self._store, made, at=self._clock(), is_dry_run=how.is_dry_run)
            if self._store.get(resource, (namespace, name)) is not None:
                raise already_exists(resource.qualified, name)
            stored = store_object(self._store, resource, (namespace, name), stamp(made), how)
            if resource is NAMESPACES and not how.is_dry_run:
                make_default_account(self._store, name, self._uid(), printed_time(self._clock()))
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
        metadata["creationTimestamp"] = printed_time(self._clock())
        if resource.has_generation:
            metadata["generation"] = 1
        finish_new(resource, made)

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
