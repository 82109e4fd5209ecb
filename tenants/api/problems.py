"""Errors over REST: RFC 9457 problem+json with a stable code, the field and the remedy.

{"type": "urn:gpu-ledger:problem:slug_taken", "title": "Slug taken", "status": 409,
 "detail": "...", "code": "slug_taken", "remedy": "...", "field": "slug", "facts": {...},
 "problems": [{"field": "...", "code": "...", "message": "..."}]}
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from psycopg.errors import DeadlockDetected, LockNotAvailable, SerializationFailure
from rest_framework import exceptions, serializers, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from tenants.domain.errors import DomainError, InvalidInputError
from tenants.domain.refusals import BodyTooLargeError, UnauthenticatedError

PROBLEM_TYPE = "application/problem+json"
KEPT_HEADERS = frozenset({"WWW-Authenticate", "Retry-After", "Allow"})
BUSY = (LockNotAvailable, DeadlockDetected, SerializationFailure)
RETRY_AFTER_SECONDS = "1"


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the problem document of a refusal, or None for a programming mistake."""
    if isinstance(error, DomainError):
        return _problem(
            _of_refusal(error), status_code=error.status, headers=_headers_of_refusal(error)
        )
    if isinstance(error, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return problem_response(BodyTooLargeError(f"The body has more than {most} bytes."), context)
    if isinstance(error, OperationalError) and isinstance(error.__cause__, BUSY):
        return _problem(
            _BUSY_BODY,
            status_code=status.HTTP_503_SERVICE_UNAVAILABLE,
            headers={"Retry-After": RETRY_AFTER_SECONDS},
        )
    response = exception_handler(error, context)
    if response is None:
        return None
    headers = {name: value for name, value in response.items() if name in KEPT_HEADERS}
    if isinstance(error, exceptions.ValidationError):
        return _problem(
            _of_validation(error), status_code=InvalidInputError.status, headers=headers
        )
    return _problem(_of_framework(response), status_code=response.status_code, headers=headers)


class FieldProblemSerializer(serializers.Serializer[Any]):
    """One thing wrong with one field."""

    field = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """The document of every answer from 400 on, as the API description shows it."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    remedy = serializers.CharField()
    field = serializers.CharField(required=False)
    facts = serializers.DictField(required=False)
    problems = FieldProblemSerializer(many=True, required=False)


def _problem(
    body: Mapping[str, Any], *, status_code: int, headers: dict[str, str] | None = None
) -> Response:
    code = str(body["code"])
    document = {
        "type": f"urn:gpu-ledger:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status_code,
        **body,
    }
    return Response(document, status=status_code, headers=headers, content_type=PROBLEM_TYPE)


def _headers_of_refusal(error: DomainError) -> dict[str, str]:
    seconds = error.facts.get("retry_after_seconds")
    return {} if seconds is None else {"Retry-After": str(seconds)}


def _of_refusal(error: DomainError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "detail": error.message, "remedy": error.advice}
    if error.field:
        body["field"] = error.field
    if error.facts:
        body["facts"] = dict(error.facts)
    if error.problems:
        body["problems"] = [
            {"field": p.field, "code": p.code, "message": p.message} for p in error.problems
        ]
    return body


def _of_validation(error: exceptions.ValidationError) -> dict[str, Any]:
    problems = list(_flatten(error.get_full_details(), path=""))
    return {
        "code": InvalidInputError.code,
        "detail": "The input cannot be used.",
        "remedy": "Correct the fields named under problems.",
        "problems": problems,
        **({"field": problems[0]["field"]} if problems else {}),
    }


def _of_framework(response: Response) -> dict[str, Any]:
    detail = response.data.get("detail", "") if isinstance(response.data, dict) else ""
    code = getattr(detail, "code", "error")
    if response.status_code == status.HTTP_401_UNAUTHORIZED:
        code = UnauthenticatedError.code
    return {"code": code, "detail": str(detail), "remedy": _REMEDIES.get(code, "")}


def _flatten(details: object, *, path: str) -> Iterator[dict[str, str]]:
    """Yield each problem with the dotted path of its field."""
    if isinstance(details, dict) and {"message", "code"} == set(details):
        yield {"field": path, "code": str(details["code"]), "message": str(details["message"])}
    elif isinstance(details, dict):
        for key, value in details.items():
            yield from _flatten(value, path=_joined(path, str(key)))
    elif isinstance(details, list):
        for item in details:
            yield from _flatten(item, path=path)


def _joined(path: str, key: str) -> str:
    if key == "non_field_errors":
        return path
    return f"{path}.{key}" if path else key


_BUSY_BODY = {
    "code": "busy",
    "detail": "Another request is changing this at the moment.",
    "remedy": "Send the same request again in a second.",
}
_REMEDIES = {
    "unauthenticated": UnauthenticatedError.remedy,
    "permission_denied": "Ask an administrator for a role that allows it.",
    "not_found": "Check the identifier, and that your role covers it.",
    "method_not_allowed": "See the API description at /api/v1/docs/.",
    "parse_error": "Send valid JSON.",
    "unsupported_media_type": "Send `Content-Type: application/json`.",
    "not_acceptable": "Accept `application/json`.",
}
