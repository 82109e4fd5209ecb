"""The watch of our ResourceQuotas in a cluster: those that carry our label, in all namespaces."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from quotas.adapters.cluster_calls import JSON, ClusterCalls, ClusterRefusalError, unavailable
from quotas.adapters.quota_objects import MANAGED_BY, NamespaceQuotas
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.drift import (
    ObjectKey,
    QuotaEvent,
    QuotaList,
    QuotaVersionExpiredError,
)
from tenants.domain.errors import SourceUnavailableError

PATH: Final = "/api/v1/resourcequotas"
SELECTOR: Final = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
PAGE_OBJECTS: Final = 500
"""What kubectl asks for as well: some 1 MB of quotas."""
PAGES_MAX: Final = 200
"""100,000 objects; a list that continues after them loops."""
WHAT: Final = "The watch of our quotas"
DELETED: Final = "DELETED"
CHANGES: Final = frozenset({"ADDED", "MODIFIED", DELETED})


class KubernetesQuotaWatch:
    """Lists and watches our quotas. Safe to share between threads."""

    def __init__(self) -> None:
        """Begin without any connection."""
        self._calls = ClusterCalls()

    def list_quotas(self, endpoint: EnforcementEndpoint) -> QuotaList:
        """Return our quotas in a cluster; see `QuotaWatchSource.list_quotas`."""
        objects: dict[ObjectKey, JSON] = {}
        token = ""
        for _ in range(PAGES_MAX):
            page = self._page(endpoint, token)
            objects |= {_key(obj): obj for obj in page["items"]}
            token = page["metadata"].get("continue") or ""
            if not token:
                return _listed(page["metadata"]["resourceVersion"], objects)
        raise _no_list()

    def watch_quotas(
        self, endpoint: EnforcementEndpoint, *, version: str, timeout_seconds: int
    ) -> Iterator[QuotaEvent]:
        """Yield every change after a version; see `QuotaWatchSource.watch_quotas`."""
        query = {
            "labelSelector": SELECTOR,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(timeout_seconds),
        }
        try:
            for event in self._calls.watch(endpoint, f"{PATH}?{urlencode(query)}"):
                yield _event(event)
        except ClusterRefusalError as error:
            raise _refused(error) from error

    def _page(self, endpoint: EnforcementEndpoint, token: str) -> JSON:
        query = {"labelSelector": SELECTOR, "limit": str(PAGE_OBJECTS)}
        if token:
            query["continue"] = token
        try:
            page = self._calls.get(endpoint, f"{PATH}?{urlencode(query)}")
        except ClusterRefusalError as error:
            raise _refused(error) from error
        metadata = page.get("metadata") or {}
        if not isinstance(page.get("items"), list) or not metadata.get("resourceVersion"):
            raise _no_list()
        return page


def _listed(version: str, objects: dict[ObjectKey, JSON]) -> QuotaList:
    by_namespace: dict[str, dict[str, Any]] = {}
    for (namespace, name), obj in objects.items():
        by_namespace.setdefault(namespace, {})[name] = obj
    return QuotaList(
        version=version,
        quotas={
            namespace: NamespaceQuotas(namespace, ours).live()
            for namespace, ours in by_namespace.items()
        },
        states={key: _state(obj) for key, obj in objects.items()},
    )


def _event(event: JSON) -> QuotaEvent:
    """Return an event.

    Raises:
        QuotaVersionExpiredError: The server reports that the version is too old.
        SourceUnavailableError: It reports another error, or what is no event.
    """
    kind, obj = event.get("type"), event.get("object") or {}
    if kind == "ERROR":
        raise _refused(ClusterRefusalError(int(obj.get("code") or 0), obj))
    version = (obj.get("metadata") or {}).get("resourceVersion") or ""
    if kind == "BOOKMARK":
        return QuotaEvent(version)
    if kind not in CHANGES:
        raise SourceUnavailableError(f"{WHAT} has an event of no kind.", reason="bad_answer")
    return QuotaEvent(version, _key(obj), "" if kind == DELETED else _state(obj))


def _key(obj: JSON) -> ObjectKey:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _state(obj: JSON) -> str:
    """Return what an object and its controller say of limits, as text to compare."""
    hard = (obj.get("status") or {}).get("hard")
    return json.dumps([obj.get("spec"), hard], sort_keys=True)


def _refused(error: ClusterRefusalError) -> Exception:
    if error.status == HTTPStatus.GONE:
        return QuotaVersionExpiredError(f"{WHAT} begins at a version that is too old.")
    return unavailable(error, WHAT)


def _no_list() -> SourceUnavailableError:
    return SourceUnavailableError(f"{WHAT} was not answered with a list.", reason="bad_answer")
