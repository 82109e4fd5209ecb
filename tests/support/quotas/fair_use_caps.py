"""Builder of walls: the quota of a namespace, as it was read from its cluster."""

from datetime import datetime

from quotas.models import EnforcementTarget
from tenants.models import Cluster, Project
from tests.support.builders import AT

GPU = "requests.nvidia.com/gpu"


def make_wall(
    cluster: Cluster,
    project: Project,
    *,
    hard: int,
    used: int,
    namespace: str | None = None,
    is_read: bool = True,
    read_at: datetime = AT,
) -> EnforcementTarget:
    """Return a namespace's quota of whole GPUs, read back from the cluster unless set otherwise.

    A cluster that offers nothing yet offers whole GPUs from then on.
    """
    Cluster.objects.filter(pk=cluster.pk, offered_resources=[]).update(
        offered_resources=["nvidia.com/gpu"]
    )
    return EnforcementTarget.objects.create(
        cluster=cluster,
        namespace=namespace or project.slug,
        project=project,
        live_hard={GPU: hard},
        live_used={GPU: used},
        not_before=AT,
        checked_at=read_at if is_read else None,
    )
