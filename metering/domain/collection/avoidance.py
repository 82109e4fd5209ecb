"""Clusters that one worker process leaves to others, because it could not reach their sources."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from metering.domain.collection.windows import BACKOFF_SECONDS_MAX, backoff_seconds

SHARE_OF_OTHERS: Final = 2
"""Times the pause after which the hours of a cluster are due again: others try them before. The
longest pause is not doubled, for there may be no others."""


@dataclass
class AvoidedClusters:
    """The memory of one process: a source that it cannot reach may well answer the others."""

    _failures: dict[UUID, int] = field(default_factory=dict)
    _until: dict[UUID, datetime] = field(default_factory=dict)

    def add(self, cluster_id: UUID, *, at: datetime) -> None:
        """Avoid a cluster from now on, for longer after each failure in a row."""
        failures = self._failures[cluster_id] = self._failures.get(cluster_id, 0) + 1
        wait = backoff_seconds(failures=failures, seed=str(cluster_id))
        lasting = max(wait, min(SHARE_OF_OTHERS * wait, BACKOFF_SECONDS_MAX))
        self._until[cluster_id] = at + timedelta(seconds=lasting)

    def remove(self, cluster_id: UUID) -> None:
        """Forget the failures of a cluster whose source answered."""
        self._failures.pop(cluster_id, None)
        self._until.pop(cluster_id, None)

    def during(self, at: datetime) -> Collection[UUID]:
        """Return the clusters that are avoided at a time."""
        return [cluster_id for cluster_id, until in self._until.items() if at < until]
