"""Tables of quotas and their constraints."""

from quotas.models.admission import ReleaseLease, WebhookSecret
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
    AdmittedPod,
    QuotaCounter,
    ReleaseReason,
    Reservation,
    ReservationOrigin,
    ReservationState,
)
from quotas.models.target import AdmissionCoverage, EnforcementState, EnforcementTarget

__all__ = [
    "AdmissionCoverage",
    "AdmissionRefusal",
    "AdmittedPod",
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
    "ReleaseLease",
    "ReleaseReason",
    "RequestComment",
    "RequestPolicy",
    "RequestState",
    "RequestStep",
    "Reservation",
    "ReservationOrigin",
    "ReservationState",
    "StepOutcome",
    "WebhookSecret",
]
