"""Charges without a line, added up as lines are made from them."""

from uuid import UUID

from django.db.models import Sum

from billing.domain.invoicing import ChargeSum
from billing.models import Charge

_COLUMNS = (
    "project_id",
    "project__slug",
    "project__name",
    "project__cost_center",
    "size",
    "price_group",
    "unit_price",
)


def unbilled_sums(period_id: UUID) -> tuple[ChargeSum, ...]:
    """Return unbilled unit-seconds of a period by project, size, price group and price."""
    rows = (
        Charge.objects.filter(period=period_id, line__isnull=True)
        .values_list(*_COLUMNS)
        .annotate(total=Sum("unit_seconds"))
        .order_by(*_COLUMNS)
    )
    return tuple(
        ChargeSum(
            project_id=str(project_id),
            project=slug,
            project_name=name,
            cost_center=cost_center,
            size=size,
            price_group=price_group,
            unit_price=unit_price,
            unit_seconds=int(total),
        )
        for project_id, slug, name, cost_center, size, price_group, unit_price, total in rows
    )
