"""What tests of requests share: asking as Bob, policies, and what was reported."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from metering.domain.catalogue.units import GPUSize
from quotas.models import QuotaRequest, RequestPolicy
from quotas.protocols.costs import CostEstimate
from quotas.services.requests.asking import RequestDraft
from tenants.models import NotificationDelivery, Organization
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, submit_request

FRIDAY = AT + timedelta(days=4)
LATER = AT + timedelta(days=30)


class FixedEstimator:
    """Somebody who knows one price: so much for each unit and month."""

    def __init__(self, per_unit: str | None = "100.00") -> None:
        self.per_unit = per_unit
        self.asked: list[dict[str, Any]] = []

    def estimate(
        self,
        *,
        organization_id: UUID,
        project_id: UUID,
        size: GPUSize,
        model_group: str,
        units: int,
        is_burst: bool,
        at: datetime,
    ) -> CostEstimate:
        payer = (organization_id, project_id)
        self.asked.append({"size": size, "units": units, "is_burst": is_burst, "payer": payer})
        assert at == AT
        if self.per_unit is None:
            return CostEstimate("", None, None, note="No price is known.")
        full = Decimal(self.per_unit) * units
        return CostEstimate("EUR", full, full / 2, price_group=f"{model_group or 'H100'}/whole")


def draft(cast: Cast, **fields: Any) -> RequestDraft:  # noqa: ANN401 - As the draft.
    given: dict[str, Any] = {
        "project": cast.llm,
        "size": "large",
        "requested_units": 8,
        "justification": "A bigger model.",
    }
    return RequestDraft(**{**given, **fields})


def ask(cast: Cast, name: str = "bob", **fields: Any) -> QuotaRequest:  # noqa: ANN401 - As the service.
    given: dict[str, Any] = {
        "project": cast.llm,
        "size": "large",
        "requested_units": 8,
        "justification": "A bigger model.",
        "actor": actor_of(getattr(cast, name)),
        "at": AT,
    }
    return submit_request(**{**given, **fields})


def make_policy(organization: Organization | None = None, **fields: Any) -> RequestPolicy:  # noqa: ANN401 - Columns.
    given: dict[str, Any] = {"steps": [{"level": "organization_admin"}], "created_at": AT}
    return RequestPolicy.objects.create(organization=organization, **{**given, **fields})


def steps_of(request: QuotaRequest) -> list[tuple[str, str]]:
    return list(request.steps.order_by("position").values_list("level", "outcome"))


def reported() -> list[tuple[str, str]]:
    """Return who was reported which event, oldest first."""
    rows = NotificationDelivery.objects.order_by("notification__pk", "address")
    return [
        (event.removeprefix("quotas:"), address.partition("@")[0])
        for event, address in rows.values_list("notification__event", "address")
    ]
