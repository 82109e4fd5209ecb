"""Views of the admission server: webhooks and readiness, as Django serves them.

No middleware runs here. The ASGI server sends reviews to `quotas.webhook.front` instead; all other
requests reach these views.
"""

from http import HTTPStatus

import structlog
from django.db import Error, OperationalError, connections
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST, require_safe

from quotas.domain.admission.review import REVIEW_BYTES_MAX, NoReviewError
from quotas.webhook import answers
from quotas.webhook.answers import ADMIT, STAMP, WARN, WebhookResponse, json_answer

logger = structlog.get_logger(__name__)

JSON_TYPE = "application/json"


@require_POST
def admit_pods(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer whether a pod or a resource claim may be created."""
    return _answer(request, slug, ADMIT)


@require_POST
def stamp_owners(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer with the patch that names the owner."""
    return _answer(request, slug, STAMP)


@require_POST
def warn_workloads(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer with the reasons against a workload."""
    return _answer(request, slug, WARN)


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's own signature.
    """Answer 200 when the database is available."""
    try:
        answers.guard().ask(_reach)
    except Error as error:
        logger.warning("admission.not_ready", reason=type(error).__name__)
        return _response(json_answer({"status": "not_ready"}, HTTPStatus.SERVICE_UNAVAILABLE))
    return _response(json_answer({"status": "ready"}))


def _reach() -> None:
    """Run an empty query.

    Raises:
        django.db.Error: It does not answer.
    """
    wrapper = connections["default"]
    wrapper.ensure_connection()
    if not wrapper.is_usable():
        raise OperationalError("The connection is dead.")


def _answer(request: HttpRequest, slug: str, endpoint: str) -> HttpResponse:
    try:
        body = _body(request)
    except NoReviewError as error:
        return _response(answers.no_review(error))
    return _response(answers.answer(endpoint, slug, body))


def _body(request: HttpRequest) -> bytes:
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length.isdigit() or int(length) > REVIEW_BYTES_MAX:
        raise NoReviewError("The review has no length, or is too large.")
    return request.read(int(length))


def _response(answer: WebhookResponse) -> HttpResponse:
    # No middleware sets Content-Length here; without it the response is chunked.
    headers = {"Content-Length": str(len(answer.body))}
    return HttpResponse(answer.body, status=answer.status, content_type=JSON_TYPE, headers=headers)
