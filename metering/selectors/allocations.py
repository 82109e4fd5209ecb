"""The allocation ledger: what pods were found to hold at first sight."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.domain.resource_names import sanitise
from metering.models import PodAllocation


@dataclass(frozen=True)
class AllocationFact:
    """What a pod holds of one resource, as settled once and for all; see models.PodAllocation.

    Attributes:
        resource: Kubernetes' spelling.
        owner: Whom the pod's label names, or "".
    """

    pod_uid: str
    resource: str
    namespace: str
    pod_name: str
    node: str
    owner: str
    units: int
    size: str
    price_group: str
    sharing_mode: str
    product: str
    share_numerator: int
    share_denominator: int
    catalogue_version: int
    begin_at: datetime


FACT_COLUMNS = tuple(AllocationFact.__dataclass_fields__)

AllocationKey = tuple[str, str]
"""Pod uid and sanitised resource name."""


def known_allocations(
    cluster_id: UUID, *, pod_uids: Collection[str]
) -> Mapping[AllocationKey, AllocationFact]:
    """Return what the ledger knows of some pods, by uid and sanitised resource."""
    rows = PodAllocation.objects.filter(
        cluster_id=cluster_id, pod_uid__in=list(pod_uids)
    ).values_list(*FACT_COLUMNS)
    facts = (AllocationFact(*row) for row in rows)
    return {(fact.pod_uid, sanitise(fact.resource)): fact for fact in facts}
