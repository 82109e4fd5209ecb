"""`manage.py watch_cluster`, with quotas: it also repairs ResourceQuotas that others delete.

It replaces metering's command, in the same process, because `quotas` stands before `metering` among
the installed apps.
"""

import threading
from collections.abc import Collection, Sequence
from typing import Any

from django.conf import settings

from metering.management.commands.watch_cluster import ACTOR, Crew
from metering.management.commands.watch_cluster import Command as MeteringCommand
from quotas.adapters import quota_enforcer, quota_watch
from quotas.selectors.enforcement.targets import clusters_with_resource_quotas
from quotas.services.enforcement.asking import endpoint_of_cluster
from quotas.services.enforcement.watching import EnforcedCluster, QuotaWatcher, keep_quotas
from tenants.selectors.clock import database_now


class Command(MeteringCommand):
    """Watch clusters and their quotas until stopped."""

    def crews(self) -> Sequence[Crew[Any]]:
        """Return what this process keeps: the ledger, and our quotas."""
        return [*super().crews(), QuotaCrew()]


class QuotaCrew(Crew[EnforcedCluster]):
    """The threads that watch our quotas."""

    def find(self, slugs: Collection[str]) -> Collection[EnforcedCluster]:
        """Return the clusters with ResourceQuotas of ours."""
        return [
            EnforcedCluster(cluster.pk, endpoint_of_cluster(cluster))
            for cluster in clusters_with_resource_quotas(slugs)
        ]

    def name_of(self, cluster: EnforcedCluster) -> str:
        """Return the name of a cluster's thread."""
        return f"quotas-{cluster.endpoint.slug}"

    def keep(self, cluster: EnforcedCluster, stop: threading.Event) -> None:
        """Watch the quotas of a cluster."""
        watcher = QuotaWatcher(
            watch=quota_watch(settings.QUOTA_ENFORCER),
            enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
            actor=ACTOR,
            clock=database_now,
            stop=stop,
        )
        keep_quotas(cluster=cluster, watcher=watcher)
