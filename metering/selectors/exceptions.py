"""Exceptions: how much waits for a person, and how much usage is held by it."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from metering.models import ExceptionState, MeteringException


@dataclass(frozen=True)
class ExceptionTotal:
    """Exceptions of one kind that are open."""

    kind: str
    exceptions: int
    held_unit_seconds: int


def open_exception_totals(*, begin_at: datetime, end_at: datetime) -> tuple[ExceptionTotal, ...]:
    """Return what is open about the windows that start in [begin_at, end_at), by kind."""
    rows = (
        MeteringException.objects.filter(
            state=ExceptionState.OPEN, window_start__gte=begin_at, window_start__lt=end_at
        )
        .order_by("kind")
        .values_list("kind")
        .annotate(exceptions=Count("id"), held=Coalesce(Sum("held_unit_seconds"), 0))
    )
    return tuple(ExceptionTotal(kind, count, int(held)) for kind, count, held in rows)
