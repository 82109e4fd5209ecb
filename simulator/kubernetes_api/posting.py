"""What is posted to an object: a pod's binding, a pod's eviction, an account's token.

Source: kubernetes/pkg/registry/core/pod/storage and pkg/registry/core/serviceaccount/storage.
"""

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from simulator.kubernetes_api.admission import Admission
from simulator.kubernetes_api.budgets import (
    budgets_of,
    charged_budget,
    several_budgets,
)
from simulator.kubernetes_api.errors import (
    JSON,
    conflict,
    invalid,
    not_found,
    success,
)
from simulator.kubernetes_api.incoming import (
    Writing,
    posted_object,
    printed_time,
)
from simulator.kubernetes_api.kinds import REQUIRED
from simulator.kubernetes_api.pod_usage import TERMINAL
from simulator.kubernetes_api.removing import Remover
from simulator.kubernetes_api.resources import (
    BUDGETS,
    PODS,
    Resource,
)
from simulator.kubernetes_api.reviews import CREATE, Review
from simulator.kubernetes_api.store import Key, ObjectStore
from simulator.kubernetes_api.users import Directory, service_account

_TOKEN_SECONDS: Final = 3600


class Poster:
    """Answers what is posted to subresources.

    Args:
        store: Where the objects are.
        remover: Ends the pods that are evicted.
        directory: Learns the tokens that are issued.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(
        self,
        store: ObjectStore,
        remover: Remover,
        *,
        directory: Directory,
        clock: Callable[[], datetime],
    ) -> None:
        """Keep what does the work."""
        self._store = store
        self._remover = remover
        self._directory = directory
        self._clock = clock
        self._admission = Admission(store)

    def post(
        self,
        resource: Resource,
        key: Key,
        body: Any,  # noqa: ANN401 - JSON is any value.
        how: Writing,
    ) -> JSON:
        """Return the answer to what is posted to the subresource that `how` names.

        Raises:
            StatusError: 400, 403, 404, 409, 422, 429 or 500, as the real server has them.
        """
        action = {"binding": self._bind, "eviction": self._evict, "token": self._issue}
        return action[how.subresource](resource, key, body, how)

    def _bind(self, resource: Resource, key: Key, body: JSON, how: Writing) -> JSON:
        """Bind a pod to a node, as a scheduler does."""
        posted = posted_object(body, key[1], "Binding")
        node = (posted.get("target") or {}).get("name", "")
        if not node:
            raise invalid("Binding", key[1], [(REQUIRED, "Required value", "target.name")])
        self._review(resource, key, posted, how)
        with self._store.lock:
            pod = self._live(resource, key)
            if pod["spec"].get("nodeName"):
                told = f'pod {key[1]} is already assigned to node "{pod["spec"]["nodeName"]}"'
                raise conflict("pods/binding", key[1], told)
            if "deletionTimestamp" in pod["metadata"]:
                told = f"pod {key[1]} is being deleted, cannot be assigned to a host"
                raise conflict("pods/binding", key[1], told)
            if not how.is_dry_run:
                self._store.put(PODS, key, self._bound(pod, node))
        return success(name=key[1], plural=PODS.plural, uid=pod["metadata"]["uid"])

    def _bound(self, pod: JSON, node: str) -> JSON:
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = node
        others = [
            one for one in bound["status"].get("conditions", []) if one["type"] != "PodScheduled"
        ]
        now = printed_time(self._clock())
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
        bound["status"]["conditions"] = [*others, scheduled]
        return bound

    def _evict(self, resource: Resource, key: Key, body: JSON, how: Writing) -> JSON:
        """End a pod, unless its budget stands against it."""
        posted = posted_object(body, key[1], "Eviction")
        options: JSON = posted.get("deleteOptions") or {}
        is_dry_run = how.is_dry_run or "All" in (options.get("dryRun") or [])
        self._live(resource, key)
        self._review(resource, key, posted, how)
        with self._store.lock:
            pod = self._live(resource, key)
            if not _is_beyond_budgets(pod):
                self._charge(pod, is_dry_run=is_dry_run)
            self._remover.end(resource, key, options, is_dry_run=is_dry_run)
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "code": 201,
        }

    def _charge(self, pod: JSON, *, is_dry_run: bool) -> None:
        found = budgets_of(self._store, pod)
        if len(found) > 1:
            raise several_budgets()
        for key, budget in found:
            charged = charged_budget(budget)
            if not is_dry_run:
                self._store.put(BUDGETS, key, charged)

    def _issue(self, resource: Resource, key: Key, body: JSON, how: Writing) -> JSON:
        """Return a TokenRequest with a token of a ServiceAccount; it is good until the end."""
        posted = posted_object(body, key[1], "TokenRequest")
        self._review(resource, key, posted, how)
        account = self._live(resource, key)
        user = service_account(*key, uid=account["metadata"]["uid"])
        seconds = (posted.get("spec") or {}).get("expirationSeconds", _TOKEN_SECONDS)
        expiry = printed_time(self._clock() + timedelta(seconds=seconds))
        status = {"token": self._directory.issue(user), "expirationTimestamp": expiry}
        return {**posted, "status": status}

    def _review(self, resource: Resource, key: Key, posted: JSON, how: Writing) -> None:
        review = Review(
            operation=CREATE,
            resource=resource,
            namespace=key[0],
            name=key[1],
            obj=posted,
            old=None,
            how=how,
        )
        self._admission.validate(self._admission.mutate(review))

    def _live(self, resource: Resource, key: Key) -> JSON:
        found = self._store.get(resource, key)
        if found is None:
            raise not_found(resource.qualified, key[1])
        return found


def _is_beyond_budgets(pod: JSON) -> bool:
    """Whether a pod is over, has not begun, or is ending already: no budget is about it."""
    is_idle = pod["status"].get("phase") in {*TERMINAL, "Pending"}
    return is_idle or "deletionTimestamp" in pod["metadata"]
