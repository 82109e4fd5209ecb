"""Hoarding: quota that a project keeps from others without ever using it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from django.db.models import QuerySet

from metering.domain.gpu_sizes import GPUSize
from metering.domain.waste_rules import WasteThresholds
from metering.selectors.use_peaks import peak_units
from quotas.models import QuotaLimit

PERCENTILE: Final = 95


@dataclass(frozen=True)
class HoardedQuota:
    """A project's limit beside the units it used in all but its busiest hours."""

    organization: str
    project: str
    size: GPUSize
    limit_units: int
    peak_units: int

    @property
    def spare_units(self) -> int:
        """Return what others could have used."""
        return self.limit_units - self.peak_units


def hoarded_quotas(
    limits: QuerySet[QuotaLimit], *, at: datetime, thresholds: WasteThresholds
) -> tuple[HoardedQuota, ...]:
    """Return the projects' limits of which more than a share is never used; two statements.

    A limit that was changed within the time looked at says nothing yet. Most spare units first.

    Args:
        limits: The limits an actor sees; those of projects count.
        at: End of the time looked at.
        thresholds: How long that is, and which share is too much.
    """
    hours = thresholds.hoarding_hours
    before = at.replace(minute=0, second=0, microsecond=0)
    peaks = peak_units(before=before, hours=hours, percent=PERCENTILE)
    rows = limits.filter(
        project__isnull=False,
        user__isnull=True,
        limit_units__gte=1,
        changed_at__lte=at - timedelta(hours=hours),
    ).select_related("organization", "project")
    found = [
        HoardedQuota(
            organization=limit.organization.slug,
            project=limit.project.slug,  # type: ignore[union-attr] # Filtered above.
            size=GPUSize(limit.size),
            limit_units=limit.limit_units,
            peak_units=peaks.get((limit.project_id, GPUSize(limit.size)), 0),  # type: ignore[arg-type]
        )
        for limit in rows
    ]
    hoarded = [one for one in found if _is_hoarded(one, ratio=thresholds.hoarding_ratio)]
    return tuple(
        sorted(hoarded, key=lambda one: (-one.spare_units, one.organization, one.project, one.size))
    )


def _is_hoarded(quota: HoardedQuota, *, ratio: Decimal) -> bool:
    return quota.spare_units > ratio * quota.limit_units
