"""Patches of three kinds: merge patch, strategic merge patch and JSON patch.

Source: RFC 7386, RFC 6902 and kubernetes/apimachinery, pkg/util/strategicpatch.
"""

import copy
from typing import Any, Final

from simulator.kubernetes_api.errors import JSON, bad_request

_MERGE_KEYS: Final = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "containerStatuses": "name",
    "ownerReferences": "uid",
}
"""Lists that a strategic merge patch merges by a key; others are replaced."""


def merge_patch(target: object, patch: object) -> Any:  # noqa: ANN401 - JSON is any value.
    """Return a target with a merge patch applied: null removes, maps merge, the rest replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge_patch(target: object, patch: object, key: str = "") -> Any:  # noqa: ANN401 - As above.
    """Return a target with a strategic merge patch applied: keyed lists merge by their key."""
    if isinstance(patch, list) and key in _MERGE_KEYS:
        return _merge_list(target if isinstance(target, list) else [], patch, _MERGE_KEYS[key])
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = strategic_merge_patch(merged.get(name), value, name)
    return merged


def json_patch(target: JSON, operations: object) -> JSON:
    """Return a target with a JSON patch applied.

    Raises:
        StatusError: 400 for an operation that is none, or does not fit the target.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    patched = copy.deepcopy(target)
    for operation in operations:
        try:
            _operate(patched, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise bad_request(f"the JSON patch does not fit: {error}") from error
    return patched


def _merge_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = [copy.deepcopy(one) for one in target]
    for element in patch:
        index = next(
            (number for number, one in enumerate(merged) if one.get(key) == element.get(key)), None
        )
        if index is None:
            merged.append(copy.deepcopy(element))
        else:
            merged[index] = strategic_merge_patch(merged[index], element)
    return merged


def _operate(target: JSON, operation: JSON) -> None:
    name, parts = operation["op"], _pointer(operation["path"])
    parent = _descend(target, parts[:-1])
    if name == "test":
        if _descend(parent, parts[-1:]) != operation["value"]:
            raise ValueError(f"{operation['path']} is another")
    elif name == "remove":
        del parent[_index(parent, parts[-1])]
    elif name in {"add", "replace"}:
        _place(parent, parts[-1], operation["value"], is_new=name == "add")
    else:
        raise ValueError(f"{name} is not supported")


def _place(parent: Any, part: str, value: object, *, is_new: bool) -> None:  # noqa: ANN401 - As above.
    if isinstance(parent, list) and is_new:
        parent.insert(len(parent) if part == "-" else int(part), copy.deepcopy(value))
        return
    index = _index(parent, part)
    if not is_new and isinstance(parent, dict) and index not in parent:
        raise KeyError(part)
    parent[index] = copy.deepcopy(value)


def _pointer(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError("a path begins with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _descend(target: Any, parts: list[str]) -> Any:  # noqa: ANN401 - As above.
    for part in parts:
        target = target[_index(target, part)]
    return target


def _index(target: Any, part: str) -> Any:  # noqa: ANN401 - As above.
    return int(part) if isinstance(target, list) else part
