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
#
# What it costs is mostly the start of its queries, node by node, and little of it the rows. So what
# has a few entries is kept in arrays and judged in loops: no sum over a window, no grouping, and no
# query that is read twice.
#
# A plan lasts as long as its connection, and is made from what was in the tables then, which may be
# nothing. So every look-up says by itself where it begins: LATERAL and OFFSET 0 keep the planner
# from turning it round. As joins they were once planned over emptied tables, and then read every
# project there is, and every reservation of the cluster, for each pod. A binding that was found is
# read again by its id: what is compared as IS TRUE or IS NOT DISTINCT leads no plan to the slower
# index of ranges.
ADMIT_MANY = f"""
CREATE FUNCTION quotas_admit_many(questions jsonb) RETURNS integer[]
LANGUAGE plpgsql {BY_INDEX} SET lock_timeout = '25ms' AS $$
DECLARE
  kept text;
  met record;
  entry integer;
  place integer;
  -- One entry a question; organizations are those whose lock is held.
  uids text[];
  bindings uuid[];
  organizations uuid[];
  projects uuid[];
  usernames text[];
  -- Numbers of questions.
  fitting integer[];
  ungranted integer[];
  full_up integer[];
  -- One entry a demand and a limit that counts it.
  numbers integer[];
  limits uuid[];
  units bigint[];
  caps bigint[];
  bursts boolean[];
  -- One entry a counter, as it stands under its lock, and what is asked of it.
  counters uuid[];
  taken bigint[];
  taken_burst bigint[];
  is_used boolean[];
  asked bigint[];
  asked_burst bigint[];
BEGIN
  kept := set_config('synchronous_commit', 'off', true);

  SELECT array_agg(q.pod_uid), array_agg(b.id),
         array_agg(CASE WHEN pg_try_advisory_xact_lock_shared(quotas_lock_key(p.organization_id))
                        THEN p.organization_id END)
    INTO uids, bindings, organizations
    FROM jsonb_to_recordset(questions)
           AS q(cluster_id uuid, namespace text, pod_uid text, at timestamptz)
    LEFT JOIN tenants_namespacebinding b
      ON b.cluster_id = q.cluster_id AND b.namespace = q.namespace AND b.valid @> q.at
    LEFT JOIN tenants_project p ON p.id = b.project_id;

  -- Whose a namespace is, is read again under the locks, for the last time. Every limit of a pod's
  -- tenant needs its counter, and every size it asks for a limit of all models and clusters or its.
  FOR met IN
    SELECT q.number, q.project_id, q.username, q.is_burst, d.units, m.limits, m.caps
      FROM (SELECT q.number::integer, q.cluster_id, q.at, q.is_burst, q.demands,
                   t.organization_id, t.project_id,
                   coalesce(nullif(q.owner, ''), t.username, '') AS username,
                   CASE WHEN q.owner = '' THEN t.user_id
                        ELSE (SELECT w.id FROM auth_user w WHERE w.username = q.owner) END
                     AS person_id
              FROM ROWS FROM (jsonb_to_recordset(questions)
                     AS (cluster_id uuid, namespace text, pod_uid text, owner text, at timestamptz,
                         is_burst boolean, is_dry_run boolean, demands jsonb))
                   WITH ORDINALITY
                     AS q(cluster_id, namespace, pod_uid, owner, at, is_burst, is_dry_run, demands,
                          number)
             CROSS JOIN LATERAL (
               SELECT p.organization_id, p.id AS project_id, u.id AS user_id, u.username
                 FROM tenants_namespacebinding b
                 JOIN tenants_project p
                   ON p.id = b.project_id AND p.state = 'active'
                  AND (p.organization_id = organizations[q.number::integer]) IS TRUE
                 JOIN tenants_organization o ON o.id = p.organization_id AND o.state = 'active'
                 JOIN tenants_cluster k ON k.id = b.cluster_id AND k.admission_mode <> 'warn'
                 LEFT JOIN auth_user u ON u.id = b.default_owner_id
                WHERE b.id = bindings[q.number::integer] AND (b.valid @> q.at) IS TRUE
                  AND (b.cluster_id, b.namespace) IS NOT DISTINCT FROM (q.cluster_id, q.namespace)
               OFFSET 0) t
             WHERE NOT q.is_dry_run AND cardinality(array_positions(uids, q.pod_uid)) = 1
               AND NOT EXISTS (
                 SELECT FROM quotas_reservation r
                  WHERE r.cluster_id = q.cluster_id AND r.pod_uid = q.pod_uid OFFSET 0)
               AND NOT EXISTS (
                 SELECT FROM quotas_quotasuspension s
                  WHERE s.organization_id = t.organization_id
                    AND (s.project_id IS NULL OR s.project_id = t.project_id)
                    AND s.begin_at <= q.at AND (s.end_at IS NULL OR s.end_at > q.at) OFFSET 0)
            OFFSET 0) q
     CROSS JOIN LATERAL jsonb_to_recordset(q.demands)
                          AS d(size text, units bigint, model_groups text[])
      LEFT JOIN LATERAL (
       SELECT array_agg(l.id) FILTER (WHERE l.is_met) AS limits,
              array_agg(CASE WHEN q.is_burst THEN l.burst_units
                             WHEN l.limit_units IS NULL THEN NULL
                             ELSE greatest(0, l.limit_units + (
                               SELECT coalesce(sum(g.units), 0) FROM quotas_quotagrant g
                                WHERE g.limit_id = l.id AND g.valid @> q.at)) END)
                FILTER (WHERE l.is_met) AS caps
         FROM (SELECT l.id, l.model_group, l.limit_units, l.burst_units, c.limit_id,
                      l.size = d.size
                      AND (l.cluster_id IS NULL OR l.cluster_id = q.cluster_id)
                      AND (l.model_group = '' OR d.model_groups = '{{}}'
                           OR l.model_group = ANY (d.model_groups)) AS is_met
                 FROM quotas_quotalimit l
                 LEFT JOIN quotas_quotacounter c ON c.limit_id = l.id
                WHERE l.organization_id = q.organization_id
                  AND (l.project_id IS NULL OR l.project_id = q.project_id)
                  AND (l.user_id IS NULL OR l.user_id = q.person_id)) l
       HAVING count(l.limit_id) = count(*) AND bool_or(l.is_met AND l.model_group = '')) m ON true
     ORDER BY q.number
  LOOP
    IF met.limits IS NULL THEN
      ungranted := ungranted || met.number;
      CONTINUE;
    END IF;
    projects[met.number] := met.project_id;
    usernames[met.number] := met.username;
    limits := limits || met.limits;
    caps := caps || met.caps;
    FOR entry IN 1..cardinality(met.limits) LOOP
      numbers := numbers || met.number;
      units := units || met.units;
      bursts := bursts || met.is_burst;
    END LOOP;
  END LOOP;
  IF limits IS NULL THEN
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
  asked := array_fill(0::bigint, ARRAY[cardinality(counters)]);
  asked_burst := asked;
  FOR entry IN 1..cardinality(limits) LOOP
    CONTINUE WHEN numbers[entry] = ANY (ungranted);
    IF array_position(fitting, numbers[entry]) IS NULL THEN
      fitting := fitting || numbers[entry];
    END IF;
    place := array_position(counters, limits[entry]);
    IF bursts[entry] THEN
      asked_burst[place] := asked_burst[place] + units[entry];
      CONTINUE WHEN NOT is_used[place]
        AND (taken_burst[place] + asked_burst[place]) * 10 < caps[entry] * 9;
    ELSE
      asked[place] := asked[place] + units[entry];
      CONTINUE WHEN NOT is_used[place]
        AND (caps[entry] IS NULL OR (taken[place] + asked[place]) * 10 < caps[entry] * 9);
    END IF;
    full_up := full_up || numbers[entry];
  END LOOP;
  IF full_up IS NOT NULL THEN
    fitting := ARRAY(SELECT f FROM unnest(fitting) f WHERE f <> ALL (full_up) ORDER BY f);
    FOR entry IN 1..cardinality(limits) LOOP
      CONTINUE WHEN numbers[entry] = ANY (ungranted) OR numbers[entry] = ANY (fitting);
      place := array_position(counters, limits[entry]);
      IF bursts[entry] THEN
        asked_burst[place] := asked_burst[place] - units[entry];
      ELSE
        asked[place] := asked[place] - units[entry];
      END IF;
    END LOOP;
  END IF;
  IF coalesce(cardinality(fitting), 0) = 0 THEN
    RETURN '{{}}';
  END IF;

  INSERT INTO quotas_reservation (
    cluster_id, pod_uid, resource, namespace, pod_name, controller, organization_id, project_id,
    owner, username, size, units, model_groups, is_burst, state, origin, admitted_at, expires_at,
    release_reason)
  SELECT q.cluster_id, q.pod_uid, d.resource, q.namespace, q.pod_name, q.controller,
         organizations[q.number::integer], projects[q.number::integer], q.owner,
         usernames[q.number::integer], d.size, d.units, d.model_groups, q.is_burst, 'reserved',
         'admission', q.at, q.at + make_interval(secs => q.ttl_seconds), ''
    FROM ROWS FROM (jsonb_to_recordset(questions)
           AS (cluster_id uuid, namespace text, pod_uid text, pod_name text, controller text,
               owner text, at timestamptz, ttl_seconds integer, is_burst boolean, demands jsonb))
         WITH ORDINALITY
           AS q(cluster_id, namespace, pod_uid, pod_name, controller, owner, at, ttl_seconds,
                is_burst, demands, number)
   CROSS JOIN LATERAL jsonb_to_recordset(q.demands)
                        AS d(resource text, size text, units integer, model_groups text[])
   WHERE q.number = ANY (fitting)
   ORDER BY q.cluster_id, q.pod_uid, d.resource;

  UPDATE quotas_quotacounter c
     SET reserved_units = c.reserved_units + n.units,
         burst_reserved_units = c.burst_reserved_units + n.burst_units
    FROM unnest(counters, asked, asked_burst) AS n(id, units, burst_units)
   WHERE c.limit_id = n.id AND n.units + n.burst_units <> 0;
  RETURN fitting;
END $$;
{only_runtime("quotas_admit_many(jsonb)")}
"""
