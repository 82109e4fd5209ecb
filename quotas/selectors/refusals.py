"""Refusals: what admission turned away lately, by project and size."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.admission import VerdictCode
from quotas.models import AdmissionRefusal

LOOKBACK: Final = timedelta(days=1)


@dataclass(frozen=True)
class Refused:
    """One workload that was refused and has tried within the last day."""

    organization_id: UUID
    project_id: UUID
    username: str
    cluster_id: UUID
    workload: str
    size: GPUSize
    units: int
    code: str
    last_at: datetime

    @property
    def is_for_room(self) -> bool:
        """Whether more room would have let it in."""
        return self.code == VerdictCode.LIMIT_REACHED.value


def refused_lately(*, at: datetime, organization_ids: Collection[UUID]) -> tuple[Refused, ...]:
    """Return whom admission refused in the last day, newest first; one statement.

    A workload stands here once for each reason, however often it tried.
    """
    rows = (
        AdmissionRefusal.objects.filter(
            organization_id__in=list(organization_ids),
            project__isnull=False,
            last_at__gt=at - LOOKBACK,
            last_at__lte=at,
        )
        .exclude(size="")
        .order_by("-last_at", "pk")
        .values_list(
            "organization_id",
            "project_id",
            "username",
            "cluster_id",
            "workload",
            "size",
            "units",
            "code",
            "last_at",
        )
    )
    return tuple(
        Refused(
            organization_id,
            project_id,
            username,
            cluster_id,
            workload,
            GPUSize(size),
            units,
            code,
            last_at,
        )
        for (
            organization_id,
            project_id,
            username,
            cluster_id,
            workload,
            size,
            units,
            code,
            last_at,
        ) in rows
    )
