"""SQL that lets many pods in at once: those that plainly fit, in one statement for all."""

from quotas.migrations._admission import BY_INDEX, only_runtime

# Most questions are of pods that fit with room to spare, and what one costs is mostly the way to
# the ledger and back. So whoever has several asks them together. What is not plain is left out,
# and is asked by itself: dry runs, replays, clusters that only warn, tenants that are closed,
# suspended or without limits, sizes nobody granted, and limits that would be at 90 percent or more.
#
# Nobody waits here for an organization's lock: pods of one that is being changed are left out, too.
# Counters are locked in the one order, one organization's after another's by their ids, and hardly
# waited for. A pod that is asked twice is left out; one that another connection asks meanwhile
# stops the whole statement, and then each is asked by itself.
ADMIT_MANY = f"""
CREATE FUNCTION quotas_admit_many(questions jsonb) RETURNS integer[]
LANGUAGE plpgsql {BY_INDEX} SET lock_timeout = '25ms' AS $$
DECLARE
  theirs uuid[];
  -- One entry a pod and a limit that counts it, with whose the pod is.
  numbers integer[];
  organizations uuid[];
  projects uuid[];
  usernames text[];
  limits uuid[];
  units bigint[];
  caps bigint[];
  -- One entry a counter, as it stands under its lock.
  counters uuid[];
  taken bigint[];
  taken_burst bigint[];
  is_used boolean[];
  fitting integer[];
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);

  SELECT array_agg(o.id) INTO theirs
    FROM (SELECT DISTINCT p.organization_id AS id
            FROM jsonb_to_recordset(questions)
                   AS q(cluster_id uuid, namespace text, at timestamptz)
            JOIN tenants_namespacebinding b ON b.cluster_id = q.cluster_id
             AND b.namespace = q.namespace AND b.valid @> q.at
            JOIN tenants_project p ON p.id = b.project_id
           ORDER BY 1) o
   WHERE pg_try_advisory_xact_lock_shared(quotas_lock_key(o.id));
  IF theirs IS NULL THEN
    RETURN '{{}}';
  END IF;

  -- Whose a namespace is, is read again under the locks, for the last time.
  WITH told AS (
    SELECT q.*, count(*) OVER (PARTITION BY q.cluster_id, q.pod_uid) AS times
      FROM ROWS FROM (jsonb_to_recordset(questions)
             AS (cluster_id uuid, namespace text, pod_uid text, owner text, at timestamptz,
                 is_burst boolean, is_dry_run boolean, demands jsonb))
           WITH ORDINALITY
             AS q(cluster_id, namespace, pod_uid, owner, at, is_burst, is_dry_run, demands,
                  number)),
  asked AS MATERIALIZED (
    SELECT q.*, p.organization_id, p.id AS project_id,
           coalesce(nullif(q.owner, ''), u.username, '') AS username,
           CASE WHEN q.owner = '' THEN u.id
                ELSE (SELECT w.id FROM auth_user w WHERE w.username = q.owner) END AS person_id
      FROM told q
      JOIN tenants_namespacebinding b
        ON b.cluster_id = q.cluster_id AND b.namespace = q.namespace AND b.valid @> q.at
      JOIN tenants_project p ON p.id = b.project_id AND p.state = 'active'
      JOIN tenants_organization o ON o.id = p.organization_id AND o.state = 'active'
      JOIN tenants_cluster k ON k.id = q.cluster_id AND k.admission_mode <> 'warn'
      LEFT JOIN auth_user u ON u.id = b.default_owner_id
     WHERE NOT q.is_dry_run AND q.times = 1 AND p.organization_id = ANY (theirs)
       AND NOT EXISTS (
         SELECT FROM quotas_reservation r
          WHERE r.cluster_id = q.cluster_id AND r.pod_uid = q.pod_uid)
       AND NOT EXISTS (
         SELECT FROM quotas_quotasuspension s
          WHERE s.organization_id = p.organization_id
            AND (s.project_id IS NULL OR s.project_id = p.id)
            AND s.begin_at <= q.at AND (s.end_at IS NULL OR s.end_at > q.at))),
  demanded AS MATERIALIZED (
    SELECT a.number, d.size, d.units, d.model_groups
      FROM asked a
     CROSS JOIN LATERAL jsonb_to_recordset(a.demands)
                          AS d(size text, units bigint, model_groups text[])),
  -- Every limit of a pod's tenant, those of other sizes with nothing asked.
  met AS MATERIALIZED (
    SELECT a.number, a.is_burst, a.at, a.username, a.project_id AS theirs, l.*,
           (SELECT sum(d.units)::bigint FROM demanded d
             WHERE d.number = a.number AND d.size = l.size
               AND (l.cluster_id IS NULL OR l.cluster_id = a.cluster_id)
               AND (l.model_group = '' OR d.model_groups = '{{}}'
                    OR l.model_group = ANY (d.model_groups))) AS asked_units,
           l.model_group = '' AND (l.cluster_id IS NULL OR l.cluster_id = a.cluster_id) AS is_open
      FROM asked a
      JOIN quotas_quotalimit l ON l.organization_id = a.organization_id
       AND (l.project_id IS NULL OR l.project_id = a.project_id)
       AND (l.user_id IS NULL OR l.user_id = a.person_id)),
  governed AS (
    SELECT m.number
      FROM met m
      LEFT JOIN quotas_quotacounter c ON c.limit_id = m.id
     GROUP BY m.number
    HAVING count(c.limit_id) = count(*)
       AND NOT EXISTS (
         SELECT FROM demanded d
          WHERE d.number = m.number
            AND d.size <> ALL (coalesce(array_agg(m.size) FILTER (WHERE m.is_open), '{{}}'))))
  SELECT array_agg(m.number ORDER BY m.number, m.id),
         array_agg(m.organization_id ORDER BY m.number, m.id),
         array_agg(m.theirs ORDER BY m.number, m.id),
         array_agg(m.username ORDER BY m.number, m.id),
         array_agg(m.id ORDER BY m.number, m.id),
         array_agg(m.asked_units ORDER BY m.number, m.id),
         array_agg(CASE WHEN m.is_burst THEN m.burst_units
                        WHEN m.limit_units IS NULL THEN NULL
                        ELSE greatest(0, m.limit_units + (
                          SELECT coalesce(sum(g.units), 0) FROM quotas_quotagrant g
                           WHERE g.limit_id = m.id AND g.valid @> m.at)) END
                   ORDER BY m.number, m.id)
    INTO numbers, organizations, projects, usernames, limits, units, caps
    FROM met m JOIN governed v ON v.number = m.number
   WHERE m.asked_units IS NOT NULL;
  IF numbers IS NULL THEN
    RETURN '{{}}';
  END IF;

  SELECT array_agg(c.limit_id), array_agg(c.taken), array_agg(c.taken_burst), array_agg(c.is_used)
    INTO counters, taken, taken_burst, is_used
    FROM (SELECT c.limit_id, c.held_units + c.reserved_units AS taken,
                 c.burst_held_units + c.burst_reserved_units AS taken_burst,
                 coalesce(c.month_unit_seconds >= 3600 * l.monthly_unit_hours::bigint, false)
                   AS is_used
            FROM quotas_quotalimit l JOIN quotas_quotacounter c ON c.limit_id = l.id
           WHERE l.id = ANY (limits)
           ORDER BY l.organization_id,
                    array_position('{{organization,project,user}}'::text[], l.scope::text),
                    l.cluster_id IS NOT NULL, l.id
             FOR NO KEY UPDATE OF c) c;

  -- Pods take their turns: each has to fit beside all that are asked before it.
  WITH asked AS MATERIALIZED (
    SELECT q.*
      FROM ROWS FROM (jsonb_to_recordset(questions)
             AS (cluster_id uuid, namespace text, pod_uid text, pod_name text, controller text,
                 owner text, at timestamptz, ttl_seconds integer, is_burst boolean, demands jsonb))
           WITH ORDINALITY
             AS q(cluster_id, namespace, pod_uid, pod_name, controller, owner, at, ttl_seconds,
                  is_burst, demands, number)
     WHERE q.number = ANY (numbers)),
  counted AS MATERIALIZED (
    SELECT n.number, n.id, n.units, n.cap, a.is_burst, c.is_used,
           CASE WHEN a.is_burst THEN c.taken_burst ELSE c.taken END
           + sum(n.units) OVER (PARTITION BY n.id, a.is_burst ORDER BY n.number) AS after
      FROM unnest(numbers, limits, units, caps) AS n(number, id, units, cap)
      JOIN unnest(counters, taken, taken_burst, is_used)
             AS c(id, taken, taken_burst, is_used) ON c.id = n.id
      JOIN asked a ON a.number = n.number),
  fit AS MATERIALIZED (
    SELECT t.number FROM counted t GROUP BY t.number
    HAVING bool_and(NOT t.is_used AND coalesce(t.after * 10 < t.cap * 9, t.cap IS NULL))),
  placed AS (
    SELECT DISTINCT ON (n.number) n.*
      FROM unnest(numbers, organizations, projects, usernames)
             AS n(number, organization_id, project_id, username)
     ORDER BY n.number),
  written AS (
    INSERT INTO quotas_reservation (
      cluster_id, pod_uid, resource, namespace, pod_name, controller, organization_id, project_id,
      owner, username, size, units, model_groups, is_burst, state, origin, admitted_at, expires_at,
      release_reason)
    SELECT a.cluster_id, a.pod_uid, d.resource, a.namespace, a.pod_name, a.controller,
           p.organization_id, p.project_id, a.owner, p.username,
           d.size, d.units, d.model_groups, a.is_burst, 'reserved', 'admission', a.at,
           a.at + make_interval(secs => a.ttl_seconds), ''
      FROM fit f
      JOIN asked a ON a.number = f.number
      JOIN placed p ON p.number = f.number
     CROSS JOIN LATERAL jsonb_to_recordset(a.demands)
                          AS d(resource text, size text, units integer, model_groups text[])
     ORDER BY a.cluster_id, a.pod_uid, d.resource
    RETURNING id),
  reserved AS (
    UPDATE quotas_quotacounter c
       SET reserved_units = c.reserved_units + n.units,
           burst_reserved_units = c.burst_reserved_units + n.burst_units
      FROM (SELECT id, coalesce(sum(n.units) FILTER (WHERE NOT n.is_burst), 0) AS units,
                   coalesce(sum(n.units) FILTER (WHERE n.is_burst), 0) AS burst_units
              FROM counted n JOIN fit f ON f.number = n.number GROUP BY id) n
     WHERE c.limit_id = n.id)
  SELECT array_agg(f.number ORDER BY f.number) INTO fitting FROM fit f;
  RETURN coalesce(fitting, '{{}}');
END $$;
{only_runtime("quotas_admit_many(jsonb)")}
"""
