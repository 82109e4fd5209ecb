"""The wake-up of enforcement, by name: services know no task."""

from typing import Final

from tenants.services.wakeups import wake_after_commit

ENFORCEMENT: Final = "quotas.tick_enforcement"


def wake_enforcement() -> None:
    """Have what changed planned and applied soon after the transaction commits.

    Nothing is sent when it rolls back. A wake-up that is lost costs the seconds to the next tick.
    """
    wake_after_commit(ENFORCEMENT)
