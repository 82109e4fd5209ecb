"""Input of requests: which wishes can be one, whatever the state."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from quotas.domain.grant_input import GRANT_HORIZON
from quotas.domain.limit_input import justification_problems, size_problems, units_problems
from quotas.domain.limit_selectors import model_group_problems
from tenants.domain.errors import FieldProblem


@dataclass(frozen=True)
class RequestInput:
    """What was asked, as it came in.

    Attributes:
        requested_units: The wanted total, never the difference.
        burst_units: The wanted total of burst units; None leaves them as they are.
        begin_at: UTC; None is from the approval on.
        end_at: UTC; None is without end.
    """

    size: str
    requested_units: int
    justification: str
    model_group: str = ""
    burst_units: int | None = None
    begin_at: datetime | None = None
    end_at: datetime | None = None

    @property
    def is_dated(self) -> bool:
        """Whether it becomes a grant for a time, rather than the limit itself."""
        return self.begin_at is not None or self.end_at is not None

    def problems(self, *, at: datetime) -> tuple[FieldProblem, ...]:
        """Return everything that is wrong with it.

        Args:
            at: Now, UTC.
        """
        return (
            *size_problems(self.size),
            *units_problems(self.requested_units, field="requested_units"),
            *model_group_problems(self.model_group),
            *self._burst_problems(),
            *self._time_problems(at=at),
            *justification_problems(self.justification),
        )

    def _burst_problems(self) -> Iterator[FieldProblem]:
        if self.burst_units is None:
            return
        yield from units_problems(self.burst_units, field="burst_units")
        if self.is_dated:
            message = "Leave it out: burst units are asked for without times."
            yield FieldProblem("burst_units", "burst_dated", message)

    def _time_problems(self, *, at: datetime) -> Iterator[FieldProblem]:
        for field, moment in (("begin_at", self.begin_at), ("end_at", self.end_at)):
            if moment is not None:
                yield from _moment_problems(field, moment, at=at)
        if self.begin_at is not None and self.end_at is not None and self.end_at <= self.begin_at:
            yield FieldProblem("end_at", "end_before_begin", "Name a time after begin_at.")


def _moment_problems(field: str, moment: datetime, *, at: datetime) -> Iterator[FieldProblem]:
    if moment <= at:
        message = "Name a time to come, or leave it out."
        yield FieldProblem(field, "time_past", message)
    if moment > at + GRANT_HORIZON:
        message = f"Name a time before {at + GRANT_HORIZON:%Y-%m-%d}, or leave it out."
        yield FieldProblem(field, "time_too_far", message)
