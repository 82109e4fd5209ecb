"""Refusals, with messages that tenants may read.

A refusal is expected; a programming mistake is a ValueError and is allowed to crash. Each app
subclasses these kinds in its own `domain/errors.py`, one class per refusal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

Fact = str | int | None


@dataclass(frozen=True)
class FieldProblem:
    """One thing wrong with one field of the input: where, a stable code, and what to do."""

    field: str
    code: str
    message: str


class DomainError(Exception):
    """A refusal with a stable code.

    Attributes:
        code: Stable snake_case name of the refusal, unique in the product.
        status: The HTTP status of the REST response.
        message: One sentence: what was refused.
        is_audited: Whether entry points write an audit entry for it.
        remedy: One sentence: what the caller can do.
        field: The offending input field, or "" when none is to blame.
        facts: Numbers and names that explain the refusal.
        problems: Every field's problem when several were found at once.
    """

    code: ClassVar[str] = "refused"
    status: ClassVar[int] = 409
    is_audited: ClassVar[bool] = False
    remedy: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        remedy: str = "",
        facts: Mapping[str, Fact] | None = None,
        problems: tuple[FieldProblem, ...] = (),
    ) -> None:
        """Build the refusal; `remedy` overrides the one of the class."""
        super().__init__(message)
        self.message = message
        self.field = field
        self.facts: Mapping[str, Fact] = dict(facts or {})
        self.problems = problems
        self.advice = remedy or type(self).remedy


class InvalidInputError(DomainError):
    """The input can never be right, whatever the state."""

    code = "invalid_input"
    status = 422


class NotFoundError(DomainError):
    """It does not exist, or the caller may not see it: the answer is the same."""

    code = "not_found"
    status = 404
    remedy = "Check the identifier, and that your role covers it."


class ForbiddenError(DomainError):
    """The caller may see it but may not do this."""

    code = "forbidden"
    status = 403
    remedy = "Ask an administrator of the organization for a role that allows it."


class ConflictError(DomainError):
    """The state does not allow it now."""

    code = "conflict"
    status = 409


class SourceUnavailableError(Exception):
    """Something outside did not answer, or not completely. Only this is retried.

    Attributes:
        reason: Stable snake_case cause, such as "timeout", "partial_response", "bad_sample".
        retry_after_seconds: Value of Retry-After; 0 without one.
    """

    def __init__(self, message: str, *, reason: str, retry_after_seconds: int = 0) -> None:
        """Keep the sentence and its cause."""
        super().__init__(message)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
