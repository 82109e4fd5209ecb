"""A cost estimator without prices, for installations that only meter."""

from datetime import datetime
from uuid import UUID

from metering.domain.catalogue.units import GPUSize
from quotas.protocols.costs import CostEstimate


class NoCostEstimator:
    """Returns no price, with a note."""

    def estimate(  # noqa: PLR0913 - As the protocol.
        self,
        *,
        organization_id: UUID,  # noqa: ARG002 - As the protocol; so are the others.
        project_id: UUID,  # noqa: ARG002
        size: GPUSize,  # noqa: ARG002
        model_group: str,  # noqa: ARG002
        units: int,  # noqa: ARG002
        is_burst: bool,  # noqa: ARG002
        at: datetime,  # noqa: ARG002
    ) -> CostEstimate:
        """Return that nothing is known."""
        return CostEstimate("", None, None, note="This installation knows no prices.")
