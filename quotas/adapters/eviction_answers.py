"""Evictions on the wire: what is sent, and what each refusal of a server means."""

import json
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from quotas.protocols.workloads import EvictionAnswer, EvictionOutcome, WorkloadReference
from tenants.domain.errors import SourceUnavailableError

RETRY_AFTER_SECONDS_MAX: Final = 3_600
SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
"""What a server says of a pod that several budgets match; it says so with a 500."""


def eviction_of(
    pod: WorkloadReference, *, version: str, grace_seconds: int | None, is_dry_run: bool
) -> dict[str, Any]:
    """Return the body that asks for an eviction of the pod with that uid, and no other."""
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
    """Return how long the server asks to wait; None when it does not say it in whole seconds."""
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
