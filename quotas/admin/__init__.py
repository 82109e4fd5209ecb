"""The admin pages of quotas."""

from quotas.admin import (
    admission,
    enforcement,
    grants,
    isolation,
    limits,
    loans,
    preemption,
    preemption_terms,
    request_policies,
    requests,
)
from quotas.admin import grants as suspensions

__all__ = [
    "admission",
    "enforcement",
    "grants",
    "isolation",
    "limits",
    "loans",
    "preemption",
    "preemption_terms",
    "request_policies",
    "requests",
    "suspensions",
]
