"""Refusals as Kubernetes spells them: a Status object with code, reason, message and details.

Source: kubernetes/apimachinery, pkg/api/errors/errors.go.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

JSON = dict[str, Any]


class StatusError(Exception):
    """A refusal; `body` is the Status object that goes out with `code`.

    Attributes:
        retry_after_seconds: Goes out as the header Retry-After; None for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: JSON | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Make the Status object."""
        super().__init__(message)
        self.code = code
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            details = {**(details or {}), "retryAfterSeconds": retry_after_seconds}
        self.body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({"details": details} if details else {}),
            "code": code,
        }


def success(*, name: str, plural: str, uid: str) -> JSON:
    """Return the Status object of a deletion or a binding that went through."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_subject(plural, name), "uid": uid},
    }


def not_found(plural: str, name: str) -> StatusError:
    """Return "there is no such object"."""
    return StatusError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{plural} "{name}" not found',
        details=_subject(plural, name),
    )


def no_such_path() -> StatusError:
    """Return "there is no such resource", as for a path nobody serves."""
    return StatusError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        "the server could not find the requested resource",
        details={},
    )


def already_exists(plural: str, name: str) -> StatusError:
    """Return "there is one of this name"."""
    return StatusError(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{plural} "{name}" already exists',
        details=_subject(plural, name),
    )


def conflict(plural: str, name: str, why: str) -> StatusError:
    """Return "somebody wrote in between", or what else stands against it."""
    return StatusError(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {plural} "{name}": {why}',
        details=_subject(plural, name),
    )


def was_modified(plural: str, name: str) -> StatusError:
    """Return the conflict of an old resource version."""
    why = (
        "the object has been modified; please apply your changes to the latest version"
        " and try again"
    )
    return conflict(plural, name, why)


def apply_conflict(causes: Iterable[tuple[str, str]]) -> StatusError:
    """Return the conflict of a server-side apply.

    Args:
        causes: The other manager as it is printed, and the field's path.
    """
    found = list(causes)
    if len(found) == 1:
        manager, path = found[0]
        message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        lines = []
        for manager in sorted({name for name, _ in found}):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for name, path in found if name == manager]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    details = {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {manager}",
                "field": path,
            }
            for manager, path in found
        ]
    }
    return StatusError(HTTPStatus.CONFLICT, "Conflict", message, details=details)


def forbidden(plural: str, name: str, why: str) -> StatusError:
    """Return "you may not", such as for a quota that is used up."""
    subject = f'{plural} "{name}" is ' if name else f"{plural} is " if plural else ""
    return StatusError(
        HTTPStatus.FORBIDDEN,
        "Forbidden",
        f"{subject}forbidden: {why}",
        details=_subject(plural, name) if name else {"kind": plural} if plural else {},
    )


def invalid(kind: str, name: str, causes: Iterable[tuple[str, str, str]]) -> StatusError:
    """Return "this is no valid object".

    Args:
        kind: Of the object.
        name: Of the object.
        causes: Reason such as "FieldValueRequired", the message, and the field.
    """
    found = list(causes)
    told = [f"{field}: {message}" for _, message, field in found]
    joined = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    return StatusError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f'{kind} "{name}" is invalid: {joined}',
        details={
            **_subject(kind, name),
            "causes": [
                {"reason": reason, "message": message, "field": field}
                for reason, message, field in found
            ],
        },
    )


def bad_request(message: str) -> StatusError:
    """Return "this is no request"."""
    return StatusError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> StatusError:
    """Return 410 Gone: start with a new list."""
    return StatusError(HTTPStatus.GONE, "Expired", message)


def unauthorized() -> StatusError:
    """Return "who are you"."""
    return StatusError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    """Return "not in this way"."""
    return StatusError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={},
    )


def unsupported_media_type() -> StatusError:
    """Return "this kind of patch is not known"."""
    return StatusError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include:"
        " application/json-patch+json, application/merge-patch+json,"
        " application/strategic-merge-patch+json, application/apply-patch+yaml",
    )


def internal_error(why: str) -> StatusError:
    """Return "something behind the server failed", such as a webhook."""
    return StatusError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "InternalError",
        f"Internal error occurred: {why}",
        details={"causes": [{"message": why}]},
    )


def _subject(qualified: str, name: str) -> JSON:
    """Return the details of what an error is about: "jobs.batch" is jobs of the group batch."""
    plural, _, group = qualified.partition(".")
    return {"name": name, **({"group": group} if group else {}), "kind": plural}
