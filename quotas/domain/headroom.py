"""Headroom: what is held against what may be held."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Headroom:
    """Units held against a limit.

    Attributes:
        limit_units: None when no limit is set.
        used_units: What is held now; more than the limit after the limit was lowered.
    """

    limit_units: int | None
    used_units: int

    @property
    def free_units(self) -> int | None:
        """How many more may be held: never negative; None when no limit is set."""
        return None if self.limit_units is None else max(0, self.limit_units - self.used_units)

    @property
    def over_units(self) -> int:
        """How many are held beyond the limit."""
        return 0 if self.limit_units is None else max(0, self.used_units - self.limit_units)

    @property
    def used_percent(self) -> int | None:
        """Whole percent of the limit in use, rounded down, at most 100; None without a limit.

        A limit of zero is full: nothing more can be held.
        """
        if self.limit_units is None:
            return None
        if self.limit_units == 0:
            return 100
        return min(100, 100 * self.used_units // self.limit_units)
