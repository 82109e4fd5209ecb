"""Notifications into memory, for tests and the demo; nothing is sent."""

from typing import ClassVar

from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import OutgoingNotification


class SimulatedSender:
    """Keeps what was sent; fails for the configured addresses."""

    sent: ClassVar[list[OutgoingNotification]] = []
    failing: ClassVar[set[str]] = set()

    @classmethod
    def purge(cls) -> None:
        """Start anew."""
        cls.sent.clear()
        cls.failing.clear()

    def send(self, notification: OutgoingNotification) -> None:
        """Keep it.

        Raises:
            SourceUnavailableError: Its address is among those that fail.
        """
        if notification.address in self.failing:
            raise SourceUnavailableError("Nobody is there.", reason="unreachable")
        self.sent.append(notification)
