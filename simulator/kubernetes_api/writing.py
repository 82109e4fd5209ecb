"""Create, replace, patch and apply: one write at a time, through admission.

Mutating webhooks first; then the name, the uid and validation; then validating webhooks, which get
the object as it will be stored; the quota last. No lock is held while a webhook is asked: a write
that finds another object than it began with begins again.
Source: kubernetes/apiserver, pkg/registry/generic/registry/store.go and pkg/endpoints/handlers.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from simulator.kubernetes_api import webhooks
from simulator.kubernetes_api.access import Write
from simulator.kubernetes_api.errors import (
    JSON,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    was_modified,
)
from simulator.kubernetes_api.kinds import (
    REQUIRED,
    check_change,
    check_new,
    fill_defaults,
    finish_new,
)
from simulator.kubernetes_api.patches import (
    APPLY,
    UPDATE,
    Ownership,
    apply_intent,
    apply_patch,
    own_changes,
)
from simulator.kubernetes_api.quota import admit
from simulator.kubernetes_api.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from simulator.kubernetes_api.store import Key
from simulator.kubernetes_api.webhooks import CREATE, WriteReview
from simulator.kubernetes_api.webhooks import UPDATE as CHANGE

TRIES_MAX: Final = 16
"""How often a write begins again before it is a conflict; the real server gives up a patch sooner
and other writes never."""
_SYSTEM_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
    "managedFields",
    "generation",
    "resourceVersion",
)
"""What a write cannot change, and takes over from the object as it was."""
_EPHEMERAL: Final = "ephemeralContainers"
_TYPE: Final = frozenset({"kind", "apiVersion"})


def create_object(write: Write, body: object) -> JSON:
    """Return a new object, stored unless this is a dry run."""
    obj = parse_object(write.resource, write.key, body)
    return _create(write, obj, partial(own_changes, None, owner=_owner(write, UPDATE)))


def replace_object(write: Write, body: object) -> JSON:
    """Return an object replaced by another of the same name."""
    incoming = parse_object(write.resource, write.key, body)
    return _update(write, lambda _: incoming)


def patch_object(write: Write, patch: object, content_type: str) -> JSON:
    """Return an object with a patch of a content type applied; not for server-side apply."""

    def change(before: JSON) -> JSON:
        patched = apply_patch(write.resource.typed(before), patch, content_type)
        return {name: value for name, value in patched.items() if name not in _TYPE}

    return _update(write, change)


def apply_object(write: Write, body: object) -> tuple[JSON, bool]:
    """Return an object with an intent merged into it, and whether that made it."""
    if not write.manager:
        message = "Required value: is required for apply patch"
        raise invalid("PatchOptions.meta.k8s.io", "", [(REQUIRED, message, "fieldManager")])
    if not isinstance(body, dict) or not body.keys() >= _TYPE:
        raise bad_request("an apply patch names its apiVersion and kind")
    intent = parse_object(write.resource, write.key, body)
    if intent["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    version = intent["metadata"].pop("resourceVersion", None)
    intent.pop("status", None)
    merge = partial(apply_intent, intent=intent, owner=_owner(write, APPLY))
    if version is None and write.store.get(write.resource, write.key) is None:
        # What the server fills in has no owner.
        return _create(write, intent, partial(merge, is_forced=True)), True

    def change(before: JSON) -> JSON:
        if version not in {None, before["metadata"]["resourceVersion"]}:
            raise was_modified(write.resource.qualified, write.key[1])
        return merge(before, is_forced=write.is_forced)

    return _change(write, change, lambda _, after: after), False


def parse_object(resource: Resource, key: Key, body: object) -> JSON:
    """Return a body that is an object of this kind, namespace and name; "" for any name."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    version, kind = body.get("apiVersion", resource.api_version), body.get("kind", resource.kind)
    if (version, kind) != (resource.api_version, resource.kind):
        message = f"{kind} in version {version} cannot be handled as a {resource.kind}"
        raise bad_request(message)
    obj: JSON = copy.deepcopy({name: value for name, value in body.items() if name not in _TYPE})
    metadata = obj.setdefault("metadata", {})
    if not resource.is_namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", key[0]) != key[0]:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if key[1] and metadata.setdefault("name", key[1]) != key[1]:
        message = f"the name of the object ({metadata['name']}) does not match the name on the URL"
        raise bad_request(f"{message} ({key[1]})")
    return obj


def _owner(write: Write, operation: str) -> Ownership:
    """Return the writer as an owner of fields, without fields."""
    return Ownership(
        manager=write.manager,
        operation=operation,
        time=write.store.now(),
        subresource=write.subresource,
        api_version=write.resource.api_version,
    )


def _create(write: Write, obj: JSON, stamp: Callable[[JSON], JSON]) -> JSON:
    """Return a new object: completed, mutated, named, validated, counted and stored."""
    store, resource, namespace = write.store, write.resource, write.key[0]
    write = replace(write, key=(namespace, obj["metadata"].get("name", "")))
    _refuse_without_namespace(write)
    review = WriteReview(write, CREATE, fill_defaults(store, resource, obj), None)
    made = fill_defaults(store, resource, webhooks.mutate(review).obj or {})
    metadata = made["metadata"]
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + store.new_suffix()
    metadata.update({"uid": store.new_uid(), "creationTimestamp": store.now()})
    if resource.has_generation:
        metadata["generation"] = 1
    finish_new(resource, made)
    check_new(store, resource, made)
    write = replace(write, key=(namespace, metadata["name"]))
    webhooks.validate(WriteReview(write, CREATE, made, None))
    with store.lock:
        _refuse_without_namespace(write)
        if resource is PODS:
            admit(store, made, is_dry_run=write.is_dry_run)
        if store.get(resource, write.key) is not None:
            raise already_exists(resource.qualified, write.key[1])
        stored = _store(write, stamp(made))
        if resource is NAMESPACES and not write.is_dry_run:
            account = {"name": "default", "namespace": metadata["name"], "uid": store.new_uid()}
            account["creationTimestamp"] = store.now()
            store.put(SERVICE_ACCOUNTS, (metadata["name"], "default"), {"metadata": account})
        return stored


def _update(write: Write, incoming_of: Callable[[JSON], JSON]) -> JSON:
    """Return an object changed to what is sent; the fields that differ are the writer's."""

    def change(before: JSON) -> JSON:
        incoming = incoming_of(before)
        _refuse_other_object(write.resource, before["metadata"], incoming["metadata"])
        return _merged(before, incoming, write.resource, write.subresource)

    return _change(write, change, partial(own_changes, owner=_owner(write, UPDATE)))


def _change(
    write: Write, change: Callable[[JSON], JSON], stamp: Callable[[JSON, JSON], JSON]
) -> JSON:
    """Return a change as it is stored; what another writer did in between is taken into account.

    Args:
        write: The write.
        change: Returns the object as it shall be, from what it is.
        stamp: Returns the changed object with the owners of its fields, from before and after.
    """
    for _ in range(TRIES_MAX):
        before = write.read()
        after = _with_generation(write.resource, before, change(before))
        review = webhooks.mutate(WriteReview(write, CHANGE, after, before))
        after = review.obj or after
        check_change(write, before, after)
        webhooks.validate(review)
        with write.store.lock:
            if write.store.get(write.resource, write.key) is before:
                if after == before:
                    return write.resource.typed(before)
                return _store(write, stamp(before, after))
    raise was_modified(write.resource.qualified, write.key[1])


def _store(write: Write, obj: JSON) -> JSON:
    """Return an object as it is stored; a dry run stores nothing.

    An object that is being deleted and has lost its last finalizer is removed by this.
    """
    if write.is_dry_run:
        return write.resource.typed(obj)
    metadata = obj["metadata"]
    is_kept = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    stored = write.store.put(write.resource, write.key, obj)
    if "deletionTimestamp" in metadata and not is_kept and write.resource is not NAMESPACES:
        stored = write.store.remove(write.resource, write.key)
    return write.resource.typed(stored)


def _merged(before: JSON, incoming: JSON, resource: Resource, subresource: str) -> JSON:
    """Return an object with what a write sends for it.

    A write of the status leaves the spec alone, but changes labels and annotations of most kinds,
    as on a real server. A write of ephemeral containers changes nothing else, and every other
    write leaves the status.
    """
    known = before["metadata"]
    kept = {name: known[name] for name in _SYSTEM_METADATA if name in known}
    metadata = {**incoming["metadata"], **kept}
    if subresource == "status":
        metadata = known if resource.keeps_metadata else metadata
        return {**before, "metadata": metadata, "status": incoming.get("status", {})}
    if subresource == _EPHEMERAL.lower():
        added = (incoming.get("spec") or {}).get(_EPHEMERAL, [])
        return {**before, "spec": {**before["spec"], _EPHEMERAL: added}}
    status = {"status": before["status"]} if "status" in before else {}
    return {**incoming, "metadata": metadata, **status}


def _with_generation(resource: Resource, before: JSON, after: JSON) -> JSON:
    """Return an object; raise its generation on any change outside metadata and status."""
    names = {*before, *after} - {"metadata", "status"}
    if not resource.has_generation or all(before.get(one) == after.get(one) for one in names):
        return after
    generation = before["metadata"].get("generation", 1) + 1
    return {**after, "metadata": {**after["metadata"], "generation": generation}}


def _refuse_without_namespace(write: Write) -> None:
    """Refuse a new object in a namespace that does not exist or is being deleted."""
    namespace, name = write.key
    if write.resource.is_namespaced:
        home = write.store.read(NAMESPACES, ("", namespace))
        if "deletionTimestamp" in home["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being"
            raise forbidden(write.resource.qualified, name, f"{why} terminated")


def _refuse_other_object(resource: Resource, before: JSON, sent: JSON) -> None:
    """Refuse a write that is meant for another version of an object, or for another object."""
    if sent.get("resourceVersion") not in {None, "", before["resourceVersion"]}:
        raise was_modified(resource.qualified, before["name"])
    if sent.get("uid") not in {None, before.get("uid")}:
        why = f"Precondition failed: UID in precondition: {sent['uid']}, UID in object meta: "
        raise conflict(resource.qualified, before["name"], f"{why}{before.get('uid')}")
