"""Export files into memory, for tests and the demo; nothing is sent."""

from typing import ClassVar

from billing.protocols import ExportPlace, OutgoingFile
from tenants.domain.errors import SourceUnavailableError


class SimulatedDestination:
    """Keeps the content of files by name; fails for the configured names."""

    delivered: ClassVar[dict[str, bytes]] = {}
    failing: ClassVar[set[str]] = set()
    attempts: ClassVar[list[str]] = []

    @classmethod
    def purge(cls) -> None:
        """Start anew."""
        cls.delivered.clear()
        cls.failing.clear()
        cls.attempts.clear()

    def deliver(self, file: OutgoingFile) -> None:
        """Keep it.

        Raises:
            SourceUnavailableError: Its name is among those that fail.
        """
        self.attempts.append(file.name)
        if file.name in self.failing:
            raise SourceUnavailableError("Nothing answers there.", reason="unreachable")
        self.delivered[file.name] = file.path.read_bytes()

    def check(self, place: ExportPlace) -> None:
        """Find everything well.

        Raises:
            SourceUnavailableError: Its address is among those that fail.
        """
        if place.address in self.failing:
            raise SourceUnavailableError("Nothing answers there.", reason="unreachable")
