"""Waste findings whose saving nobody can say: apart from those that would save nothing."""

from typing import Final

from django.db.models import BigIntegerField, Case, F, Q, Value, When

SAVING_UNKNOWN: Final = Q(
    suggested_units__gt=0, wasted_unit_seconds=0, memory_peak_mebibytes__isnull=True
)
"""The opposite of `WasteFinding.is_saving_known`."""

WASTED_ORDER: Final = Case(
    When(SAVING_UNKNOWN, then=Value(-1)),
    default=F("wasted_unit_seconds"),
    output_field=BigIntegerField(),
)
"""Sorts what is unknown behind what is nothing."""
