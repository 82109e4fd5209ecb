"""The digests of a sealed window: over its metered records, its capacity and its device figures."""

from typing import Final

from django.db import connection

# Times as whole seconds and texts as JSON, so that the digest depends on no session setting. It is
# the text of a JSON array; `jsonb_build_array` made it first, and would take three times as long
# to make the same. A record ends its seconds after its begin.
RECORD_LINE: Final = """concat('[',
                 date_part('epoch', u.window_start)::bigint, ', "', u.cluster_id, '", ',
                 to_json(u.pod_uid), ', ', to_json(u.resource), ', ', u.revision, ', "',
                 u.organization_id, '", "', u.project_id, '", ', to_json(u.owner), ', ',
                 to_json(u.namespace), ', ', to_json(u.pod_name), ', ', to_json(u.node), ', ',
                 to_json(u.size), ', ', to_json(u.price_group), ', ', to_json(u.sharing_mode), ', ',
                 u.share_numerator, ', ', u.share_denominator, ', ', u.units, ', ',
                 u.split_among, ', ', date_part('epoch', u.begin_at)::bigint, ', ',
                 date_part('epoch', u.begin_at)::bigint + u.seconds, ', ', u.seconds, ', ',
                 u.unit_seconds, ', ', to_json(u.end_kind), ', ', u.slack_seconds, ', ',
                 u.catalogue_version, ', ', coalesce(u.busy_ratio::text, 'null'), ', ',
                 coalesce(u.busy_coverage::text, 'null'), ', ',
                 coalesce(u.energy_millijoules::text, 'null'), ']')"""
DIGEST_OF_LINES: Final = """encode(sha256(convert_to(COALESCE(string_agg(line, E'\\n'
             ORDER BY pod_uid COLLATE "C", resource COLLATE "C", revision), ''), 'UTF8')), 'hex')"""
DIGEST_OF_DEVICES: Final = """encode(sha256(convert_to(COALESCE(
                 string_agg(line, E'\\n' ORDER BY line COLLATE "C"), ''), 'UTF8')), 'hex')"""

DIGEST_OF_CAPACITY: Final = """encode(sha256(convert_to(COALESCE(string_agg(
             jsonb_build_array(k.node, k.resource, k.size, k.price_group, k.sharing_mode,
               k.share_numerator, k.share_denominator, k.allocatable_units,
               k.capacity_unit_seconds, k.billed_unit_seconds, k.held_unit_seconds,
               k.idle_unit_seconds)::text, E'\\n'
             ORDER BY k.node COLLATE "C", k.resource COLLATE "C"), ''), 'UTF8')), 'hex')"""


def capacity_digest(window_id: int) -> str:
    """Return the SHA-256 over a window's capacity, in order of node and resource."""
    query = f"SELECT {DIGEST_OF_CAPACITY} FROM metering_capacityrecord k WHERE k.window_id = %s"  # noqa: S608 - A constant.
    with connection.cursor() as cursor:
        cursor.execute(query, [window_id])
        (digest,) = cursor.fetchone()
    return str(digest)


def device_lines(window_id: str, start_at: str) -> str:
    """Return SQL of a window's lines of device figures, one column `line`.

    Args:
        window_id: An expression of ours, never a value.
        start_at: Likewise, of the window's hour.
    """
    return f"""
  SELECT jsonb_build_array('device', d.uuid, d.instance_id, d.instance_profile,
           extract(epoch FROM d.begin_at), extract(epoch FROM d.end_at), d.attribution, d.node,
           d.pod_uid, d.resource, d.project_id, d.busy_ratio, d.busy_coverage, d.is_busy_uncertain,
           d.sm_active_ratio, d.tensor_active_ratio, d.dram_active_ratio,
           d.memory_used_peak_mebibytes, d.memory_total_mebibytes, d.power_mean_milliwatts,
           d.energy_millijoules)::text AS line
    FROM metering_deviceusage d
   WHERE d.window_id = {window_id} AND d.window_start = {start_at}
   UNION ALL
  SELECT jsonb_build_array('usage', a.pod_uid, a.resource, a.busy_ratio, a.busy_coverage,
           a.energy_millijoules)::text
    FROM metering_usageactivity a WHERE a.window_id = {window_id}"""  # noqa: S608 - Of ours.
