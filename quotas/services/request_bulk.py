"""Asking for several things at once: all are made, or none."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from django.db import transaction

from quotas.domain.errors import QuotaBulkRefusedError
from quotas.models import QuotaRequest
from quotas.protocols.costs import CostEstimator
from quotas.services.request_asking import RequestDraft, make_request
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, FieldProblem

BULK_MAX: Final = 100
"""As many as a person reads before sending; one transaction holds the organization's lock."""


@transaction.atomic
def make_requests(
    *,
    drafts: Sequence[RequestDraft],
    estimator: CostEstimator | None = None,
    actor: Actor,
    at: datetime,
) -> tuple[QuotaRequest, ...]:
    """Ask for several things at once: all are made, or none.

    Raises:
        QuotaBulkRefusedError: At least one cannot be made; every problem is told with its place.
    """
    made: list[QuotaRequest] = []
    problems: list[FieldProblem] = []
    if not 1 <= len(drafts) <= BULK_MAX:
        message = f"Send 1 to {BULK_MAX} requests."
        raise QuotaBulkRefusedError(
            message, problems=(FieldProblem("requests", "count_invalid", message),)
        )
    for position, draft in enumerate(drafts):
        try:
            with transaction.atomic():
                made.append(make_request(draft=draft, estimator=estimator, actor=actor, at=at))
        except DomainError as error:
            problems += problems_of(error, prefix=f"requests.{position}")
    if problems:
        raise QuotaBulkRefusedError(
            f"{len(drafts) - len(made)} of {len(drafts)} requests cannot be made; none was.",
            field=problems[0].field,
            problems=tuple(problems),
        )
    return tuple(made)


def problems_of(error: DomainError, *, prefix: str) -> tuple[FieldProblem, ...]:
    """Return a refusal's problems, each field below a prefix; "" for none."""
    found = error.problems or (
        FieldProblem(error.field, error.code, f"{error.message} {error.advice}".strip()),
    )
    return tuple(
        replace(one, field=".".join(part for part in (prefix, one.field) if part)) for one in found
    )
