"""The Kubernetes enforcer: one ResourceQuota per namespace, wholly ours, by server-side apply.

The object carries our generation as an annotation. Applying refuses to go back behind a newer one,
sends the resource version it has read, so that two workers cannot overwrite one another unseen,
and never forces: what another manager owns is reported with that manager's name.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, TypeVar

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.utils.quantity import parse_quantity

from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
    QuotaConflictError,
    StaleGenerationError,
)
from tenants.adapters.kubernetes_credentials import configuration_of
from tenants.domain.errors import SourceUnavailableError

OBJECT_NAME: Final = "gpu-ledger"
FIELD_MANAGER: Final = "gpu-ledger"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "gpu-ledger"}
GENERATION: Final = "gpu-ledger.io/generation"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Without it the same call silently becomes a strategic merge patch."""
TIMEOUT_SECONDS: Final = (5, 10)
"""To connect, and to read."""
APPLY_TRIES: Final = 3
"""How often to read and apply again when somebody wrote in between."""
READ_TRIES: Final = 15
READ_EVERY_SECONDS: Final = 0.2
"""Together 3 s: the quota controller of a real cluster took up to 1.3 s to fill a status."""

_MANAGER = re.compile(r'conflict with "([^"]+)"')
Answer = TypeVar("Answer")


class KubernetesQuotaEnforcer:
    """Writes quotas through the official client. Safe to share between threads."""

    def __init__(
        self, *, read_tries: int = READ_TRIES, read_every_seconds: float = READ_EVERY_SECONDS
    ) -> None:
        """Set how patiently a status is read back."""
        self._read_tries = read_tries
        self._read_every_seconds = read_every_seconds
        self._apis: dict[EnforcementEndpoint, client.CoreV1Api] = {}
        self._lock = Lock()

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Make a namespace's quota say what is desired; see `QuotaEnforcer.apply`."""
        for _ in range(APPLY_TRIES):
            current = self._find(endpoint, desired.namespace)
            _refuse_stale(current, desired)
            if self._patch(endpoint, desired, version=_version_of(current)):
                return self._read_back(endpoint, desired)
        raise SourceUnavailableError(
            f"The quota of {desired.namespace} was changed while it was applied.", reason="busy"
        )

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return what a namespace's quota says; see `QuotaEnforcer.read`."""
        return _live_of(namespace, self._find(endpoint, namespace))

    def _read_back(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Read until the status has caught up, or the tries are used up.

        Raises:
            StaleGenerationError: Somebody has applied a newer generation since.
        """
        for tries_left in reversed(range(self._read_tries)):
            quota = self._find(endpoint, desired.namespace)
            _refuse_stale(quota, desired)
            live = _live_of(desired.namespace, quota)
            has_arrived = all(live.hard.get(key) == units for key, units in desired.hard.items())
            if has_arrived or not tries_left:
                break
            time.sleep(self._read_every_seconds)
        return live

    def _find(self, endpoint: EnforcementEndpoint, namespace: str) -> client.V1ResourceQuota | None:
        try:
            return self._call(
                endpoint,
                lambda api: api.read_namespaced_resource_quota(
                    OBJECT_NAME, namespace, _request_timeout=TIMEOUT_SECONDS
                ),
            )
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise _unavailable(error, namespace) from error

    def _patch(
        self, endpoint: EnforcementEndpoint, desired: DesiredQuota, *, version: str | None
    ) -> bool:
        """Apply, and return whether it went through; False when it was changed in between."""
        try:
            self._call(
                endpoint,
                lambda api: api.patch_namespaced_resource_quota(
                    OBJECT_NAME,
                    desired.namespace,
                    _body_of(desired, version=version),
                    field_manager=FIELD_MANAGER,
                    force=False,
                    _content_type=APPLY_PATCH,
                    _request_timeout=TIMEOUT_SECONDS,
                ),
            )
        except ApiException as error:
            if error.status == HTTPStatus.CONFLICT:
                _refuse_conflict(error, desired.namespace)
                return False
            raise _unavailable(error, desired.namespace) from error
        return True

    def _call(
        self, endpoint: EnforcementEndpoint, ask: Callable[[client.CoreV1Api], Answer]
    ) -> Answer:
        """Ask, and turn everything that is no answer into SourceUnavailableError."""
        try:
            return ask(self._api(endpoint))
        except ApiException as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                # The next attempt reads the credentials again, in case they were rotated.
                self._forget(endpoint)
            raise
        except urllib3.exceptions.HTTPError as error:
            raise _unanswered(error, endpoint.slug) from error

    def _api(self, endpoint: EnforcementEndpoint) -> client.CoreV1Api:
        with self._lock:
            if endpoint not in self._apis:
                configuration = configuration_of(
                    slug=endpoint.slug,
                    url=endpoint.kubernetes_url,
                    reference=endpoint.credential_reference,
                )
                api_client = client.ApiClient(configuration)
                self._apis[endpoint] = client.CoreV1Api(api_client)
            return self._apis[endpoint]

    def _forget(self, endpoint: EnforcementEndpoint) -> None:
        with self._lock:
            self._apis.pop(endpoint, None)


def _body_of(desired: DesiredQuota, *, version: str | None) -> dict[str, Any]:
    """Return the whole intent: a key that is not sent any more is removed."""
    metadata: dict[str, Any] = {
        "name": OBJECT_NAME,
        "namespace": desired.namespace,
        "labels": MANAGED_BY,
        "annotations": {GENERATION: str(desired.generation)},
    }
    if version is not None:
        metadata["resourceVersion"] = version
    hard = {key: str(units) for key, units in desired.hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": hard},
    }


def _version_of(quota: client.V1ResourceQuota | None) -> str | None:
    metadata = None if quota is None else quota.metadata
    return None if metadata is None else metadata.resource_version


def _generation_of(quota: client.V1ResourceQuota | None) -> int:
    """Return the generation stamped on an object; 0 when it is not there or not ours."""
    metadata = None if quota is None else quota.metadata
    annotations = (None if metadata is None else metadata.annotations) or {}
    text = annotations.get(GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _refuse_stale(quota: client.V1ResourceQuota | None, desired: DesiredQuota) -> None:
    generation = _generation_of(quota)
    if generation > desired.generation:
        raise StaleGenerationError(
            f"The cluster has generation {generation}, newer than {desired.generation}.",
            generation=generation,
        )


def _refuse_conflict(error: ApiException, namespace: str) -> None:
    """Refuse when another manager owns a field; a mere change in between names nobody."""
    causes = (_document(error).get("details") or {}).get("causes") or []
    managers = {
        name
        for cause in causes
        if cause.get("reason") == "FieldManagerConflict"
        for name in _MANAGER.findall(cause.get("message", ""))
    }
    if managers:
        names = tuple(sorted(managers))
        raise QuotaConflictError(
            f"The quota of {namespace} is also managed by {', '.join(names)}.", managers=names
        ) from error


def _live_of(namespace: str, quota: client.V1ResourceQuota | None) -> LiveQuota:
    status = None if quota is None else quota.status
    return LiveQuota(
        namespace=namespace,
        hard=_units_of((status and status.hard) or {}),
        used=_units_of((status and status.used) or {}),
        generation=_generation_of(quota),
    )


def _units_of(quantities: Mapping[str, str]) -> dict[str, int]:
    """Return the extended resources of a status in whole units; "1k" is how 1000 comes back."""
    units = {}
    for key, text in sorted(quantities.items()):
        if not key.startswith("requests.") or "/" not in key:
            continue
        quantity = Decimal(parse_quantity(text))  # type: ignore[no-untyped-call]
        if quantity != int(quantity):
            raise SourceUnavailableError(f"{key} is {text}, no whole number.", reason="bad_answer")
        units[key] = int(quantity)
    return units


_REASONS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "namespace_missing",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


def _unanswered(error: urllib3.exceptions.HTTPError, slug: str) -> SourceUnavailableError:
    """Return what it means that nothing came back; a refused connection is no timeout."""
    is_refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not is_refused:
        return SourceUnavailableError(f"Cluster {slug} did not answer in time.", reason="timeout")
    return SourceUnavailableError(f"Cluster {slug} cannot be reached.", reason="unreachable")


def _unavailable(error: ApiException, namespace: str) -> SourceUnavailableError:
    status = int(error.status or 0)
    fallback = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"
    sentence = _document(error).get("message") or error.reason or "no reason given"
    return SourceUnavailableError(
        f"The quota of {namespace} was answered with {status}: {sentence}",
        reason=_REASONS.get(status, fallback),
    )


def _document(error: ApiException) -> dict[str, Any]:
    """Return the Status object of a refusal; empty when a proxy answered in its stead."""
    try:
        document = json.loads(error.body or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
