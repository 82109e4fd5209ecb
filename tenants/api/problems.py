"""Errors over REST: RFC 9457 problem+json with a stable code, the field and the remedy."""

from typing import Any

from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler

from tenants.domain.errors import DomainError

PROBLEM_TYPE = "application/problem+json"


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the problem document of a refusal, or None to let a programming mistake crash."""
    if isinstance(error, DomainError):
        return _problem(_of_refusal(error), status=error.status)
    response = exception_handler(error, context)
    if response is None:
        return None
    headers = {
        name: value for name, value in response.items() if name in {"WWW-Authenticate", "Retry-After"}
    }
    return _problem(_of_framework(error, response), status=response.status_code, headers=headers)


def _problem(
    body: dict[str, Any], *, status: int, headers: dict[str, str] | None = None
) -> Response:
    document = {"type": f"urn:gpu-ledger:problem:{body['code']}", "status": status, **body}
    return Response(document, status=status, headers=headers, content_type=PROBLEM_TYPE)


def _of_refusal(error: DomainError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "title": error.message, "remedy": error.advice}
    if error.field:
        body["field"] = error.field
    if error.facts:
        body["facts"] = dict(error.facts)
    if error.problems:
        body["problems"] = [
            {"field": p.field, "code": p.code, "message": p.message} for p in error.problems
        ]
    return body


def _of_framework(error: Exception, response: Response) -> dict[str, Any]:
    if isinstance(error, exceptions.ValidationError):
        problems = list(_flatten(error.get_full_details(), path=""))
        return {
            "code": "invalid_input",
            "title": "The input cannot be used.",
            "remedy": "Correct the fields named under problems.",
            "problems": problems,
            **({"field": problems[0]["field"]} if problems else {}),
        }
    detail = response.data.get("detail", "") if isinstance(response.data, dict) else ""
    code = getattr(detail, "code", "error")
    return {"code": code, "title": str(detail), "remedy": _REMEDIES.get(code, "")}


_REMEDIES = {
    "not_authenticated": "Send `Authorization: Bearer <token>` or sign in.",
    "authentication_failed": "Make a new API token; this one is wrong, expired or revoked.",
    "permission_denied": "Ask an administrator for a role that allows it.",
    "not_found": "Check the identifier, and that your role covers it.",
    "method_not_allowed": "See the API description at /api/v1/docs/.",
    "parse_error": "Send valid JSON.",
    "unsupported_media_type": "Send `Content-Type: application/json`.",
}


def _flatten(details: Any, *, path: str) -> Any:
    if isinstance(details, dict) and {"message", "code"} == set(details):
        yield {"field": path, "code": details["code"], "message": str(details["message"])}
    elif isinstance(details, dict):
        for key, value in details.items():
            yield from _flatten(value, path=f"{path}.{key}" if path else str(key))
    elif isinstance(details, list):
        for item in details:
            yield from _flatten(item, path=path)
