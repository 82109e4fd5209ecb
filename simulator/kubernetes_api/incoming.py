"""What comes in: how a write is meant, and the object that its body makes of the one that is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from simulator.kubernetes_api import patches
from simulator.kubernetes_api.errors import (
    JSON,
    bad_request,
    invalid,
    unsupported_media_type,
)
from simulator.kubernetes_api.kinds import REQUIRED
from simulator.kubernetes_api.resources import (
    AUTHENTICATION,
    POLICY,
    Resource,
)
from simulator.kubernetes_api.store import Key
from simulator.kubernetes_api.users import ADMIN, User

EPHEMERAL: Final = "ephemeralContainers"
"""Containers somebody puts into a running pod for a moment, through a subresource."""
SYSTEM_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
)
"""What a write cannot change, and takes over from the object as it was."""


@dataclass(frozen=True)
class Writing:
    """How a write is meant.

    Attributes:
        manager: Who writes, for `managedFields`.
        subresource: "" for the object itself.
        user: Who asks, for webhooks.
        warnings: Filled by webhooks, and sent as headers of the answer.
    """

    manager: str
    subresource: str = ""
    is_dry_run: bool = False
    is_forced: bool = False
    user: User = ADMIN
    warnings: list[str] = field(default_factory=list, compare=False)


def writing_of(
    query: Mapping[str, str], *, agent: str, subresource: str, user: User = ADMIN
) -> Writing:
    """Return how a request means its write; without fieldManager, the user agent writes.

    Raises:
        StatusError: 422 for a dry run of another kind than All.
    """
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise invalid(
            "CreateOptions", "", [("FieldValueNotSupported", f'Unsupported value: "{dry_run}"',
            "dryRun")]
        )  # fmt: skip
    return Writing(
        manager=query.get("fieldManager", "") or agent.split("/", maxsplit=1)[0],
        subresource=subresource,
        is_dry_run=bool(dry_run),
        is_forced=query.get("force", "") in {"true", "True", "1"},
        user=user,
    )


def incoming_object(
    resource: Resource,
    namespace: str,
    body: Any,  # noqa: ANN401 - JSON is any value.
) -> JSON:
    """Return a body that is an object of this kind and of this namespace."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    told = (body.get("apiVersion", resource.api_version), body.get("kind", resource.kind))
    if told != (resource.api_version, resource.kind):
        raise bad_request(
            f"{told[1]} in version {told[0]} cannot be handled as a {resource.kind}: no kind"
            f' "{told[1]}" is registered for version "{told[0]}"'
        )
    obj: JSON = json.loads(json.dumps(body))
    for name in ("kind", "apiVersion"):
        obj.pop(name, None)
    metadata = obj.setdefault("metadata", {})
    if resource.is_namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on"
                " the request"
            )
    else:
        metadata.pop("namespace", None)
    return obj


def intended_object(
    resource: Resource,
    key: Key,
    body: Any,  # noqa: ANN401 - JSON is any value.
    how: Writing,
) -> JSON:
    """Return what is applied, checked as the server does before it merges."""
    if not how.manager:
        message = "Required value: is required for apply patch"
        raise invalid("PatchOptions.meta.k8s.io", "", [(REQUIRED, message, "fieldManager")])
    if not isinstance(body, dict) or "apiVersion" not in body or "kind" not in body:
        raise bad_request("an apply patch names its apiVersion and kind")
    intent = incoming_object(resource, key[0], body)
    if intent["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    name = intent["metadata"].get("name", key[1])
    if name != key[1]:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
        )
    intent.pop("status", None)
    return intent


def printed_time(at: datetime) -> str:
    """Return a moment as Kubernetes prints it: whole seconds, Z."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def patched_object(live: JSON, body: Any, kind: str) -> JSON:  # noqa: ANN401 - JSON.
    """Return an object with a patch of a given content type applied.

    Raises:
        StatusError: 400 for a patch that does not fit, 415 for another kind of it.
    """
    match kind:
        case "application/merge-patch+json":
            patched = patches.merge_patch(live, body)
        case "application/strategic-merge-patch+json":
            patched = patches.strategic_merge_patch(live, body)
        case "application/json-patch+json":
            patched = patches.json_patch(live, body)
        case _:
            raise unsupported_media_type()
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise bad_request("the patch leaves no object")
    for name in ("kind", "apiVersion"):
        patched.pop(name, None)
    return patched


def merged_object(before: JSON, incoming: JSON, subresource: str, resource: Resource) -> JSON:
    """Return what a write makes of an object.

    A write of the status leaves the spec alone, but changes labels and annotations of most kinds,
    as on a real server. A write of ephemeral containers changes nothing else, and every other
    write leaves the status.
    """
    kept = {
        name: before["metadata"][name] for name in SYSTEM_METADATA if name in before["metadata"]
    }
    metadata = {**incoming["metadata"], **kept}
    metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
    if "managedFields" in before["metadata"]:
        metadata["managedFields"] = before["metadata"]["managedFields"]
    if subresource == "status":
        kept_metadata = before["metadata"] if resource.keeps_metadata else metadata
        return {**before, "metadata": kept_metadata, "status": incoming.get("status", {})}
    if subresource == EPHEMERAL.lower():
        added = (incoming.get("spec") or {}).get(EPHEMERAL, [])
        return {**before, "spec": {**before["spec"], EPHEMERAL: added}}
    merged = {**incoming, "metadata": metadata}
    if "status" in before:
        merged["status"] = before["status"]
    return with_generation(before, merged, resource)


def with_generation(before: JSON, after: JSON, resource: Resource) -> JSON:
    """Return an object whose generation has risen with any change but of metadata or status."""
    if not resource.has_generation:
        return after
    is_changed = _without_status(after) != _without_status(before)
    generation = before["metadata"].get("generation", 1) + is_changed
    return {**after, "metadata": {**after["metadata"], "generation": generation}}


def posted_object(body: Any, name: str, kind: str) -> JSON:  # noqa: ANN401 - JSON is any value.
    """Return what is posted to a subresource: a Binding, an Eviction or a TokenRequest.

    Raises:
        StatusError: 400 for another kind, or for another object's name.
    """
    known = {
        "Binding": {"v1"},
        "Eviction": {f"{POLICY}/v1", f"{POLICY}/v1beta1"},
        "TokenRequest": {f"{AUTHENTICATION}/v1"},
    }[kind]
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    if body.get("kind", kind) != kind or body.get("apiVersion", min(known)) not in known:
        raise bad_request(
            f"{body.get('kind')} in version {body.get('apiVersion')} cannot be handled as a {kind}"
        )
    if body.get("metadata", {}).get("name", name) != name:
        raise bad_request(f"name in URL does not match name in {kind} object")
    return {"apiVersion": min(known), "kind": kind, **body}


def without_version(obj: JSON) -> JSON:
    """Return an object as it is but for the version of its last write."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _without_status(obj: JSON) -> JSON:
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
