"""SQL of retention: reservations and refusals of long ago, a bounded batch at a time.

Which ones go is decided where they are deleted: a pod that lives is found by index for each.
"""

from quotas.migrations._admission import BY_INDEX, claimed_in_vain, only_runtime

# A released reservation may still be about a pod that lives: handed over to its device claim, in a
# namespace without a project, or expired and turned up since. The sweep and preemption read it.
LIVES = f"""
     EXISTS (SELECT FROM metering_podallocation a
              WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid AND a.end_at IS NULL)
  OR EXISTS (SELECT FROM metering_queuedpod q
              WHERE q.cluster_id = r.cluster_id AND q.pod_uid = r.pod_uid AND q.gone_at IS NULL
                AND NOT EXISTS (SELECT FROM metering_podallocation a
                                 WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid))
  OR EXISTS (SELECT FROM metering_claimconsumer m
               JOIN metering_podallocation a
                 ON a.cluster_id = m.cluster_id AND a.pod_uid = m.claim_uid AND a.end_at IS NULL
              WHERE m.cluster_id = r.cluster_id AND m.pod_uid = r.pod_uid AND m.end_at IS NULL)
  OR EXISTS (SELECT FROM metering_queuedpod w
              WHERE w.cluster_id = r.cluster_id AND w.bound_at IS NULL
                AND {claimed_in_vain("r", pod="w")})
"""

# Whoever asks or sweeps at that moment holds its row: it is passed over, and looked at again later.
FORGET = f"""
CREATE FUNCTION quotas_forget_reservations(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE forgotten integer;
BEGIN
  WITH old AS (
    SELECT r.id FROM quotas_reservation r
     WHERE r.state = 'released' AND r.released_at < before AND NOT ({LIVES})
     ORDER BY r.released_at LIMIT most
       FOR UPDATE OF r SKIP LOCKED)
  DELETE FROM quotas_reservation r USING old WHERE r.id = old.id;
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  RETURN forgotten;
END $$;
{only_runtime("quotas_forget_reservations(timestamptz, integer)")}
"""

# The number of refusals since the beginning must not fall, or rates over it jump: old rows are
# added up in one row for each cluster, reason and size, which names no namespace.
FOLD = f"""
CREATE FUNCTION quotas_fold_refusals(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE folded integer;
BEGIN
  WITH old AS (
    SELECT f.id FROM quotas_admissionrefusal f
     WHERE f.last_at < before AND f.namespace <> ''
     ORDER BY f.last_at LIMIT most
       FOR UPDATE SKIP LOCKED),
  gone AS (
    DELETE FROM quotas_admissionrefusal f USING old WHERE f.id = old.id RETURNING f.*),
  summed AS (
    INSERT INTO quotas_admissionrefusal AS known (
      cluster_id, namespace, workload, code, size, units, username, message, count, first_at,
      last_at)
    SELECT g.cluster_id, '', '', g.code, g.size, 0, '', '', least(sum(g.count), 2147483647),
           min(g.first_at), max(g.last_at)
      FROM gone g GROUP BY g.cluster_id, g.code, g.size
     ORDER BY g.cluster_id, g.code, g.size
    ON CONFLICT (cluster_id, namespace, workload, code, size) DO UPDATE
       SET count = least(known.count::bigint + excluded.count, 2147483647),
           first_at = least(known.first_at, excluded.first_at),
           last_at = greatest(known.last_at, excluded.last_at))
  SELECT count(*) INTO folded FROM gone;
  RETURN folded;
END $$;
{only_runtime("quotas_fold_refusals(timestamptz, integer)")}
"""
