"""What a cluster's API proves about pods that were admitted and not observed yet.

Every read is consistent: without a resourceVersion the API server asks etcd. What cannot be read
proves nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from quotas.adapters.cluster_calls import JSON, ClusterCalls, ClusterRefusalError, unavailable
from quotas.domain.admission.webhook_configuration import configuration_name, selected_namespaces
from quotas.protocols import EnforcementEndpoint
from tenants.domain.errors import SourceUnavailableError

CONTROLLER_PATHS: Final = {
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets/{}",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers/{}",
    "Job": "/apis/batch/v1/namespaces/{}/jobs/{}",
}
"""Controllers whose pods have drawn names, and that never want more than a number they name."""
POD_PATH: Final = "/api/v1/namespaces/{}/pods/{}"
WEBHOOKS_PATH: Final = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?limit=500"
)
WEBHOOK_SECONDS_DEFAULT: Final = 10
"""`timeoutSeconds` of a webhook that names none."""
POD_LISTS: Final = {"PodList", "PartialObjectMetadataList"}
PAGES_MAX: Final = 4
"""A controller or namespace with more than 2,000 pods is not read: everything counts then."""


class TooManyPodsError(Exception):
    """Raised where a list is longer than is read."""


@dataclass(frozen=True)
class PodsOfController:
    """Pods of one controller.

    Attributes:
        lacking: How many it still has to create.
        present: Uids of those that exist, whatever their state.
    """

    lacking: int
    present: frozenset[str]


class PodProofs:
    """Reads pods and their controllers. Safe to share between threads."""

    def __init__(self, calls: ClusterCalls) -> None:
        """Read over these connections."""
        self._calls = calls

    def find_pod_uid(self, endpoint: EnforcementEndpoint, namespace: str, name: str) -> str:
        """Return the uid of the pod of a name; "" when there is none.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
        """
        pod = self._find(endpoint, _place(POD_PATH, namespace, name))
        return "" if pod is None else str(pod["metadata"]["uid"])

    def find_pod_uids(self, endpoint: EnforcementEndpoint, namespace: str) -> dict[str, str] | None:
        """Return the uids of a namespace's pods by name, at one time; None if they are too many.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
        """
        try:
            pods = list(self._pods(endpoint, namespace, {}, has_only_metadata=True))
        except TooManyPodsError:
            return None
        return {pod["metadata"]["name"]: str(pod["metadata"]["uid"]) for pod in pods}

    def find_lacking(
        self, endpoint: EnforcementEndpoint, namespace: str, controller: str
    ) -> PodsOfController | None:
        """Return what a controller lacks; None if it is not read, is gone, or has too many pods.

        Its number is read before and after its pods, and the greater one holds: a controller that
        was scaled up meanwhile lacks the new pods beside the old.

        Args:
            endpoint: Which cluster.
            namespace: Of the controller.
            controller: As "Kind/name".

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
        """
        kind, _, name = controller.partition("/")
        if kind not in CONTROLLER_PATHS:
            return None
        path = _place(CONTROLLER_PATHS[kind], namespace, name)
        before = self._find(endpoint, path)
        if before is None:
            return None
        try:
            pods = list(self._pods(endpoint, namespace, _labels(before)))
        except TooManyPodsError:
            return None
        own = [pod for pod in pods if _controller_uid(pod) == before["metadata"]["uid"]]
        after = self._find(endpoint, path)
        if after is None or after["metadata"]["uid"] != before["metadata"]["uid"]:
            return None
        wanted = max(_wanted(before), _wanted(after))
        return PodsOfController(
            lacking=max(0, wanted - sum(map(_is_active, own))),
            present=frozenset(str(pod["metadata"]["uid"]) for pod in own),
        )

    def read_webhook_seconds(self, endpoint: EnforcementEndpoint) -> int:
        """Return the longest `timeoutSeconds` of the cluster's validating webhooks; 0 without any.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
        """
        listed = self._read(endpoint, WEBHOOKS_PATH)
        return max(
            (
                int(webhook.get("timeoutSeconds") or WEBHOOK_SECONDS_DEFAULT)
                for one in listed.get("items") or ()
                for webhook in one.get("webhooks") or ()
            ),
            default=0,
        )

    def read_selected(self, endpoint: EnforcementEndpoint) -> frozenset[str] | None:
        """Return the namespaces that our applied configuration reviews; None where it names none.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
        """
        name = configuration_name(endpoint.slug)
        for one in self._read(endpoint, WEBHOOKS_PATH).get("items") or ():
            if one["metadata"]["name"] == name:
                return selected_namespaces(one)
        return None

    def _pods(
        self,
        endpoint: EnforcementEndpoint,
        namespace: str,
        labels: dict[str, str],
        *,
        has_only_metadata: bool = False,
    ) -> Iterator[Any]:
        query = {"limit": "500", "labelSelector": ",".join(f"{k}={v}" for k, v in labels.items())}
        for _ in range(PAGES_MAX):
            path = f"/api/v1/namespaces/{quote(namespace)}/pods?{urlencode(query)}"
            page = self._read(endpoint, path, has_only_metadata=has_only_metadata)
            if page.get("kind") not in POD_LISTS:
                raise SourceUnavailableError("This is no list of pods.", reason="bad_answer")
            yield from page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            query["continue"] = following
        raise TooManyPodsError

    def _find(self, endpoint: EnforcementEndpoint, path: str) -> JSON | None:
        """Return an object; None only when the API server itself says that there is none."""
        try:
            return self._calls.get(endpoint, path)
        except ClusterRefusalError as error:
            is_gone = error.document.get("reason") == "NotFound" and error.document.get("details")
            if error.status == HTTPStatus.NOT_FOUND and is_gone:
                return None
            raise unavailable(error, path) from error

    def _read(
        self, endpoint: EnforcementEndpoint, path: str, *, has_only_metadata: bool = False
    ) -> JSON:
        try:
            return self._calls.get(endpoint, path, has_only_metadata=has_only_metadata)
        except ClusterRefusalError as error:
            raise unavailable(error, path.partition("?")[0]) from error


def _place(path: str, namespace: str, name: str) -> str:
    return path.format(quote(namespace, safe=""), quote(name, safe=""))


def _labels(controller: JSON) -> dict[str, str]:
    """Return labels that every pod of a controller has; the owner's uid decides."""
    selector = controller["spec"].get("selector") or {}
    labels: dict[str, str] = selector.get("matchLabels") or {}
    if controller.get("kind") == "ReplicationController":
        return dict(selector)
    return labels


def _wanted(controller: JSON) -> int:
    spec = controller["spec"]
    number = spec.get("parallelism", spec.get("replicas"))
    return 1 if number is None else int(number)


def _controller_uid(pod: JSON) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


def _is_active(pod: JSON) -> bool:
    """Whether its controller counts it: a pod that ends or has ended is created anew."""
    is_over = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    return not is_over and not pod["metadata"].get("deletionTimestamp")
