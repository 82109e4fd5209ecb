"""Grant terms: which grants change a limit, from when and until when."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from quotas.models import QuotaGrant


@dataclass(frozen=True)
class GrantTerm:
    """One grant on top of a limit.

    Attributes:
        units: Below zero is lent away.
        end_at: UTC; None is until it is ended.
        reason: "request", "loan" or "manual".
    """

    limit_id: UUID
    units: int
    begin_at: datetime
    end_at: datetime | None
    reason: str

    def is_in_force(self, at: datetime) -> bool:
        """Whether it counts at a time."""
        return self.begin_at <= at and (self.end_at is None or at < self.end_at)


def grant_terms(limit_ids: Collection[UUID], *, at: datetime) -> tuple[GrantTerm, ...]:
    """Return the grants of some limits that count at a time or later; one statement.

    Those that end first stand first; those without an end last.
    """
    rows = QuotaGrant.objects.filter(
        Q(valid__endswith=None) | Q(valid__endswith__gt=at),
        valid__isempty=False,
        limit_id__in=list(limit_ids),
    ).values_list("limit_id", "units", "valid", "reason")
    terms = [
        GrantTerm(limit_id, units, valid.lower, valid.upper, reason)
        for limit_id, units, valid, reason in rows
    ]
    return tuple(sorted(terms, key=_by_end))


def _by_end(term: GrantTerm) -> tuple[bool, datetime, int]:
    return (term.end_at is None, term.end_at or term.begin_at, term.units)
