"""The webhooks' part of admission: mutating ones in order, then validating ones.

Source: kubernetes/apiserver, pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from simulator.kubernetes_api.calling import (
    CallError,
    Verdict,
    call_webhook,
)
from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    internal_error,
)
from simulator.kubernetes_api.matching import concerns
from simulator.kubernetes_api.patches import json_patch
from simulator.kubernetes_api.resources import (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from simulator.kubernetes_api.reviews import Review
from simulator.kubernetes_api.store import ObjectStore

_UNTOLD: Final = "without explanation"


class Admission:
    """Asks the webhooks that are configured. Hold no lock of the store around it."""

    def __init__(self, store: ObjectStore) -> None:
        """Keep the store, where the configurations are."""
        self._store = store

    def mutate(self, review: Review) -> Review:
        """Return a write as the mutating webhooks want it, in the order of their names.

        A webhook that wants to be reinvoked is asked again when a later one changed the object.

        Raises:
            StatusError: A refusal, or 500 for a webhook that cannot be asked.
        """
        last_seen: list[tuple[JSON, JSON | None]] = []
        for webhook in self._webhooks(MUTATING_WEBHOOKS, review):
            if concerns(self._store, webhook, review):
                review = self._mutated(webhook, review)
                last_seen.append((webhook, review.obj))
        for webhook, seen in last_seen:
            if webhook.get("reinvocationPolicy") == "IfNeeded" and seen != review.obj:
                review = self._mutated(webhook, review)
        return review

    def validate(self, review: Review) -> None:
        """Ask the validating webhooks.

        Raises:
            StatusError: A refusal, or 500 for a webhook that cannot be asked.
        """
        for webhook in self._webhooks(VALIDATING_WEBHOOKS, review):
            if concerns(self._store, webhook, review):
                self._ask(webhook, review)

    def _webhooks(self, resource: Resource, review: Review) -> Iterator[JSON]:
        if review.resource in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}:
            return
        for _, configuration in self._store.items(resource):
            yield from configuration.get("webhooks") or []

    def _mutated(self, webhook: JSON, review: Review) -> Review:
        verdict = self._ask(webhook, review)
        if verdict is None or not verdict.patch or review.obj is None:
            return review
        typed = review.request("")["object"]
        try:
            patched = json_patch(typed, verdict.patch)
        except StatusError as error:
            raise internal_error(str(error)) from error
        if review.how.subresource not in {"binding", "eviction"}:
            for name in ("kind", "apiVersion"):
                patched.pop(name, None)
        return replace(review, obj=patched)

    def _ask(self, webhook: JSON, review: Review) -> Verdict | None:
        """Return what a webhook says; None when it cannot be asked and that is to be ignored."""
        # A copy: nothing that is told may change what is stored.
        request = json.loads(json.dumps(review.request(str(uuid.uuid4()))))
        try:
            verdict = call_webhook(self._store, webhook, request)
        except CallError as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return None
            why = f'failed calling webhook "{webhook["name"]}": {error}'
            raise internal_error(why) from error
        review.how.warnings.extend(verdict.warnings)
        if not verdict.is_allowed:
            raise refusal(webhook["name"], verdict.status)
        return verdict


def refusal(webhook: str, status: JSON) -> StatusError:
    """Return a webhook's refusal as the client sees it: its own code, never below 400."""
    denied = f'admission webhook "{webhook}" denied the request'
    told = status.get("message") or status.get("reason")
    code = max(int(status.get("code") or 0), int(HTTPStatus.BAD_REQUEST))
    error = StatusError(
        code,
        status.get("reason", ""),
        f"{denied}: {told}" if told else f"{denied} {_UNTOLD}",
        details=status.get("details"),
    )
    if not status.get("reason"):
        del error.body["reason"]
    return error
