"""Owners of staged pods: an owner annotation is believed where admission has admitted the pod.

A pod that was created while the webhook was away may name anybody. It belongs to the default owner
of its namespace, and an exception of the hour of its bind says so. Admission is an app above: the
setting ADMITTED_OWNERS names the function that knows the admitted owners.
"""

import json
from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.utils.module_loading import import_string

AdmittedOwners = Callable[[UUID, Collection[str]], Mapping[str, str]]
"""Returns the owner by uid of those of a cluster's pods that were admitted; "" for no owner."""

# What was known when a pod was first observed stays.
_KEEP = """
UPDATE watch_snapshot s SET owner = q.owner
  FROM metering_queuedpod q
 WHERE q.cluster_id = %s AND q.pod_uid = s.uid AND s.stamped_owner <> ''
"""
_NEW = """
SELECT s.uid FROM watch_snapshot s
 WHERE s.stamped_owner <> '' AND NOT EXISTS (
   SELECT FROM metering_queuedpod q WHERE q.cluster_id = %s AND q.pod_uid = s.uid)
"""
_BELIEVE = """
UPDATE watch_snapshot s
   SET owner = COALESCE(a.owner, ''),
       unproven_owner = CASE WHEN a.owner = s.stamped_owner THEN '' ELSE s.stamped_owner END
  FROM unnest(%(uids)s::text[]) AS n(uid)
  LEFT JOIN jsonb_each_text(%(owners)s) AS a(uid, owner) ON a.uid = n.uid
 WHERE s.uid = n.uid
"""


def believe_owners(cluster_id: UUID) -> None:
    """Set the owners of staged pods that carry the annotation, within a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, [cluster_id])
        cursor.execute(_NEW, [cluster_id])
        uids = [uid for (uid,) in cursor.fetchall()]
        if not uids:
            return
        find_owners: AdmittedOwners = import_string(settings.ADMITTED_OWNERS)
        owners = json.dumps(dict(find_owners(cluster_id, uids)))
        cursor.execute(_BELIEVE, {"uids": uids, "owners": owners})
