"""Idempotency-Key over HTTP: a POST sent twice takes effect once and is answered the same.

    class ApproveView(LedgerViewSet):
        @idempotent()
        def create(self, request: Request) -> Response: ...

The key belongs to the caller, its roles and its token's scopes. The view's transaction and the
stored answer commit together, so a service called inside must not ask for a durable (outermost)
transaction. The same request again gets the stored answer and `Idempotent-Replayed: true`; another
request, or other scopes, under the key is 422; after a role was taken away it is 403; the same one
while the first is being answered is 409. Refusals are not stored: they had no effect.
Source: draft-ietf-httpapi-idempotency-key-header-07.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable

from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.actors import actor_of_request
from tenants.domain.refusals import IdempotencyKeyRequiredError
from tenants.services.idempotency import StoredResponse, answer_once

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEPT_HEADERS = ("ETag", "Location")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")

Handler = Callable[..., Response]


def idempotent(*, is_required: bool = True) -> Callable[[Handler], Handler]:
    """Return a decorator for a view's handler, which answers each key once.

    Put it under `@action`, so that the router still sees the action.

    Args:
        is_required: False where a key is honoured but a request without one is allowed.
    """

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def answer(view: APIView, request: Request, *args: object, **kwargs: object) -> Response:
            key = _key_of(request, is_required=is_required)
            if key is None:
                return handler(view, request, *args, **kwargs)
            answered = answer_once(
                key=key,
                fingerprint=fingerprint_of(request),
                respond=lambda: _answer_of(handler(view, request, *args, **kwargs)),
                actor=actor_of_request(request),
                at=timezone.now(),
            )
            return _response_of(answered)

        answer.idempotency_key_is_required = is_required  # type: ignore[attr-defined]
        return answer

    return decorate


def fingerprint_of(request: Request) -> bytes:
    """Return SHA-256 of method, path and body, whatever the order of the body's keys."""
    body = json.dumps(request.data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    asked = f"{request.method}\n{request.path}\n{body}"
    return hashlib.sha256(asked.encode("utf-8", errors="surrogatepass")).digest()


def _key_of(request: Request, *, is_required: bool) -> str | None:
    key = request.headers.get(HEADER)
    if key is None and not is_required:
        return None
    if key is None or not _KEY.fullmatch(key):
        raise IdempotencyKeyRequiredError("The Idempotency-Key is missing or not usable.")
    return key


def _answer_of(response: Response) -> StoredResponse:
    """Return a response as plain JSON: what the renderer would send, read back."""
    rendered = JSONRenderer().render(response.data)
    return StoredResponse(
        status=response.status_code,
        body=json.loads(rendered) if rendered else None,
        headers={name: response[name] for name in KEPT_HEADERS if name in response},
    )


def _response_of(answer: StoredResponse) -> Response:
    headers = dict(answer.headers)
    if answer.is_replayed:
        headers[REPLAYED] = "true"
    return Response(answer.body, status=answer.status, headers=headers)
