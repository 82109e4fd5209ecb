"""Who owns which field of an object: `managedFields`, by manager, operation and subresource.

Paths are tuples of map keys down to a leaf; lists are leaves, that is owned as a whole. That is
how Kubernetes treats every field of a ResourceQuota, a Namespace and a Node's labels; its keyed
lists, such as containers, are coarser here.
Source: kubernetes-sigs/structured-merge-diff and KEP-555.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import API_VERSION

Path = tuple[str, ...]
APPLY: Final = "Apply"
UPDATE: Final = "Update"
_SYSTEM: Final = frozenset(
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
"""Keys of metadata that nobody owns."""
_MISSING: Final = object()


@dataclass(frozen=True)
class Claim:
    """One manager's fields.

    Attributes:
        operation: "Apply" or "Update"; one manager may have both, and they are two.
    """

    manager: str
    operation: str
    time: str
    paths: frozenset[Path]
    subresource: str = ""
    api_version: str = API_VERSION

    def is_of(self, other: "Claim") -> bool:
        """Whether it is the same manager in the same operation."""
        return (self.manager, self.operation, self.subresource) == (
            other.manager,
            other.operation,
            other.subresource,
        )

    def printed(self) -> str:
        """Return the manager as a conflict names it."""
        through = f' with subresource "{self.subresource}"' if self.subresource else ""
        if self.operation == UPDATE:
            return f'"{self.manager}"{through} using {self.api_version} at {self.time}'
        return f'"{self.manager}"{through}'


def leaves(obj: Mapping[str, Any]) -> dict[Path, Any]:
    """Return an object's leaves by path, without what nobody owns."""
    return {
        path: value
        for path, value in _walk(obj, ())
        if path[0] not in {"apiVersion", "kind"} and not _is_systems(path)
    }


def printed_path(path: Path) -> str:
    """Return a path as a conflict prints it: `.spec.hard.requests.nvidia.com/gpu`."""
    return "".join(f".{part}" for part in path)


def read_claims(obj: JSON) -> list[Claim]:
    """Return who owns what, in the order in which it stands there."""
    return [
        Claim(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            time=entry["time"],
            paths=frozenset(_decode(entry.get("fieldsV1", {}), ())),
            subresource=entry.get("subresource", ""),
            api_version=entry.get("apiVersion", API_VERSION),
        )
        for entry in obj["metadata"].get("managedFields", [])
    ]


def with_claims(obj: JSON, claims: list[Claim]) -> JSON:
    """Return an object that says who owns what; who owns nothing is left out."""
    entries = [
        {
            "manager": claim.manager,
            "operation": claim.operation,
            "apiVersion": claim.api_version,
            "time": claim.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encode(claim.paths),
            **({"subresource": claim.subresource} if claim.subresource else {}),
        }
        for claim in claims
        if claim.paths
    ]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def claim_changes(before: JSON | None, after: JSON, claim: Claim) -> JSON:
    """Return `after` with a write's changed fields taken over by its manager.

    Args:
        before: The object as it was; None for a new one.
        after: The object as it shall be.
        claim: The writer, with no paths yet.
    """
    old = leaves(before) if before else {}
    new = leaves(after)
    changed = {path for path, value in new.items() if old.get(path, _MISSING) != value}
    gone = old.keys() - new.keys()
    if not changed and not gone:
        return after
    claims = read_claims(before) if before else []
    own = next((one for one in claims if one.is_of(claim)), claim)
    others = [
        replace(one, paths=one.paths - changed - gone) for one in claims if not one.is_of(claim)
    ]
    taken = replace(claim, paths=(own.paths - gone) | changed)
    return with_claims(after, [*others, taken])


def value_at(obj: JSON, path: Path) -> Any:  # noqa: ANN401 - JSON is any value.
    """Return what stands at a path, None when nothing does."""
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def set_path(obj: JSON, path: Path, value: object) -> None:
    """Put a value at a path, making maps on the way."""
    target = obj
    for part in path[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[path[-1]] = copy.deepcopy(value)


def drop_path(obj: JSON, path: Path) -> None:
    """Remove a leaf, and the maps that become empty by it, but for those at the top."""
    target, trail = obj, []
    for part in path[:-1]:
        if not isinstance(target.get(part), dict):
            return
        trail.append((target, part))
        target = target[part]
    target.pop(path[-1], None)
    for parent, part in reversed(trail[1:]):
        if parent[part]:
            return
        del parent[part]


def _is_systems(path: Path) -> bool:
    """Whether a path is metadata that nobody owns, or metadata that is empty without it."""
    return path[0] == "metadata" and (len(path) == 1 or path[1] in _SYSTEM)


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
        if not key.startswith("f:"):
            continue
        here = (*path, key.removeprefix("f:"))
        if inner:
            yield from _decode(inner, here)
        else:
            yield here
