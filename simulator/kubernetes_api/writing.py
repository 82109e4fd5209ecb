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
from simulator.kubernetes_api.access import WriteOptions
from simulator.kubernetes_api.errors import (
    JSON,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
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
from simulator.kubernetes_api.store import Key, ObjectStore
from simulator.kubernetes_api.webhooks import CREATE, Review
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


Stamp = Callable[[JSON, JSON], JSON]
"""Returns the changed object, from the object before and after, with the owners of its fields."""


def create_object(
    store: ObjectStore, resource: Resource, namespace: str, body: JSON, options: WriteOptions
) -> JSON:
    """Return a new object, stored unless this is a dry run.

    Raises:
        StatusError: 400, 403, 404, 409, 422 or 500, as the real server has them.
    """
    obj = parse_object(resource, (namespace, ""), body)
    owner = _owner(store, resource, options, UPDATE)
    stamp = partial(own_changes, None, owner=owner)
    return _create(store, resource, namespace, obj, options, stamp)


def replace_object(
    store: ObjectStore, resource: Resource, key: Key, body: JSON, options: WriteOptions
) -> JSON:
    """Return an object replaced by another of the same name.

    Raises:
        StatusError: 400, 404, 409, 422 or 500.
    """
    incoming = parse_object(resource, key, body)
    return _update(store, resource, key, options, lambda _: incoming)


def patch_object(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    patch: object,
    kind: str,
    options: WriteOptions,
) -> JSON:
    """Return an object with a patch of a content type applied; not for server-side apply.

    Raises:
        StatusError: 400, 404, 409, 415, 422 or 500.
    """

    def change(before: JSON) -> JSON:
        patched = apply_patch(resource.typed(before), patch, kind)
        return {name: value for name, value in patched.items() if name not in _TYPE}

    return _update(store, resource, key, options, change)


def apply_object(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    body: object,
    options: WriteOptions,
) -> tuple[JSON, bool]:
    """Return an object with an intent merged into it, and whether that made it.

    Raises:
        StatusError: 400, 404, 409, 422 or 500.
    """
    if not options.manager:
        message = "Required value: is required for apply patch"
        raise invalid("PatchOptions.meta.k8s.io", "", [(REQUIRED, message, "fieldManager")])
    if not isinstance(body, dict) or not body.keys() >= _TYPE:
        raise bad_request("an apply patch names its apiVersion and kind")
    intent = parse_object(resource, key, body)
    if intent["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    version = intent["metadata"].pop("resourceVersion", None)
    intent.pop("status", None)
    owner = _owner(store, resource, options, APPLY)
    if store.get(resource, key) is None:
        if version is not None:
            raise not_found(resource.qualified, key[1])
        # What the server fills in has no owner.
        stamp = partial(apply_intent, intent=intent, owner=owner, is_forced=True)
        return _create(store, resource, key[0], intent, options, stamp), True

    def change(before: JSON) -> JSON:
        if version not in {None, before["metadata"]["resourceVersion"]}:
            raise was_modified(resource.qualified, key[1])
        return apply_intent(before, intent, owner, is_forced=options.is_forced)

    return _write(store, resource, key, options, change, lambda _, after: after), False


def parse_object(resource: Resource, key: Key, body: object) -> JSON:
    """Return a body that is an object of this kind, namespace and name; "" for any name.

    Raises:
        StatusError: 400.
    """
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


def _owner(
    store: ObjectStore, resource: Resource, options: WriteOptions, operation: str
) -> Ownership:
    """Return the writer as an owner of fields, without fields."""
    return Ownership(
        manager=options.manager,
        operation=operation,
        time=store.now(),
        subresource=options.subresource,
        api_version=resource.api_version,
    )


def _create(
    store: ObjectStore,
    resource: Resource,
    namespace: str,
    obj: JSON,
    options: WriteOptions,
    stamp: Callable[[JSON], JSON],
) -> JSON:
    """Return a new object: completed, mutated, named, validated, counted and stored."""
    metadata = obj["metadata"]
    _refuse_without_namespace(store, resource, namespace, metadata.get("name", ""))
    made = fill_defaults(store, resource, obj)
    review = Review(CREATE, resource, namespace, metadata.get("name", ""), made, None, options)
    made = fill_defaults(store, resource, webhooks.mutate(store, review).obj or {})
    metadata = made["metadata"]
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + store.new_suffix()
    metadata.update({"uid": store.new_uid(), "creationTimestamp": store.now()})
    if resource.has_generation:
        metadata["generation"] = 1
    name = metadata.get("name", "")
    finish_new(resource, made)
    check_new(store, resource, made)
    webhooks.validate(store, replace(review, name=name, obj=made))
    with store.lock:
        _refuse_without_namespace(store, resource, namespace, name)
        if resource is PODS:
            admit(store, made, is_dry_run=options.is_dry_run)
        if store.get(resource, (namespace, name)) is not None:
            raise already_exists(resource.qualified, name)
        stored = _store(store, resource, (namespace, name), stamp(made), options)
        if resource is NAMESPACES and not options.is_dry_run:
            account = {"name": "default", "namespace": name, "uid": store.new_uid()}
            account["creationTimestamp"] = store.now()
            store.put(SERVICE_ACCOUNTS, (name, "default"), {"metadata": account})
        return stored


def _update(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    options: WriteOptions,
    incoming_of: Callable[[JSON], JSON],
) -> JSON:
    """Return an object changed to what is sent; the fields that differ are the writer's."""
    owner = _owner(store, resource, options, UPDATE)

    def change(before: JSON) -> JSON:
        incoming = incoming_of(before)
        _refuse_other_object(resource, before["metadata"], incoming["metadata"])
        return _merged(before, incoming, resource, options.subresource)

    stamp = partial(own_changes, owner=owner)
    return _write(store, resource, key, options, change, stamp)


def _write(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    options: WriteOptions,
    change: Callable[[JSON], JSON],
    stamp: Stamp,
) -> JSON:
    """Return a change as it is stored; what another writer did in between is taken into account.

    Args:
        store: Where the object is.
        resource: Of the object.
        key: Of the object.
        options: How the write is meant.
        change: Returns the object as it shall be, from what it is.
        stamp: Notes the owners of the changed fields.
    """
    for _ in range(TRIES_MAX):
        before = store.read(resource, key)
        after = _with_generation(resource, before, change(before))
        review = Review(CHANGE, resource, *key, after, before, options)
        review = webhooks.mutate(store, review)
        after = review.obj or after
        check_change(store, resource, before, after, subresource=options.subresource)
        webhooks.validate(store, review)
        with store.lock:
            if store.get(resource, key) is before:
                if after == before:
                    return resource.typed(before)
                return _store(store, resource, key, stamp(before, after), options)
    raise was_modified(resource.qualified, key[1])


def _store(
    store: ObjectStore, resource: Resource, key: Key, obj: JSON, options: WriteOptions
) -> JSON:
    """Return an object as it is stored; a dry run stores nothing.

    An object that is being deleted and has lost its last finalizer is removed by this.
    """
    if options.is_dry_run:
        return resource.typed(obj)
    metadata = obj["metadata"]
    is_kept = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    stored = store.put(resource, key, obj)
    if "deletionTimestamp" in metadata and not is_kept and resource is not NAMESPACES:
        stored = store.remove(resource, key)
    return resource.typed(stored)


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
    """Return an object whose generation has risen with any change but of metadata or status."""
    names = {*before, *after} - {"metadata", "status"}
    if not resource.has_generation or all(before.get(one) == after.get(one) for one in names):
        return after
    generation = before["metadata"].get("generation", 1) + 1
    return {**after, "metadata": {**after["metadata"], "generation": generation}}


def _refuse_without_namespace(
    store: ObjectStore, resource: Resource, namespace: str, name: str
) -> None:
    """Refuse a new object whose namespace does not exist, or is being deleted."""
    if (
        resource.is_namespaced
        and "deletionTimestamp" in (store.read(NAMESPACES, ("", namespace))["metadata"])
    ):
        why = f"unable to create new content in namespace {namespace} because it is being"
        raise forbidden(resource.qualified, name, f"{why} terminated")


def _refuse_other_object(resource: Resource, before: JSON, sent: JSON) -> None:
    """Refuse a write that is meant for another version of an object, or for another object."""
    if sent.get("resourceVersion") not in {None, "", before["resourceVersion"]}:
        raise was_modified(resource.qualified, before["name"])
    if sent.get("uid") not in {None, before.get("uid")}:
        why = f"Precondition failed: UID in precondition: {sent['uid']}, UID in object meta: "
        raise conflict(resource.qualified, before["name"], f"{why}{before.get('uid')}")
