"""Net usage: what a sealed window holds of each pod and resource, over all revisions.

A record that a correction took back holds nothing, and use that was posted late counts like any
other. A statement that begins with this has one row per pod and resource in `net`: the columns of
the newest revision that tells a time, `net_unit_seconds`, and `record_id`, the first revision's id.
"""

from typing import Final

# A retraction tells no time of its own, so that the time stays known if use is added again.
NET_USAGE: Final = """
WITH told AS (
  SELECT DISTINCT ON (r.pod_uid, r.resource) r.*, sum(r.unit_seconds) OVER k AS net_unit_seconds,
         min(r.id) OVER k AS record_id
    FROM metering_usagerecord r
   WHERE r.window_id = %(window)s AND r.window_start = %(start)s
  WINDOW k AS (PARTITION BY r.pod_uid, r.resource)
   ORDER BY r.pod_uid, r.resource, (r.seconds > 0) DESC, r.revision DESC),
net AS MATERIALIZED (
  SELECT * FROM told WHERE net_unit_seconds > 0)"""
