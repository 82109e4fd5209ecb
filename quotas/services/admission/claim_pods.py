"""Pods with ResourceClaims: kept with their owners, for whom these count."""

from datetime import datetime
from uuid import UUID

from quotas.models import AdmittedPod


def keep_owner(*, cluster_id: UUID, pod_uid: str, owner: str, at: datetime) -> None:
    """Keep the owner of an admitted pod; the first answer about a pod stands.

    Raises:
        django.db.Error: The database is away or busy.
    """
    row = AdmittedPod(cluster_id=cluster_id, pod_uid=pod_uid, owner=owner, admitted_at=at)
    AdmittedPod.objects.bulk_create([row], ignore_conflicts=True)
