"""The last step of a write: what it was meant for, who owns what, and the store.

Source: kubernetes/apiserver, pkg/registry/generic/registry/store.go.
"""

from simulator.kubernetes_api.errors import (
    JSON,
    conflict,
    was_modified,
)
from simulator.kubernetes_api.fields import UPDATE, Claim
from simulator.kubernetes_api.incoming import Writing
from simulator.kubernetes_api.reading import typed
from simulator.kubernetes_api.resources import NAMESPACES, Resource
from simulator.kubernetes_api.store import Key, ObjectStore


def store_object(store: ObjectStore, resource: Resource, key: Key, obj: JSON, how: Writing) -> JSON:
    """Return an object as it is stored; a dry run stores nothing.

    An object that is being deleted and has lost its last finalizer is gone by this.
    """
    if how.is_dry_run:
        return typed(resource, obj)
    metadata = obj["metadata"]
    is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in metadata and not is_held and resource is not NAMESPACES:
        store.put(resource, key, obj)
        return typed(resource, store.remove(resource, key))
    return typed(resource, store.put(resource, key, obj))


def claim_of(resource: Resource, how: Writing, now: str) -> Claim:
    """Return a writer's claim, with no fields yet."""
    return Claim(
        manager=how.manager,
        operation=UPDATE,
        time=now,
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
