"""The audit log of an API server about the pods of `bench.churn`, and what a watch could see."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.churn_load import gpus_of


@dataclass
class AuditedPod:
    """One pod that was created.

    Attributes:
        bound_at: When it got a node; None when it never did.
        gone_at: When it was deleted; None while it is there.
    """

    units: int = 0
    bound_at: datetime | None = None
    gone_at: datetime | None = None


def audited_pods(log: Path, offset: int, namespaces: Collection[str]) -> dict[str, AuditedPod]:
    """Return the created pods of some namespaces by uid.

    Args:
        log: One event a line; requests and responses of pods and bindings.
        offset: Of the first byte that counts.
        namespaces: Others do not count.
    """
    # Events of one pod may come in any order.
    pods: dict[str, AuditedPod] = defaultdict(AuditedPod)
    with log.open("rb") as lines:
        lines.seek(offset)
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            at = event["objectRef"]
            is_done = event.get("responseStatus", {}).get("code") in {200, 201}
            if is_done and at["namespace"] in namespaces and "dryRun" not in event["requestURI"]:
                _note(pods, event, (event["verb"], at.get("subresource", "")))
    return {uid: pod for uid, pod in pods.items() if pod.units}


def _note(pods: dict[str, AuditedPod], event: dict[str, Any], what: tuple[str, str]) -> None:
    moment = datetime.fromisoformat(event["stageTimestamp"])
    shown = event.get("responseObject") or {}
    if what == ("create", ""):
        pods[shown["metadata"]["uid"]].units = gpus_of(shown)
    elif what == ("create", "binding"):
        pods[event["requestObject"]["metadata"]["uid"]].bound_at = moment
    elif what[0] in {"delete", "deletecollection"}:
        for one in shown.get("items", [shown]):
            # A response that is a Status names it in its details.
            uid = one.get("metadata", {}).get("uid") or one.get("details", {}).get("uid")
            pods[str(uid)].gone_at = moment


def was_watched(pod: AuditedPod, spans: Iterable[tuple[datetime, datetime, bool]]) -> bool:
    """Whether the ledger says that it saw some of the time in which a pod was bound.

    Args:
        pod: A bound one.
        spans: From when to when the watch was healthy, and whether it resumed: then it lost nothing
            since the span before. By time.
    """
    before: datetime | None = None
    for begin, until, is_resumed in spans:
        seen_from = before if is_resumed and before is not None else begin
        before = until
        is_after = pod.gone_at is not None and seen_from > pod.gone_at
        if not is_after and pod.bound_at is not None and until >= pod.bound_at:
            return True
    return False
