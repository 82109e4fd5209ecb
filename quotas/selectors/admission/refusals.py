"""Refusals: recently denied workloads by project and size, and whether they still wait.

One definition of waiting serves the board and loans: denied for lack of free units within the last
two hours, and not admitted since.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import (
    BooleanField,
    Exists,
    Expression,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Value,
)
from django.db.models.functions import Concat

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.values import VerdictCode
from quotas.models import AdmissionRefusal, Reservation, ReservationState

LOOKBACK: Final = timedelta(days=1)
STILL_WAITING: Final = timedelta(hours=2)
"""Controllers retry within minutes; without a retry for this long, the workload has given up."""
WAITS_FOR: Final = (
    VerdictCode.LIMIT_REACHED.value,
    VerdictCode.NOTHING_GRANTED.value,
    VerdictCode.ALLOWANCE_USED.value,
)
"""Denials for lack of free units. Suspended, closed or invalid workloads do not wait for units."""


@dataclass(frozen=True)
class Refused:
    """One workload that was denied within the last day.

    Attributes:
        is_waiting: Whether it was denied for lack of free units within the last two hours, and not
            admitted since.
    """

    organization_id: UUID
    project_id: UUID
    username: str
    cluster_id: UUID
    workload: str
    size: GPUSize
    units: int
    code: str
    last_at: datetime
    is_waiting: bool

    @property
    def is_for_headroom(self) -> bool:
        """Whether more free units would have admitted it."""
        return self.code == VerdictCode.LIMIT_REACHED.value


def refused_lately(*, at: datetime, organization_ids: Collection[UUID]) -> tuple[Refused, ...]:
    """Return workloads denied in the last day, newest first; one statement.

    A workload is listed once per reason, however often it was retried.
    """
    rows = (
        AdmissionRefusal.objects.annotate(is_waiting=_waits(at=at))
        .filter(
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
            "is_waiting",
        )
    )
    return tuple(_refused(*row) for row in rows)


def organizations_waiting(*, at: datetime) -> frozenset[UUID]:
    """Return the organizations in which some workload waits for units; one statement."""
    # The bound of time stands by itself too, where the index can serve it.
    rows = AdmissionRefusal.objects.annotate(is_waiting=_waits(at=at)).filter(
        organization__isnull=False,
        last_at__gt=at - STILL_WAITING,
        last_at__lte=at,
        is_waiting=True,
    )
    return frozenset(rows.order_by().values_list("organization_id", flat=True).distinct())


def _waits(*, at: datetime) -> Expression:
    """Return whether the workload of a refusal waits for units."""
    is_recent = Q(code__in=WAITS_FOR, last_at__gt=at - STILL_WAITING)
    waits = is_recent & ~Q(Exists(_live_since())) & ~Q(Exists(_released_since()))
    return ExpressionWrapper(waits, output_field=BooleanField())


def _live_since() -> QuerySet[Reservation]:
    """Return reservations made after a refusal that count; uses the index of live ones."""
    return _let_in_since().exclude(state=ReservationState.RELEASED)


def _released_since() -> QuerySet[Reservation]:
    """Return reservations made after a refusal that have ended; uses the index of time."""
    return _let_in_since().filter(
        state=ReservationState.RELEASED, released_at__gte=OuterRef("last_at")
    )


def _let_in_since() -> QuerySet[Reservation]:
    pods = Reservation.objects.annotate(alone=Concat(Value("Pod/"), F("pod_name")))
    return pods.filter(
        Q(controller=OuterRef("workload")) | Q(alone=OuterRef("workload")),
        organization_id=OuterRef("organization_id"),
        project_id=OuterRef("project_id"),
        cluster_id=OuterRef("cluster_id"),
        namespace=OuterRef("namespace"),
        admitted_at__gt=OuterRef("last_at"),
    )


def _refused(  # noqa: PLR0913, PLR0917 - A row's columns, in their order.
    organization_id: UUID,
    project_id: UUID,
    username: str,
    cluster_id: UUID,
    workload: str,
    size: str,
    units: int,
    code: str,
    last_at: datetime,
    is_waiting: bool,  # noqa: FBT001 - As above.
) -> Refused:
    return Refused(
        organization_id=organization_id,
        project_id=project_id,
        username=username,
        cluster_id=cluster_id,
        workload=workload,
        size=GPUSize(size),
        units=units,
        code=code,
        last_at=last_at,
        is_waiting=is_waiting,
    )
