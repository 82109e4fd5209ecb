"""Costs of held use without prices, for installations that only meter."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from metering.protocols.held_costs import HeldCost, HeldUse


class NoHeldCosts:
    """Knows no price and no bill."""

    def costs_of(self, uses: Sequence[HeldUse]) -> Sequence[HeldCost]:
        """Return that no price is known."""
        return [HeldCost("", None) for _ in uses]

    def bills_of(
        self,
        organization_id: UUID,  # noqa: ARG002 - As the protocol; so are the others.
        *,
        first_start: datetime,  # noqa: ARG002
        last_start: datetime,  # noqa: ARG002
    ) -> Sequence[date]:
        """Return no bill."""
        return []
