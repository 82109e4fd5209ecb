"""SQL of admission: what decides in one round trip, and what the counters are the sums of.

Functions run with the rights of whoever calls them, and only the runtime role may. Why it is SQL,
and in which order what is locked: docs/adr/0020.
"""

from tenants.migrations._ledger import RUNTIME_ROLE


def holds(limit: str, *, of: str) -> str:
    """Return the condition under which a limit counts a reservation: its holder and selector.

    Args:
        limit: Alias of a limit; its user is joined as `<alias>_user`.
        of: Alias of what has the columns of a reservation.
    """
    return (
        f"{limit}.organization_id = {of}.organization_id AND {limit}.size = {of}.size"
        f" AND ({limit}.project_id IS NULL OR {limit}.project_id = {of}.project_id)"
        f" AND ({limit}.user_id IS NULL OR {limit}_user.username = {of}.username)"
        f" AND ({limit}.cluster_id IS NULL OR {limit}.cluster_id = {of}.cluster_id)"
        f" AND ({limit}.model_group = '' OR {of}.model_groups = '{{}}'"
        f" OR {limit}.model_group = ANY ({of}.model_groups))"
    )


def only_runtime(signature: str) -> str:
    """Return SQL that lets the runtime role call a function, and nobody else."""
    return (
        f"REVOKE EXECUTE ON FUNCTION {signature} FROM PUBLIC;\n"
        f"GRANT EXECUTE ON FUNCTION {signature} TO {RUNTIME_ROLE};\n"
    )


PINNED = "SET search_path = public, pg_temp"
# For one pod's look-ups: plans are kept by each connection, and one that was made while a table
# was empty would read the whole table for every pod once it is full. Since they go by index
# whatever is asked, they are never made anew for one question: that would cost more than the rest.
BY_INDEX = (
    f"{PINNED} SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off"
    " SET plan_cache_mode = force_generic_plan"
)

# What every counter should say; the reservations are the truth, the counters are their sums.
# They are added up by what tells them apart before they meet the limits.
VIEW = f"""
CREATE VIEW quotas_counted AS
WITH live AS (
  SELECT organization_id, project_id, username, cluster_id, size, model_groups,
         coalesce(sum(units) FILTER (WHERE state = 'held' AND NOT is_burst), 0) AS held,
         coalesce(sum(units) FILTER (WHERE state = 'reserved' AND NOT is_burst), 0) AS reserved,
         coalesce(sum(units) FILTER (WHERE state = 'held' AND is_burst), 0) AS burst_held,
         coalesce(sum(units) FILTER (WHERE state = 'reserved' AND is_burst), 0) AS burst_reserved
    FROM quotas_reservation WHERE state <> 'released'
   GROUP BY organization_id, project_id, username, cluster_id, size, model_groups)
SELECT l.id AS limit_id, l.organization_id,
       coalesce(sum(r.held), 0)::bigint AS held_units,
       coalesce(sum(r.reserved), 0)::bigint AS reserved_units,
       coalesce(sum(r.burst_held), 0)::bigint AS burst_held_units,
       coalesce(sum(r.burst_reserved), 0)::bigint AS burst_reserved_units
  FROM quotas_quotalimit l
  LEFT JOIN auth_user l_user ON l_user.id = l.user_id
  LEFT JOIN live r ON {holds("l", of="r")}
 GROUP BY l.id, l.organization_id;
"""

LOCK_KEY = f"""
CREATE FUNCTION quotas_lock_key(organization uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
  hashtextextended('quotas.admission ' || organization::text, 0);
{only_runtime("quotas_lock_key(uuid)")}
"""

# Whose counters are all open is told apart first: adding up reads every live reservation.
OPEN_COUNTERS = f"""
CREATE FUNCTION quotas_open_counters(organization uuid) RETURNS integer
LANGUAGE plpgsql {PINNED} AS $$
DECLARE made integer;
BEGIN
  PERFORM pg_advisory_xact_lock(quotas_lock_key(organization));
  PERFORM FROM quotas_quotalimit l
    WHERE l.organization_id = organization
      AND NOT EXISTS (SELECT FROM quotas_quotacounter c WHERE c.limit_id = l.id) LIMIT 1;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  INSERT INTO quotas_quotacounter
    (limit_id, held_units, reserved_units, burst_held_units, burst_reserved_units)
  SELECT n.limit_id, n.held_units, n.reserved_units, n.burst_held_units, n.burst_reserved_units
    FROM quotas_counted n
   WHERE n.organization_id = organization
     AND NOT EXISTS (SELECT FROM quotas_quotacounter c WHERE c.limit_id = n.limit_id)
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS made = ROW_COUNT;
  RETURN made;
END $$;
{only_runtime("quotas_open_counters(uuid)")}
"""


# What no longer counts, and why. A pod the watch has seen waiting does not expire. Nor does one the
# watch could not have seen: only a heartbeat after its time proves that it is not there. Where no
# watch is wanted any more, none will ever come, and time alone decides. The watch is told of device
# claims only once they are allocated: until then one lives as long as a pod that uses it.
def claimed_in_vain(reservation: str, *, pod: str) -> str:
    """Return the condition under which a pod waits for a device claim that is not allocated.

    Args:
        reservation: Alias of the claim's.
        pod: Alias of a queued pod.
    """
    return (
        f"{reservation}.resource LIKE 'claim/%' AND {pod}.gone_at IS NULL"
        f" AND {pod}.cluster_id = {reservation}.cluster_id"
        f" AND {pod}.namespace = {reservation}.namespace"
        f" AND {pod}.requests ? ('claim/' || {reservation}.pod_name)"
        " AND NOT EXISTS (SELECT FROM metering_podallocation x"
        f" WHERE x.cluster_id = {reservation}.cluster_id AND x.pod_uid = {reservation}.pod_uid)"
    )


def unseen_too_long(reservation: str) -> str:
    """Return the condition under which a reserved pod that nobody has seen expires at `moment`.

    Args:
        reservation: Alias of it.
    """
    return (
        f"{reservation}.state = 'reserved' AND {reservation}.expires_at <= moment"
        " AND NOT EXISTS (SELECT FROM tenants_cluster k"
        " LEFT JOIN metering_clusterwatch w ON w.cluster_id = k.id"
        f" WHERE k.id = {reservation}.cluster_id AND k.is_watched"
        f" AND (w.healthy_at IS NULL OR w.healthy_at < {reservation}.expires_at))"
        " AND NOT EXISTS (SELECT FROM metering_queuedpod u"
        f" WHERE {claimed_in_vain(reservation, pod='u')})"
    )


OVER = f"""
CREATE FUNCTION quotas_over(organization uuid, moment timestamptz)
RETURNS TABLE (reservation_id bigint, reason text)
LANGUAGE sql STABLE {BY_INDEX} AS $$
  SELECT r.id,
         CASE WHEN a.end_at IS NOT NULL THEN 'ended'
              WHEN q.gone_at IS NOT NULL THEN 'gone' ELSE 'expired' END
    FROM quotas_reservation r
    LEFT JOIN metering_podallocation a
      ON a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid AND a.resource = r.resource
    LEFT JOIN metering_queuedpod q ON q.cluster_id = r.cluster_id AND q.pod_uid = r.pod_uid
   WHERE r.organization_id = organization AND r.state <> 'released'
     AND (a.end_at IS NOT NULL
          OR (a.id IS NULL AND q.gone_at IS NOT NULL)
          OR (a.id IS NULL AND q.id IS NULL AND {unseen_too_long("r")}))
$$;
{only_runtime("quotas_over(uuid, timestamptz)")}
"""

# Looked for only where somebody was refused.
MAY_BE_STALE = f"""
CREATE FUNCTION quotas_may_be_stale(question jsonb, organization uuid, verdict jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE {BY_INDEX} AS $$
BEGIN
  PERFORM FROM quotas_over(organization, (question->>'at')::timestamptz) LIMIT 1;
  IF FOUND THEN
    RETURN true;
  END IF;
  -- The same pod may have been let in while this one waited for a counter.
  PERFORM FROM quotas_reservation r
    WHERE r.cluster_id = (question->>'cluster_id')::uuid
      AND r.pod_uid = question->>'pod_uid' AND r.state <> 'released';
  RETURN FOUND AND verdict->>'code' <> 'replayed_otherwise';
END $$;
{only_runtime("quotas_may_be_stale(jsonb, uuid, jsonb)")}
"""

# The caller holds the organization's lock alone. A counter that has drifted is not driven below
# zero: that would stop admission for what the comparison repairs.
SETTLE = f"""
CREATE FUNCTION quotas_settle(organization uuid, moment timestamptz) RETURNS integer
LANGUAGE plpgsql {PINNED} AS $$
DECLARE settled integer;
BEGIN
  PERFORM quotas_open_counters(organization);
  WITH over AS MATERIALIZED (
    SELECT r.*, o.reason FROM quotas_over(organization, moment) o
      JOIN quotas_reservation r ON r.id = o.reservation_id),
  released AS (
    UPDATE quotas_reservation r
       SET state = 'released', released_at = moment, release_reason = o.reason
      FROM over o WHERE r.id = o.id RETURNING r.id),
  freed AS (
    SELECT l.id,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'held' AND NOT o.is_burst), 0) AS held,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'reserved' AND NOT o.is_burst), 0)
             AS reserved,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'held' AND o.is_burst), 0) AS burst_held,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'reserved' AND o.is_burst), 0)
             AS burst_reserved
      FROM over o
      JOIN quotas_quotalimit l ON l.organization_id = organization
      LEFT JOIN auth_user l_user ON l_user.id = l.user_id
     WHERE {holds("l", of="o")}
     GROUP BY l.id),
  counted AS (
    UPDATE quotas_quotacounter c
       SET held_units = greatest(0, c.held_units - f.held),
           reserved_units = greatest(0, c.reserved_units - f.reserved),
           burst_held_units = greatest(0, c.burst_held_units - f.burst_held),
           burst_reserved_units = greatest(0, c.burst_reserved_units - f.burst_reserved)
      FROM freed f WHERE c.limit_id = f.id)
  SELECT count(*) INTO settled FROM released;
  RETURN settled;
END $$;
{only_runtime("quotas_settle(uuid, timestamptz)")}
"""

# One row for each workload, code and size; who tries again and again is counted there.
REFUSE = f"""
CREATE FUNCTION quotas_refuse(
  question jsonb, organization uuid, project uuid, person text, verdict jsonb)
RETURNS void LANGUAGE sql {PINNED} AS $$
  INSERT INTO quotas_admissionrefusal (
    cluster_id, namespace, workload, code, size, units, organization_id, project_id, username,
    message, count, first_at, last_at)
  SELECT (question->>'cluster_id')::uuid, question->>'namespace',
         coalesce(nullif(question->>'controller', ''), 'Pod/' || (question->>'pod_name')),
         verdict->>'code', coalesce(b->>'size', d->>'size', ''),
         coalesce((b->>'asked_units')::bigint, (d->>'units')::bigint, 0),
         organization, project, person,
         CASE WHEN b->>'holder' IS NULL THEN coalesce(verdict->>'reason', '')
              ELSE format('%s %s: %s of %s %s held, %s reserved, %s asked.', b->>'scope',
                          b->>'holder', b->>'used_units', b->>'limit_units', b->>'size',
                          b->>'reserved_units', b->>'asked_units') END,
         1, (question->>'at')::timestamptz, (question->>'at')::timestamptz
    FROM (SELECT verdict->'blocker' AS b, question->'demands'->0 AS d) t
  ON CONFLICT (cluster_id, namespace, workload, code, size) DO UPDATE
     SET count = quotas_admissionrefusal.count + 1, units = excluded.units,
         message = excluded.message, organization_id = excluded.organization_id,
         project_id = excluded.project_id, username = excluded.username,
         last_at = greatest(quotas_admissionrefusal.last_at, excluded.last_at)
$$;
{only_runtime("quotas_refuse(jsonb, uuid, uuid, text, jsonb)")}
"""

# Whose a namespace is. It is found, too, where project or organization are closed: that is nobody's
# namespace only if no project has it.
PLACE = f"""
CREATE FUNCTION quotas_place(question jsonb, moment timestamptz)
RETURNS TABLE (
  organization_id uuid, project_id uuid, is_open boolean, is_lenient boolean, person text,
  person_id integer)
LANGUAGE sql STABLE AS $$
  SELECT p.organization_id, p.id, p.state = 'active' AND o.state = 'active',
         k.admission_mode = 'warn',
         coalesce(nullif(question->>'owner', ''), u.username, ''),
         CASE WHEN coalesce(question->>'owner', '') = '' THEN u.id
              ELSE (SELECT w.id FROM auth_user w WHERE w.username = question->>'owner') END
    FROM tenants_namespacebinding b
    JOIN tenants_project p ON p.id = b.project_id
    JOIN tenants_organization o ON o.id = p.organization_id
    JOIN tenants_cluster k ON k.id = b.cluster_id
    LEFT JOIN auth_user u ON u.id = b.default_owner_id
   WHERE b.cluster_id = (question->>'cluster_id')::uuid
     AND b.namespace = question->>'namespace' AND b.valid @> moment
$$;
{only_runtime("quotas_place(jsonb, timestamptz)")}
"""
