"""Tables of quotas and their constraints."""

from quotas.models.limit import LimitScope, QuotaLimit
from quotas.models.request import QuotaRequest, RequestState
from quotas.models.target import EnforcementState, EnforcementTarget

__all__ = [
    "EnforcementState",
    "EnforcementTarget",
    "LimitScope",
    "QuotaLimit",
    "QuotaRequest",
    "RequestState",
]
