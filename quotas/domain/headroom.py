"""Headroom: what is held and let in, against what may be held."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Headroom:
    """Units against a limit.

    Nominal and burst units never mix: a preemptible pod counts against `burst_limit_units` only,
    every other pod against `limit_units` only.

    Attributes:
        limit_units: What is in force, with grants; None where no number binds: not set, or
            unlimited.
        used_units: What bound pods hold now; more than the limit after the limit was lowered.
        reserved_units: What was let in and is not bound to a node yet.
        burst_limit_units: What preemptible pods may hold beyond.
        burst_used_units: What they hold, let in or bound.
    """

    limit_units: int | None
    used_units: int
    reserved_units: int = 0
    burst_limit_units: int = 0
    burst_used_units: int = 0

    @property
    def taken_units(self) -> int:
        """What is held and let in: what nobody else may have."""
        return self.used_units + self.reserved_units

    @property
    def free_units(self) -> int | None:
        """How many more may be held: never negative; None where no number binds."""
        return None if self.limit_units is None else max(0, self.limit_units - self.taken_units)

    @property
    def over_units(self) -> int:
        """How many are taken beyond the limit."""
        return 0 if self.limit_units is None else max(0, self.taken_units - self.limit_units)

    @property
    def burst_free_units(self) -> int:
        """How many more preemptible pods may hold."""
        return max(0, self.burst_limit_units - self.burst_used_units)

    @property
    def used_percent(self) -> int | None:
        """Whole percent of the limit that is taken, rounded down, at most 100; None without one.

        A limit of zero is full: nothing more can be held.
        """
        if self.limit_units is None:
            return None
        if self.limit_units == 0:
            return 100
        return min(100, 100 * self.taken_units // self.limit_units)

    @property
    def held_percent(self) -> int:
        """Whole percent of the limit that bound pods hold, rounded down, at most 100."""
        if self.limit_units is None:
            return 0
        if self.limit_units == 0:
            return 100 if self.used_units else 0
        return min(100, 100 * self.used_units // self.limit_units)
