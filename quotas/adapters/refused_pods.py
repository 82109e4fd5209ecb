"""Reads which workloads of a cluster lack pods because one of our ResourceQuotas refused them."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from quotas.adapters.cluster_calls import JSON, ClusterCalls, ClusterRefusalError, unavailable
from quotas.adapters.pod_proofs import CONTROLLER_PATHS
from quotas.domain.enforcement.refused_pods import RefusedWorkload, find_refusal, lacking_pods
from quotas.protocols import EnforcementEndpoint
from tenants.domain.errors import SourceUnavailableError

PATHS: Final = {
    **CONTROLLER_PATHS,
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
}
"""Controllers that are read, to know whether they still lack pods."""
EVENTS_PATH: Final = "/api/v1/events"
PAGES_MAX: Final = 20
"""10,000 refused creations of pods; an API server keeps events for an hour."""
WORKLOADS_MAX: Final = 50
"""Read of one cluster at a time, the longest refused first."""
SECONDS_MAX: Final = 20
"""No read of a cluster begins later: the plans of all organizations wait for it."""
Read = Callable[[str], JSON]


def find_refused(
    calls: ClusterCalls, endpoint: EnforcementEndpoint, *, since: datetime
) -> tuple[RefusedWorkload, ...]:
    """Return the workloads that lack pods, the longest refused first.

    Args:
        calls: Connections.
        endpoint: Which cluster.
        since: Those whose last refusal is older are left out, UTC.

    Raises:
        SourceUnavailableError: The cluster did not answer, refused, or is too slow.
    """
    end = time.monotonic() + SECONDS_MAX

    def read(path: str) -> JSON:
        if time.monotonic() > end:
            raise SourceUnavailableError(
                f"Cluster {endpoint.slug} takes too long to answer.", reason="timeout"
            )
        return calls.get(endpoint, path)

    newest: dict[str, JSON] = {}
    for event in _events(read):
        uid = str((event.get("involvedObject") or {}).get("uid"))
        if uid not in newest or _last_at(newest[uid]) < _last_at(event):
            newest[uid] = event
    current = [event for event in newest.values() if _last_at(event) >= since]
    refused = _refused(sorted(current, key=_first_at))
    return tuple(_lacking(read, refused))


def _refused(events: Iterable[JSON]) -> list[tuple[JSON, RefusedWorkload]]:
    """Return the objects of events that name our quotas, with what they asked for."""
    found = []
    for event in events:
        refusal, about = find_refusal(str(event.get("message"))), event["involvedObject"]
        if refusal is not None and about.get("kind") in PATHS:
            workload = RefusedWorkload(
                namespace=str(about.get("namespace")),
                workload=f"{about['kind']}/{about.get('name')}",
                requested=refusal.requested,
                pods=1,
                asked_at=_first_at(event),
                is_burst=refusal.is_burst,
            )
            found.append((about, workload))
    return found[:WORKLOADS_MAX]


def _lacking(
    read: Read, refused: Iterable[tuple[JSON, RefusedWorkload]]
) -> Iterator[RefusedWorkload]:
    """Yield those that still lack pods, by their own status."""
    for about, workload in refused:
        path = PATHS[about["kind"]].format(
            quote(workload.namespace, safe=""), quote(str(about["name"]), safe="")
        )
        controller = _find(read, path)
        if controller is not None and controller["metadata"].get("uid") == about.get("uid"):
            pods = lacking_pods(about["kind"], controller)
            if pods:
                yield RefusedWorkload(**{**vars(workload), "pods": pods})


def _events(read: Read) -> Iterator[JSON]:
    query = {"fieldSelector": "reason=FailedCreate", "limit": "500"}
    for _ in range(PAGES_MAX):
        try:
            page = read(f"{EVENTS_PATH}?{urlencode(query)}")
        except ClusterRefusalError as error:
            raise unavailable(error, EVENTS_PATH) from error
        yield from page.get("items") or ()
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return
        query["continue"] = following


def _find(read: Read, path: str) -> JSON | None:
    try:
        return read(path)
    except ClusterRefusalError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise unavailable(error, path) from error


def _last_at(event: JSON) -> datetime:
    series: dict[str, Any] = event.get("series") or {}
    return _time(
        event, series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")
    )


def _first_at(event: JSON) -> datetime:
    return _time(event, event.get("firstTimestamp"), event.get("eventTime"))


def _time(event: JSON, *times: str | None) -> datetime:
    """Return the first time that is there; the event's own creation otherwise.

    Raises:
        SourceUnavailableError: It is none.
    """
    text = next((one for one in times if one), event["metadata"].get("creationTimestamp"))
    try:
        return datetime.fromisoformat(str(text))
    except ValueError as error:
        raise SourceUnavailableError("An event has no time.", reason="bad_answer") from error
