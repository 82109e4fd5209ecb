"""Tables of quotas and their constraints."""

from quotas.models.isolation import IsolationPolicy
from quotas.models.limit import GrantReason, LimitScope, QuotaGrant, QuotaLimit, QuotaSuspension
from quotas.models.loan import LoanMode, LoanPolicy, LoanState, QuotaLoan
from quotas.models.preemption import (
    PreemptionAction,
    PreemptionMode,
    PreemptionPlan,
    PreemptionPolicy,
    PreemptionReason,
    PreemptionStep,
    ProtectedWindow,
)
from quotas.models.request import (
    QuotaRequest,
    RequestComment,
    RequestPolicy,
    RequestState,
    RequestStep,
    StepOutcome,
)
from quotas.models.reservation import (
    AdmissionRefusal,
    QuotaCounter,
    ReleaseReason,
    Reservation,
    ReservationOrigin,
    ReservationState,
)
from quotas.models.target import EnforcementState, EnforcementTarget

__all__ = [
    "AdmissionRefusal",
    "EnforcementState",
    "EnforcementTarget",
    "GrantReason",
    "IsolationPolicy",
    "LimitScope",
    "LoanMode",
    "LoanPolicy",
    "LoanState",
    "PreemptionAction",
    "PreemptionMode",
    "PreemptionPlan",
    "PreemptionPolicy",
    "PreemptionReason",
    "PreemptionStep",
    "ProtectedWindow",
    "QuotaCounter",
    "QuotaGrant",
    "QuotaLimit",
    "QuotaLoan",
    "QuotaRequest",
    "QuotaSuspension",
    "ReleaseReason",
    "RequestComment",
    "RequestPolicy",
    "RequestState",
    "RequestStep",
    "Reservation",
    "ReservationOrigin",
    "ReservationState",
    "StepOutcome",
]
