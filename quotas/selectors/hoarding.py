"""Hoarding: quota that a project keeps from others without ever using it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from metering.domain.gpu_sizes import GPUSize
from metering.domain.waste_rules import WasteThresholds
from metering.selectors.use_peaks import peak_units
from quotas.models import LimitScope, QuotaLimit
from quotas.selectors.in_force import limits_in_force

PERCENTILE: Final = 95


@dataclass(frozen=True)
class HoardedQuota:
    """A project's limit beside the units it used in all but its busiest hours.

    Attributes:
        limit_units: In force: what it lent away is not kept from anybody.
    """

    organization: str
    project: str
    project_id: UUID
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
    """Return the projects' limits of which more than a share is never used; three statements.

    Only limits for every model and cluster are looked at: the usage ledger knows peaks of a size.
    A limit that was changed within the time looked at says nothing yet. Most spare units first.

    Args:
        limits: The limits an actor sees; those of projects count.
        at: End of the time looked at.
        thresholds: How long that is, and which share is too much.
    """
    hours = thresholds.hoarding_hours
    before = at.replace(minute=0, second=0, microsecond=0)
    peaks = peak_units(before=before, hours=hours, percent=PERCENTILE)
    rows = list(
        limits.filter(
            scope=LimitScope.PROJECT,
            model_group="",
            cluster=None,
            limit_units__gte=1,
            changed_at__lte=at - timedelta(hours=hours),
        ).select_related("organization", "project")
    )
    in_force = {
        limit.limit_id: limit.nominal_units or 0
        for limit in limits_in_force(
            at=at, organization_ids={limit.organization_id for limit in rows}
        )
    }
    found = [
        HoardedQuota(
            organization=limit.organization.slug,
            project=limit.project.slug,
            project_id=limit.project.pk,
            size=GPUSize(limit.size),
            limit_units=in_force[limit.pk],
            peak_units=peaks.get((limit.project.pk, GPUSize(limit.size)), 0),
        )
        for limit in rows
        if limit.project is not None
    ]
    hoarded = [one for one in found if _is_hoarded(one, ratio=thresholds.hoarding_ratio)]
    return tuple(
        sorted(hoarded, key=lambda one: (-one.spare_units, one.organization, one.project, one.size))
    )


def _is_hoarded(quota: HoardedQuota, *, ratio: Decimal) -> bool:
    return quota.spare_units > ratio * quota.limit_units
