"""Every event that is told, named `<app>:<resource>:<verb>`.

They are written down once so that who asks to be told of one that does not exist is refused, and
not silently told nothing. What each means is in docs/reference/notifications.md.
"""

from typing import Final

EVENTS: Final = frozenset(
    {
        "tenants:account_change:asked",
        "quotas:request:submitted",
        "quotas:request:escalated",
        "quotas:request:commented",
        "quotas:request:approved",
        "quotas:request:rejected",
        "quotas:request:expired",
        "quotas:grant:ending",
        "quotas:loan:proposed",
        "quotas:loan:active",
        "quotas:loan:declined",
        "quotas:loan:ended",
        "quotas:loan:recalled",
        "quotas:preemption:proposed",
        "quotas:preemption:announced",
    }
)
