"""Check of the applied namespaceSelector: are namespaces bound to projects that it leaves out.

A configuration that reviews only bound namespaces names them. Enforcement brings it up to the
bindings where the cluster allows it. Pods of a namespace that is missing are counted only once they
run, so this is logged and counted.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from quotas.adapters.pod_proofs import PodProofs
from quotas.protocols import EnforcementEndpoint
from quotas.selectors.admission.facts import bound_namespaces
from quotas.webhook.figures import count_unselected

logger = structlog.get_logger(__name__)

CHECK_EVERY: Final = timedelta(minutes=1)


class SelectorCheck:
    """The applied selector of one cluster.

    Args:
        cluster_id: Which cluster.
        endpoint: Where its API is.
        proofs: Reads it.
    """

    def __init__(self, cluster_id: UUID, endpoint: EnforcementEndpoint, proofs: PodProofs) -> None:
        """Start without any knowledge."""
        self._cluster_id = cluster_id
        self._endpoint = endpoint
        self._proofs = proofs
        self._checked_at: datetime | None = None
        self._missing: tuple[str, ...] = ()

    def look(self, at: datetime) -> tuple[str, ...]:
        """Return bound namespaces that the applied selector leaves out, read once a minute.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
            django.db.Error: The database is away.
        """
        if self._checked_at is not None and at < self._checked_at + CHECK_EVERY:
            return self._missing
        self._checked_at = at
        selected = self._proofs.read_selected(self._endpoint)
        bound = () if selected is None else bound_namespaces(self._cluster_id, at=at)
        missing = tuple(name for name in bound if name not in (selected or ()))
        if missing and missing != self._missing:
            logger.warning(
                "admission.selector_outdated", cluster=self._endpoint.slug, namespaces=missing
            )
        self._missing = missing
        count_unselected(self._endpoint.slug, len(missing))
        return missing
