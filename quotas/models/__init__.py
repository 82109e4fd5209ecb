"""Tables of quotas and their constraints."""

from quotas.models.grant import GrantReason, QuotaGrant
from quotas.models.limit import LimitScope, QuotaLimit
from quotas.models.request import QuotaRequest, RequestState
from quotas.models.reservation import (
    AdmissionRefusal,
    QuotaCounter,
    ReleaseReason,
    Reservation,
    ReservationOrigin,
    ReservationState,
)
from quotas.models.suspension import QuotaSuspension
from quotas.models.target import EnforcementState, EnforcementTarget

__all__ = [
    "AdmissionRefusal",
    "EnforcementState",
    "EnforcementTarget",
    "GrantReason",
    "LimitScope",
    "QuotaCounter",
    "QuotaGrant",
    "QuotaLimit",
    "QuotaRequest",
    "QuotaSuspension",
    "ReleaseReason",
    "RequestState",
    "Reservation",
    "ReservationOrigin",
    "ReservationState",
]
