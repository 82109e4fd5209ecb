"""Owners of admitted pods, as admission knows them."""

from collections.abc import Collection, Mapping
from uuid import UUID

from django.db import connection

_OWNERS = """
SELECT pod_uid, max(owner) FROM (
  SELECT r.pod_uid, r.owner FROM quotas_reservation r
   WHERE r.cluster_id = %(cluster_id)s AND r.pod_uid = ANY(%(uids)s) AND r.origin = 'admission'
  UNION ALL
  SELECT p.pod_uid, p.owner FROM quotas_admittedpod p
   WHERE p.cluster_id = %(cluster_id)s AND p.pod_uid = ANY(%(uids)s)) admitted
 GROUP BY pod_uid
"""


def admitted_owners(cluster_id: UUID, pod_uids: Collection[str]) -> Mapping[str, str]:
    """Return the owner of each of these pods that was admitted, "" without one; one statement."""
    if not pod_uids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_OWNERS, {"cluster_id": cluster_id, "uids": list(pod_uids)})
        return dict(cursor.fetchall())
