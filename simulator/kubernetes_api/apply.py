"""Server-side apply: the intent of one manager merged into the live object.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and KEP-555.
"""

import copy
from dataclasses import replace
from typing import Any

from simulator.kubernetes_api.errors import (
    JSON,
    apply_conflict,
)
from simulator.kubernetes_api.fields import (
    APPLY,
    Claim,
    Path,
    drop_path,
    leaves,
    printed_path,
    read_claims,
    set_path,
    value_at,
    with_claims,
)
from simulator.kubernetes_api.resources import API_VERSION


def apply_intent(
    live: JSON,
    intent: JSON,
    *,
    manager: str,
    time: str,
    is_forced: bool,
    api_version: str = API_VERSION,
) -> JSON:
    """Return the live object with a manager's whole intent merged into it.

    What the manager applied before and does not send any more is removed, unless somebody else
    owns it too.

    Args:
        live: The object as it is; with metadata alone for one that is to be created.
        intent: The whole intent.
        manager: Who applies.
        time: Now, as Kubernetes prints it.
        is_forced: Whether other managers' fields are taken over.
        api_version: In which the intent is written.

    Raises:
        StatusError: 409 that names the managers who own what would change.
    """
    wanted = leaves(intent)
    claims = read_claims(live)
    mine = Claim(
        manager=manager,
        operation=APPLY,
        time=time,
        paths=frozenset(wanted),
        api_version=api_version,
    )
    before = next((one for one in claims if one.is_of(mine)), None)
    others = [one for one in claims if not one.is_of(mine)]
    contested = _contested(live, wanted, others)
    if contested and not is_forced:
        raise apply_conflict((claim.printed(), printed_path(path)) for claim, path in contested)
    lost = {path for _, path in contested}
    others = [replace(one, paths=one.paths - lost) for one in others]
    merged = copy.deepcopy(live)
    kept = {*wanted, *(path for one in others for path in one.paths)}
    for path in before.paths if before else ():
        # An empty map that was applied once stays while anybody has something in it.
        if not any(other[: len(path)] == path for other in kept):
            drop_path(merged, path)
    for path, value in wanted.items():
        if not _is_there(merged, path, value):
            set_path(merged, path, value)
    if before is not None and before.paths == mine.paths and leaves(merged) == leaves(live):
        return live
    return with_claims(merged, [*others, mine])


def _contested(
    live: JSON, wanted: dict[Path, Any], others: list[Claim]
) -> list[tuple[Claim, Path]]:
    """Return what others own and would change, by path."""
    return [
        (claim, path)
        for path, value in sorted(wanted.items())
        for claim in others
        if path in claim.paths and not _is_there(live, path, value)
    ]


def _is_there(obj: JSON, path: Path, value: object) -> bool:
    """Whether a value stands at a path already; an empty map asks only that there be a map."""
    found = value_at(obj, path)
    return isinstance(found, dict) if value == {} else found == value
