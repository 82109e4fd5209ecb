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
    suspensions,
)

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
