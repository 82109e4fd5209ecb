"""Hours: one UTC hour of one cluster, as it is asked about, without any claim on its window."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.domain.resource_names import sanitise
from metering.domain.window import WINDOW
from metering.models import MeteringWindow
from metering.protocols import ClusterTarget
from tenants.models import Cluster


@dataclass(frozen=True)
class Hour:
    """What has to be known to meter an hour.

    Attributes:
        is_watched: Whether the cluster's API writes the allocation ledger.
    """

    cluster_id: UUID
    start_at: datetime
    target: ClusterTarget
    is_watched: bool = False

    @property
    def end_at(self) -> datetime:
        """Return the end of the hour, excluded."""
        return self.start_at + WINDOW

    @property
    def asks_a_source(self) -> bool:
        """Whether there is somebody to ask besides the ledger; without a watch there must be."""
        return not self.is_watched or self.target.prometheus_url != ""

    @property
    def has_two_sources(self) -> bool:
        """Whether two sources can be compared."""
        return self.is_watched and self.target.prometheus_url != ""


def hour_of(window: MeteringWindow) -> Hour:
    """Return a window's hour; reads its cluster."""
    return Hour(
        cluster_id=window.cluster_id,
        start_at=window.start_at,
        target=target_of(window.cluster),
        is_watched=window.cluster.is_watched,
    )


def target_of(cluster: Cluster) -> ClusterTarget:
    """Return a cluster as a source needs to know it."""
    return ClusterTarget(
        slug=cluster.slug,
        prometheus_url=cluster.prometheus_url,
        prometheus_credential_reference=cluster.prometheus_credential_reference,
        prometheus_scope_org_id=cluster.prometheus_scope_org_id,
        scrape_interval_seconds=cluster.scrape_interval_seconds,
        selector_label=cluster.selector_label,
        selector_value=cluster.selector_value,
        user_label=sanitise(cluster.user_label),
        label_aliases={name: tuple(names) for name, names in cluster.label_aliases.items()},
        metric_aliases={name: tuple(names) for name, names in cluster.metric_aliases.items()},
    )
