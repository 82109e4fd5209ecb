"""Refusals as Kubernetes spells them: a Status object with code, reason, message and details.

Source: kubernetes/apimachinery, pkg/api/errors/errors.go.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

JSON = dict[str, Any]
Cause = tuple[str, str, str]
"""A reason such as "FieldValueRequired", the message, and the field."""


class StatusError(Exception):
    """A refusal; `body` is the Status object that is sent with `code`.

    Whatever a request runs through may raise it; the request's own thread sends it.

    Attributes:
        retry_after_seconds: Sent as the header Retry-After; None for none.
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
        fields = {"message": message, "reason": reason, "details": details, "code": code}
        self.body = status("Failure", **{key: value for key, value in fields.items() if value})


def status(outcome: str, **fields: object) -> JSON:
    """Return a Status object."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome, **fields}


def success(*, name: str, qualified: str, uid: str) -> JSON:
    """Return the Status object of a deletion or a binding that was done."""
    return status("Success", details={**_subject(qualified, name), "uid": uid})


def not_found(qualified: str, name: str) -> StatusError:
    """Return the refusal for an object that does not exist."""
    message = f'{qualified} "{name}" not found'
    return StatusError(HTTPStatus.NOT_FOUND, "NotFound", message, details=_subject(qualified, name))


def no_such_path() -> StatusError:
    """Return the refusal for a path that is not served."""
    message = "the server could not find the requested resource"
    return StatusError(HTTPStatus.NOT_FOUND, "NotFound", message)


def already_exists(qualified: str, name: str) -> StatusError:
    """Return the refusal for a second object of the same name."""
    message = f'{qualified} "{name}" already exists'
    details = _subject(qualified, name)
    return StatusError(HTTPStatus.CONFLICT, "AlreadyExists", message, details=details)


def conflict(qualified: str, name: str, why: str) -> StatusError:
    """Return the refusal of a write that the object's state does not allow."""
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    details = _subject(qualified, name)
    return StatusError(HTTPStatus.CONFLICT, "Conflict", message, details=details)


def was_modified(qualified: str, name: str) -> StatusError:
    """Return the conflict of an old resource version."""
    why = "the object has been modified; please apply your changes to the latest version"
    return conflict(qualified, name, f"{why} and try again")


def forbidden(qualified: str, name: str, why: str) -> StatusError:
    """Return the refusal of what a role, a quota or an admission plugin does not allow."""
    subject = f'{qualified} "{name}" is ' if name else f"{qualified} is " if qualified else ""
    details = _subject(qualified, name) if name else {"kind": qualified} if qualified else {}
    return StatusError(
        HTTPStatus.FORBIDDEN, "Forbidden", f"{subject}forbidden: {why}", details=details
    )


def invalid(kind: str, name: str, causes: Iterable[Cause]) -> StatusError:
    """Return the refusal of an object that is not valid, with every cause."""
    listed = list(causes)
    messages = [f"{field}: {message}" for _, message, field in listed]
    joined = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = {
        **_subject(kind, name),
        "causes": [
            {"reason": reason, "message": message, "field": field}
            for reason, message, field in listed
        ],
    }
    message = f'{kind} "{name}" is invalid: {joined}'
    return StatusError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, details=details)


def bad_request(message: str) -> StatusError:
    """Return the refusal of a request that cannot be read."""
    return StatusError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> StatusError:
    """Return 410 Gone: the client has to list again."""
    return StatusError(HTTPStatus.GONE, "Expired", message)


def method_not_allowed() -> StatusError:
    """Return the refusal of a verb that the path does not have."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", message)


def internal_error(why: str) -> StatusError:
    """Return the failure of something behind the server, such as a webhook."""
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
