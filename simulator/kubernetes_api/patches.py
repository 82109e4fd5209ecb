"""Patches of four kinds: merge, strategic merge, JSON patch and server-side apply.

Server-side apply records the owners of each field in `managedFields`, by manager, operation and
subresource. Paths are tuples of map keys down to a leaf; a list is one leaf, owned as a whole. That
is how Kubernetes treats every field of a ResourceQuota, a Namespace and a Node's labels; its keyed
lists, such as containers, are coarser here.
Source: RFC 7386, RFC 6902; https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from operator import attrgetter
from typing import Any, Final

from simulator.kubernetes_api.errors import JSON, StatusError, bad_request

APPLY_PATCH: Final = "application/apply-patch+yaml"
APPLY: Final = "Apply"
UPDATE: Final = "Update"
Path = tuple[str, ...]
_MERGE_KEYS: Final = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "containerStatuses": "name",
    "ownerReferences": "uid",
}
"""Lists that a strategic merge patch merges by a key; others are replaced."""
_UNOWNED: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "generateName",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Keys of metadata that have no owner."""
_MISSING: Final = object()


def apply_patch(obj: JSON, patch: object, content_type: str) -> JSON:
    """Return an object with a patch applied, of any kind but server-side apply."""
    patches: dict[str, Callable[[JSON, Any], Any]] = {
        "application/merge-patch+json": merge_patch,
        "application/strategic-merge-patch+json": strategic_merge_patch,
        "application/json-patch+json": json_patch,
    }
    if content_type not in patches:
        accepted = ", ".join([*patches, APPLY_PATCH])
        message = f"the body of the request was in an unknown format - accepted: {accepted}"
        raise StatusError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    patched = patches[content_type](obj, patch)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise bad_request("the patch leaves no object")
    return patched


def merge_patch(target: object, patch: object) -> Any:  # noqa: ANN401 - JSON is any value.
    """Return a target with a merge patch applied: null removes, maps merge, the rest replaces."""
    return _merge(target, patch, keys={})


def strategic_merge_patch(target: object, patch: object) -> Any:  # noqa: ANN401 - As above.
    """Return a target with a strategic merge patch applied: keyed lists merge by their key."""
    return _merge(target, patch, keys=_MERGE_KEYS)


def json_patch(target: JSON, operations: object) -> JSON:
    """Return a target with a JSON patch applied."""
    patched = copy.deepcopy(target)
    try:
        for operation in operations:  # type: ignore[attr-defined] # A TypeError is caught.
            _operate(patched, operation)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        # Whatever does not fit, a failed test too.
        message = f"the server rejected our request due to an error in our request: {error}"
        raise StatusError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message) from error
    return patched


def _merge(target: object, patch: object, keys: Mapping[str, str], name: str = "") -> Any:  # noqa: ANN401 - As above.
    if isinstance(patch, list) and name in keys:
        found = target if isinstance(target, list) else []
        merged_list = {one.get(keys[name]): one for one in found}
        for one in patch:
            key = one.get(keys[name])
            merged_list[key] = _merge(merged_list.get(key), one, keys)
        return list(merged_list.values())
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value, keys, key)
    return merged


def _operate(target: JSON, operation: JSON) -> None:
    """Apply one operation of a JSON patch to the object itself."""
    kind, pointer = operation["op"], operation["path"]
    if not pointer.startswith("/"):
        raise ValueError("a path begins with /")
    *path, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
    parent: Any = target
    for part in path:
        parent = parent[int(part) if isinstance(parent, list) else part]
    if kind == "add" and isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else int(last), copy.deepcopy(operation["value"]))
        return
    index = int(last) if isinstance(parent, list) else last
    if kind != "add" and parent[index] != operation.get("value") and kind == "test":
        raise ValueError(f"{pointer} is another")
    if kind == "remove":
        del parent[index]
    elif kind in {"add", "replace"}:
        parent[index] = copy.deepcopy(operation["value"])
    elif kind != "test":
        raise ValueError(f"{kind} is not supported")


@dataclass(frozen=True)
class Ownership:
    """The fields of one manager.

    Attributes:
        operation: "Apply" or "Update"; one manager may have both, as two entries.
    """

    manager: str
    operation: str
    time: str
    paths: frozenset[Path] = frozenset()
    subresource: str = ""
    api_version: str = "v1"

    def is_of(self, other: "Ownership") -> bool:
        """Return whether it is the same manager in the same operation."""
        key = attrgetter("manager", "operation", "subresource")
        return bool(key(self) == key(other))

    def text(self) -> str:
        """Return the manager as a conflict names it."""
        through = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = f" using {self.api_version} at {self.time}" if self.operation == UPDATE else ""
        return f'"{self.manager}"{through}{using}'


def apply_intent(live: JSON, intent: JSON, owner: Ownership, *, is_forced: bool) -> JSON:
    """Return the live object with a manager's whole intent merged into it.

    A field that the manager applied before and does not send any more is removed, unless another
    manager owns it too.

    Args:
        live: The object as it is.
        intent: The whole intent.
        owner: The manager that applies, without paths.
        is_forced: Whether fields of other managers are taken over.
    """
    wanted = leaves(intent)
    known = read_ownerships(live)
    before = {path for one in known if one.is_of(owner) for path in one.paths}
    others = [one for one in known if not one.is_of(owner)]
    changed = {path for path, value in wanted.items() if not _has(live, path, value)}
    disputed = [
        (one.text(), "".join(f".{part}" for part in path))
        for path in sorted(changed)
        for one in others
        if path in one.paths
    ]
    if disputed and not is_forced:
        raise _apply_conflict(disputed)
    others = [replace(one, paths=one.paths - changed) for one in others]
    merged = copy.deepcopy(live)
    kept = {*wanted, *(path for one in others for path in one.paths)}
    for path in before:
        # An empty map that was applied once stays while a manager has something in it.
        if not any(other[: len(path)] == path for other in kept):
            drop_path(merged, path)
    for path in changed:
        set_path(merged, path, wanted[path])
    if before == wanted.keys() and leaves(merged) == leaves(live):
        return live
    return with_ownerships(merged, [*others, replace(owner, paths=frozenset(wanted))])


def own_changes(before: JSON | None, after: JSON, owner: Ownership) -> JSON:
    """Return `after` with the changed fields owned by the manager that wrote them.

    Args:
        before: The object as it was; None for a new one.
        after: The object as it shall be.
        owner: The writer, without paths.
    """
    old = leaves(before) if before else {}
    new = leaves(after)
    changed = {path for path, value in new.items() if old.get(path, _MISSING) != value}
    gone = old.keys() - new.keys()
    if not changed and not gone:
        return after
    known = read_ownerships(before) if before else []
    owned = {path for one in known if one.is_of(owner) for path in one.paths}
    others = [
        replace(one, paths=one.paths - changed - gone) for one in known if not one.is_of(owner)
    ]
    mine = replace(owner, paths=frozenset((owned - gone) | changed))
    return with_ownerships(after, [*others, mine])


def leaves(obj: Mapping[str, Any]) -> dict[Path, Any]:
    """Return an object's leaves by path, without those that have no owner."""
    return {
        path: value
        for path, value in _walk(obj, ())
        if path[0] not in {"apiVersion", "kind"}
        and not (path[0] == "metadata" and (len(path) == 1 or path[1] in _UNOWNED))
    }


def read_ownerships(obj: JSON) -> list[Ownership]:
    """Return the managers of an object's fields, in the order of `managedFields`."""
    return [
        Ownership(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            time=entry["time"],
            paths=frozenset(_decode(entry["fieldsV1"], ())),
            subresource=entry.get("subresource", ""),
            api_version=entry["apiVersion"],
        )
        for entry in obj["metadata"].get("managedFields", [])
    ]


def with_ownerships(obj: JSON, ownerships: list[Ownership]) -> JSON:
    """Return an object with these `managedFields`; a manager without fields is left out."""
    entries = [
        {
            "manager": one.manager,
            "operation": one.operation,
            "apiVersion": one.api_version,
            "time": one.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encode(one.paths),
            **({"subresource": one.subresource} if one.subresource else {}),
        }
        for one in ownerships
        if one.paths
    ]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def set_path(obj: JSON, path: Path, value: object) -> None:
    """Put a value at a path, making maps on the way."""
    target = obj
    for part in path[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[path[-1]] = copy.deepcopy(value)


def drop_path(obj: JSON, path: Path, *, is_top: bool = True) -> None:
    """Remove a leaf, and the maps that become empty by it, but for those at the top."""
    inner = obj.get(path[0])
    if len(path) == 1:
        obj.pop(path[0], None)
    elif isinstance(inner, dict):
        drop_path(inner, path[1:], is_top=False)
        if not inner and not is_top:
            del obj[path[0]]


def _has(obj: JSON, path: Path, value: object) -> bool:
    """Return whether a value is at a path already; an empty map only requires a map."""
    found: Any = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return isinstance(found, dict) if value == {} else bool(found == value)


def _apply_conflict(disputed: list[tuple[str, str]]) -> StatusError:
    """Return the conflict of an apply about fields, each after the manager that owns it."""
    if len(disputed) == 1:
        message = f"1 conflict: conflict with {disputed[0][0]}: {disputed[0][1]}"
    else:
        paths: defaultdict[str, str] = defaultdict(str)
        for manager, path in sorted(disputed):
            paths[manager] += f"\n- {path}"
        lists = "\n".join(f"conflicts with {manager}:{paths[manager]}" for manager in paths)
        message = f"{len(disputed)} conflicts: {lists}"
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in disputed
    ]
    message = f"Apply failed with {message}"
    return StatusError(HTTPStatus.CONFLICT, "Conflict", message, details={"causes": causes})


def _walk(value: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _walk(inner, (*path, key))
        elif inner is not None:
            yield (*path, key), inner


def _encode(paths: frozenset[Path]) -> JSON:
    fields: JSON = {}
    for path in sorted(paths):
        target = fields
        for part in path:
            target = target.setdefault(f"f:{part}", {})
    return fields


def _decode(fields: JSON, path: Path) -> Iterator[Path]:
    for key, inner in fields.items():
        here = (*path, key.removeprefix("f:"))
        if inner:
            yield from _decode(inner, here)
        else:
            yield here
