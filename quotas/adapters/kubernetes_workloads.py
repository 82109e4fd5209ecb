"""The Kubernetes evictor: Jobs are suspended and pods evicted; what each refusal means.

Which version of Eviction a server takes, and whether it can suspend Jobs, is read from the server:
policy/v1 is newer than Kubernetes 1.21, and `spec.suspend` newer than 1.20.
Source: Kubernetes, "API-initiated Eviction"; reference of metering, "Lowering and preemption".
"""

import json
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, TypeVar

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from quotas.adapters.cluster_calls import unsendable
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import (
    EvictionAnswer,
    EvictionOutcome,
    JobOfPod,
    WorkloadReference,
)
from tenants.adapters.kubernetes_credentials import configuration_of, guarded_client
from tenants.domain.errors import SourceUnavailableError

RETRY_AFTER_SECONDS_MAX: Final = 3_600
SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
"""Text of the API server's 500 response for a pod with several budgets."""


def eviction_of(
    pod: WorkloadReference, *, version: str, grace_seconds: int | None, is_dry_run: bool
) -> dict[str, Any]:
    """Return the Eviction of the pod with that uid."""
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if is_dry_run:
        options["dryRun"] = ["All"]
    return {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }


def answer_of(error: ApiException, pod: WorkloadReference) -> EvictionAnswer:
    """Return what a refusal means; what is no answer about the pod is raised."""
    sentence = _sentence(error)
    if error.status == HTTPStatus.NOT_FOUND:
        return EvictionAnswer(EvictionOutcome.GONE, message=sentence)
    if error.status == HTTPStatus.CONFLICT and "UID" in sentence:
        return EvictionAnswer(EvictionOutcome.CHANGED, message=sentence)
    if error.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT}:
        return EvictionAnswer(EvictionOutcome.BLOCKED, _retry_after(error), sentence)
    if error.status == HTTPStatus.INTERNAL_SERVER_ERROR and SEVERAL_BUDGETS in sentence:
        return EvictionAnswer(EvictionOutcome.MISCONFIGURED, message=sentence)
    raise unavailable(error, f"Pod {pod.namespace}/{pod.name}") from error


def _retry_after(error: ApiException) -> timedelta | None:
    """Return the server's Retry-After; None unless in whole seconds."""
    headers = error.headers or {}
    text = str(headers.get("Retry-After", "")).strip()
    if not (text.isascii() and text.isdigit()):
        return None
    return timedelta(seconds=min(int(text), RETRY_AFTER_SECONDS_MAX))


_REASONS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


def unavailable(error: ApiException, what: str) -> SourceUnavailableError:
    """Return what it means that a question was refused."""
    status = int(error.status or 0)
    fallback = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"
    return SourceUnavailableError(
        f"{what} was answered with {status}: {_sentence(error)}",
        reason=_REASONS.get(status, fallback),
    )


def _sentence(error: ApiException) -> str:
    """Return the sentence of a refusal, also when a proxy gave it."""
    try:
        document = json.loads(error.body or "{}")
    except ValueError:
        document = {}
    found = document.get("message") if isinstance(document, dict) else None
    return str(found or error.reason or "no reason given")


TIMEOUT_SECONDS: Final = (5, 10)
"""To connect, and to read."""
PATCH_TRIES: Final = 3
"""How often a Job is read and patched again after a write conflict."""
MERGE_PATCH: Final = "application/merge-patch+json"
EVICTION: Final = "pods/eviction"
PODS_PER_PAGE: Final = 500
"""The page size of kubectl."""
PAGES_MAX: Final = 200
"""An Indexed Job has at most 100,000 completions."""
_ENDED: Final = frozenset({"Complete", "Failed"})
Answer = TypeVar("Answer")


class KubernetesWorkloadEvictor:
    """Ends workloads through the official client. Safe to share between threads."""

    def __init__(self) -> None:
        """Begin without any connection."""
        self._clients: dict[EnforcementEndpoint, client.ApiClient] = {}
        self._versions: dict[EnforcementEndpoint, str] = {}
        self._lock = Lock()

    def suspend_job(
        self, endpoint: EnforcementEndpoint, job: WorkloadReference, *, is_dry_run: bool
    ) -> EvictionAnswer:
        """Set `spec.suspend` of a Job; see `WorkloadEvictor.suspend_job`."""
        return self._switch_job(endpoint, job, is_suspended=True, is_dry_run=is_dry_run)

    def resume_job(self, endpoint: EnforcementEndpoint, job: WorkloadReference) -> EvictionAnswer:
        """Take `spec.suspend` of a Job back; see `WorkloadEvictor.resume_job`."""
        return self._switch_job(endpoint, job, is_suspended=False, is_dry_run=False)

    def find_job(
        self, endpoint: EnforcementEndpoint, *, namespace: str, name: str
    ) -> JobOfPod | None:
        """Return a Job by name; see `WorkloadEvictor.find_job`."""
        job = self._read_job(endpoint, namespace=namespace, name=name)
        if job is None:
            return None
        return JobOfPod(
            reference=WorkloadReference("Job", namespace, name, str(job.metadata.uid)),
            is_suspended=bool(job.spec.suspend),
            can_be_suspended=job.spec.suspend is not None and not _has_ended(job),
            pod_uids=self._pods_of(endpoint, job),
        )

    def evict_pod(
        self,
        endpoint: EnforcementEndpoint,
        pod: WorkloadReference,
        *,
        grace_seconds: int | None,
        is_dry_run: bool,
    ) -> EvictionAnswer:
        """Evict one pod; see `WorkloadEvictor.evict_pod`."""
        body = eviction_of(
            pod,
            version=self._eviction_version(endpoint),
            grace_seconds=grace_seconds,
            is_dry_run=is_dry_run,
        )
        try:
            self._call(
                endpoint,
                lambda made: client.CoreV1Api(made).create_namespaced_pod_eviction(
                    pod.name,
                    pod.namespace,
                    body,  # type: ignore[arg-type] # The version is the server's own.
                    _preload_content=False,
                    _request_timeout=TIMEOUT_SECONDS,
                ),
            )
        except ApiException as error:
            return answer_of(error, pod)
        return _taken(is_dry_run=is_dry_run)

    def _switch_job(
        self,
        endpoint: EnforcementEndpoint,
        job: WorkloadReference,
        *,
        is_suspended: bool,
        is_dry_run: bool,
    ) -> EvictionAnswer:
        for _ in range(PATCH_TRIES):
            found = self._read_job(endpoint, namespace=job.namespace, name=job.name)
            settled = _settled(found, job, is_suspended=is_suspended, is_dry_run=is_dry_run)
            if settled is not None:
                return settled
            patch = {
                # With its version, so that nothing is done to a Job that changed since.
                "metadata": {"resourceVersion": found.metadata.resource_version},
                "spec": {"suspend": is_suspended},
            }
            if self._patch_job(endpoint, job, patch, is_dry_run=is_dry_run):
                return _taken(is_dry_run=is_dry_run)
        raise SourceUnavailableError(
            f"Job {job.namespace}/{job.name} was changed while it was switched.", reason="busy"
        )

    def _read_job(self, endpoint: EnforcementEndpoint, *, namespace: str, name: str) -> Any:  # noqa: ANN401 - The client is untyped here.
        """Return a Job; None when there is none."""
        try:
            return self._call(
                endpoint,
                lambda made: client.BatchV1Api(made).read_namespaced_job(
                    name, namespace, _request_timeout=TIMEOUT_SECONDS
                ),
            )
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise unavailable(error, f"Job {namespace}/{name}") from error

    def _pods_of(self, endpoint: EnforcementEndpoint, job: Any) -> frozenset[str]:  # noqa: ANN401 - The client is untyped here.
        """Return the uids of the pods that name this Job, by its uid, as their controller."""
        labels = job.spec.selector.match_labels or {}
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        found: set[str] = set()
        following = ""
        for _ in range(PAGES_MAX):
            page = self._list_pods(endpoint, job.metadata.namespace, selector, following)
            found.update(one.metadata.uid for one in page.items if _is_controlled(one, job))
            following = page.metadata._continue or ""  # noqa: SLF001 - So the client names it.
            if not following:
                return frozenset(found)
        raise SourceUnavailableError(
            f"Job {job.metadata.namespace}/{job.metadata.name} has too many pods.", reason="refused"
        )

    def _list_pods(
        self, endpoint: EnforcementEndpoint, namespace: str, selector: str, following: str
    ) -> Any:  # noqa: ANN401 - The client is untyped here.
        """Return one page of the pods a selector picks; "" begins with the first."""
        # The server refuses an empty token, so none is sent for the first page.
        more: dict[str, Any] = {"_continue": following} if following else {}
        try:
            return self._call(
                endpoint,
                lambda made: client.CoreV1Api(made).list_namespaced_pod(
                    namespace,
                    label_selector=selector,
                    limit=PODS_PER_PAGE,
                    _request_timeout=TIMEOUT_SECONDS,
                    **more,
                ),
            )
        except ApiException as error:
            raise unavailable(error, f"The list of pods in {namespace}") from error

    def _patch_job(
        self,
        endpoint: EnforcementEndpoint,
        job: WorkloadReference,
        patch: dict[str, Any],
        *,
        is_dry_run: bool,
    ) -> bool:
        """Patch, and return whether it went through; False when it was changed or deleted."""
        options: dict[str, Any] = {"dry_run": "All"} if is_dry_run else {}
        try:
            self._call(
                endpoint,
                lambda made: client.BatchV1Api(made).patch_namespaced_job(
                    job.name,
                    job.namespace,
                    patch,
                    _content_type=MERGE_PATCH,
                    _request_timeout=TIMEOUT_SECONDS,
                    **options,
                ),
            )
        except ApiException as error:
            if error.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                return False
            raise unavailable(error, f"Job {job.namespace}/{job.name}") from error
        return True

    def _eviction_version(self, endpoint: EnforcementEndpoint) -> str:
        """Return the version of Eviction a server takes, such as "policy/v1"; requested once."""
        with self._lock:
            known = self._versions.get(endpoint)
        if known is not None:
            return known
        try:
            listed = self._call(
                endpoint,
                lambda made: client.CoreV1Api(made).get_api_resources(
                    _request_timeout=TIMEOUT_SECONDS
                ),
            )
        except ApiException as error:
            raise unavailable(error, "The list of resources") from error
        served = [one for one in listed.resources if one.name == EVICTION]
        if not served:
            raise SourceUnavailableError(
                f"Cluster {endpoint.slug} serves no evictions.", reason="no_eviction"
            )
        version = f"{served[0].group}/{served[0].version}"
        with self._lock:
            self._versions[endpoint] = version
        return version

    def _call(
        self, endpoint: EnforcementEndpoint, ask: Callable[[client.ApiClient], Answer]
    ) -> Answer:
        """Send a request; raise SourceUnavailableError when no response arrives."""
        try:
            return ask(self._client(endpoint))
        except ApiException as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                # The next attempt reads the credentials again, in case they were rotated.
                with self._lock:
                    self._clients.pop(endpoint, None)
            raise
        except urllib3.exceptions.HTTPError as error:
            raise SourceUnavailableError(
                f"Cluster {endpoint.slug} did not answer.", reason="unreachable"
            ) from error
        except ValueError:
            raise unsendable(endpoint.slug) from None  # The cause may show the token.

    def _client(self, endpoint: EnforcementEndpoint) -> client.ApiClient:
        with self._lock:
            if endpoint not in self._clients:
                configuration = configuration_of(
                    slug=endpoint.slug,
                    url=endpoint.kubernetes_url,
                    reference=endpoint.credential_reference,
                )
                # What is asked again is decided by the plan, which keeps count of it.
                configuration.retries = urllib3.Retry(0)
                self._clients[endpoint] = guarded_client(configuration)
            return self._clients[endpoint]


def _taken(*, is_dry_run: bool) -> EvictionAnswer:
    return EvictionAnswer(EvictionOutcome.WOULD_START if is_dry_run else EvictionOutcome.STARTED)


def _is_controlled(pod: Any, job: Any) -> bool:  # noqa: ANN401 - The client is untyped here.
    owners = pod.metadata.owner_references or []
    return any(one.controller and one.uid == job.metadata.uid for one in owners)


def _has_ended(job: Any) -> bool:  # noqa: ANN401 - The client is untyped here.
    conditions = (job.status and job.status.conditions) or []
    return any(one.type in _ENDED and one.status == "True" for one in conditions)


def _settled(
    found: Any,  # noqa: ANN401 - The client is untyped here.
    job: WorkloadReference,
    *,
    is_suspended: bool,
    is_dry_run: bool,
) -> EvictionAnswer | None:
    """Return the answer when there is nothing to switch; None when there is."""
    if found is None or _has_ended(found):
        return EvictionAnswer(EvictionOutcome.GONE)
    if found.metadata.uid != job.uid:
        return EvictionAnswer(
            EvictionOutcome.CHANGED, message=f"Job {job.name} was made anew since."
        )
    if bool(found.spec.suspend) is is_suspended:
        return _taken(is_dry_run=is_dry_run)
    return None
