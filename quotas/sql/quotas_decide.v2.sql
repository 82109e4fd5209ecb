-- What a call costs is mostly the round trip and the start of its queries, node by node, and
-- little of it the rows. So one query reads everything about all questions, one locks their
-- counters, and the decisions are made in loops over arrays: no grouping, no sum over a window.
--
-- A plan lasts as long as its connection and is made from what was in the tables then, which may
-- be nothing. So every look-up states where it begins: LATERAL and OFFSET 0 keep the planner from
-- reversing it. As joins they were once planned over empty tables, and then read every project
-- and every reservation of the cluster for each pod. A binding that was found is read again by
-- its id: what is compared as IS TRUE or IS NOT DISTINCT leads no plan to the slower index of
-- ranges.
--
-- Counters of all organizations are locked in one order. A single question waits for the lock of
-- its organization; several only try theirs. NULL is the verdict of a question that needs a
-- second attempt: its namespace moved, a counter is missing, or, of several, it is not admitted.
--
-- Of one name in a namespace at most one pod exists. So a reservation of that name that the watch
-- has not observed, and that counts the same against the same limits, is released by the question
-- that replaces it: a pod that is refused elsewhere and tried again counts once. Claims are left
-- out, because a pod and a claim may have one name.
CREATE OR REPLACE FUNCTION quotas_decide(
  questions jsonb, OUT verdicts jsonb[], OUT organizations uuid[], OUT projects uuid[],
  OUT usernames text[], OUT lenient boolean[])
LANGUAGE plpgsql AS $$
DECLARE
  question_count integer := jsonb_array_length(questions);
  is_single boolean := question_count = 1;
  earlier bigint[];
  met record;
  fact record;
  number integer;
  entry integer;
  slot integer;
  code text;
  question jsonb;
  moment timestamptz;
  blocker jsonb;
  nearly jsonb;
  verdict jsonb;
  full_slots integer[];
  expected integer := 0;
  written integer;
  -- One entry a question.
  uids text[];
  bindings uuid[];
  codes text[];
  blockers jsonb[];
  is_open boolean[];
  is_written boolean[];
  is_burst boolean[];
  demand_counts integer[];
  first_entries integer[];
  last_entries integer[];
  admitted integer[];
  -- One entry a demand and a limit that counts it.
  limits uuid[];
  units bigint[];
  freed bigint[];
  caps bigint[];
  slots integer[];
  -- One entry a reservation that a newer attempt at the same pod replaces.
  replaced bigint[] := '{}';
  replaced_by integer[] := '{}';
  -- One entry a counter, as it is under its lock, and what is asked of it.
  counters uuid[];
  held bigint[];
  reserved bigint[];
  burst_held bigint[];
  burst_reserved bigint[];
  used_months date[];
  asked bigint[];
  asked_burst bigint[];
  sum_units bigint;
  month_asked date;
BEGIN
  SELECT array_agg(q.pod_uid), array_agg(b.id),
         array_agg(CASE WHEN is_single
                          OR pg_try_advisory_xact_lock_shared(quotas_lock_key(p.organization_id))
                        THEN p.organization_id END)
    INTO uids, bindings, organizations
    FROM jsonb_to_recordset(questions)
           AS q(cluster_id uuid, namespace text, pod_uid text, at timestamptz)
    LEFT JOIN tenants_namespacebinding b
      ON b.cluster_id = q.cluster_id AND b.namespace = q.namespace AND b.valid @> q.at
    LEFT JOIN tenants_project p ON p.id = b.project_id;
  IF is_single AND bindings[1] IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock_shared(quotas_lock_key(organizations[1]));
  END IF;
  verdicts := array_fill(NULL::jsonb, ARRAY[question_count]);

  -- The project of a namespace is read again under the lock, which may have been waited for. A uid
  -- belongs to one pod: what was admitted is not counted again, nobody else is admitted by it, nor
  -- the pod once more after its end; only what expired unseen is decided anew. The limits of a
  -- tenant cover a size if one of them is of all models and of all clusters or this one.
  FOR met IN
    SELECT q.number, q.organization_id, q.project_id, q.username, q.person_id, q.is_open,
           q.is_lenient, q.is_burst, q.is_dry_run, q.is_known, q.is_suspended, d.units,
           n.replaced, m.tenant_limits, m.tenant_counters, m.is_covered, m.limits, m.caps
      FROM (SELECT q.number::integer, q.cluster_id, q.namespace, q.pod_uid, q.pod_name,
                   q.controller, q.at, q.is_burst, q.is_dry_run, q.demands,
                   t.organization_id, t.project_id, t.is_open, t.is_lenient,
                   coalesce(nullif(q.owner, ''), t.username, '') AS username,
                   CASE WHEN coalesce(q.owner, '') = '' THEN t.user_id
                        ELSE (SELECT w.id FROM auth_user w WHERE w.username = q.owner) END
                     AS person_id,
                   EXISTS (
                     SELECT FROM quotas_reservation r
                      WHERE r.cluster_id = q.cluster_id AND r.pod_uid = q.pod_uid
                        AND NOT (r.state = 'released'
                                 AND r.release_reason IN ('expired', 'replaced', 'absent'))
                     OFFSET 0) AS is_known,
                   EXISTS (
                     SELECT FROM quotas_quotasuspension s
                      WHERE s.organization_id = t.organization_id
                        AND (s.project_id IS NULL OR s.project_id = t.project_id)
                        AND s.begin_at <= q.at AND (s.end_at IS NULL OR s.end_at > q.at)
                     OFFSET 0) AS is_suspended
              FROM ROWS FROM (jsonb_to_recordset(questions)
                     AS (cluster_id uuid, namespace text, pod_uid text, pod_name text,
                         controller text, owner text, at timestamptz, is_burst boolean,
                         is_dry_run boolean, demands jsonb))
                   WITH ORDINALITY
                     AS q(cluster_id, namespace, pod_uid, pod_name, controller, owner, at,
                          is_burst, is_dry_run, demands, number)
              LEFT JOIN LATERAL (
               SELECT p.organization_id, p.id AS project_id,
                      p.state = 'active' AND o.state = 'active' AS is_open,
                      k.admission_mode = 'warn' AS is_lenient, u.id AS user_id, u.username
                 FROM tenants_namespacebinding b
                 JOIN tenants_project p
                   ON p.id = b.project_id
                  AND (p.organization_id = organizations[q.number::integer]) IS TRUE
                 JOIN tenants_organization o ON o.id = p.organization_id
                 JOIN tenants_cluster k ON k.id = b.cluster_id
                 LEFT JOIN auth_user u ON u.id = b.default_owner_id
                WHERE b.id = bindings[q.number::integer] AND (b.valid @> q.at) IS TRUE
                  AND (b.cluster_id, b.namespace) IS NOT DISTINCT FROM (q.cluster_id, q.namespace)
               OFFSET 0) t ON true
             WHERE cardinality(array_positions(uids, q.pod_uid)) = 1
            OFFSET 0) q
     CROSS JOIN LATERAL jsonb_to_recordset(q.demands)
                          AS d(resource text, size text, units bigint,
                               model_groups varchar[])
      LEFT JOIN LATERAL (
       SELECT array_agg(r.id) AS replaced
         FROM quotas_reservation r
        WHERE r.state = 'reserved' AND r.expires_at IS NOT NULL
          AND r.cluster_id = q.cluster_id AND r.namespace = q.namespace
          AND r.controller = q.controller AND r.pod_name = q.pod_name
          AND (r.pod_name NOT LIKE '%-' AND r.pod_uid <> q.pod_uid
               AND r.resource = d.resource AND r.resource NOT LIKE 'claim/%'
               AND r.organization_id = q.organization_id AND r.project_id = q.project_id
               AND r.username = q.username AND r.size = d.size AND r.units = d.units
               AND r.model_groups = d.model_groups AND r.is_burst = q.is_burst) IS TRUE
       OFFSET 0) n ON true
      LEFT JOIN LATERAL (
       SELECT count(*) AS tenant_limits, count(l.limit_id) AS tenant_counters,
              bool_or(l.is_met AND l.model_group = '') AS is_covered,
              array_agg(l.id) FILTER (WHERE l.is_met) AS limits,
              array_agg(CASE WHEN q.is_burst THEN l.burst_units
                             WHEN l.limit_units IS NULL THEN NULL
                             ELSE greatest(0, l.limit_units + (
                               SELECT coalesce(sum(g.units), 0) FROM quotas_quotagrant g
                                WHERE g.limit_id = l.id AND g.valid @> q.at)) END)
                FILTER (WHERE l.is_met) AS caps
         FROM (SELECT l.id, l.model_group, l.limit_units, l.burst_units, c.limit_id,
                      l.size = d.size
                      AND (l.cluster_id IS NULL OR l.cluster_id = q.cluster_id)
                      AND (l.model_group = '' OR d.model_groups = '{}'
                           OR l.model_group = ANY (d.model_groups)) AS is_met
                 FROM quotas_quotalimit l
                 LEFT JOIN quotas_quotacounter c ON c.limit_id = l.id
                WHERE l.organization_id = q.organization_id
                  AND (l.project_id IS NULL OR l.project_id = q.project_id)
                  AND (l.user_id IS NULL OR l.user_id = q.person_id)) l) m ON true
     ORDER BY q.number
  LOOP
    number := met.number;
    IF demand_counts[number] IS NULL THEN
      demand_counts[number] := 0;
      first_entries[number] := coalesce(cardinality(limits), 0) + 1;
      projects[number] := met.project_id;
      usernames[number] := met.username;
      is_burst[number] := met.is_burst;
      is_open[number] := met.is_open;
      lenient[number] := coalesce(met.is_lenient, false);
      is_written[number] := met.is_dry_run IS NOT TRUE;
      code := NULL;
      verdict := NULL;
      IF bindings[number] IS NULL THEN
        verdict := jsonb_build_object('code', CASE questions->(number - 1)->>'unbound'
          WHEN 'allow' THEN 'allowed_ungoverned' ELSE 'namespace_unbound' END);
      ELSIF met.organization_id IS NULL THEN
        NULL;
      ELSIF NOT (met.is_open OR met.is_lenient) THEN
        verdict := '{"code": "closed"}';
      ELSIF met.is_known THEN
        question := questions->(number - 1);
        SELECT jsonb_build_object('code', CASE
                 WHEN NOT met.is_open THEN 'closed'
                 WHEN count(*) = jsonb_array_length(question->'demands')
                  AND bool_and(
                        r.state <> 'released' AND r.namespace = question->>'namespace'
                        AND question->'demands' @> jsonb_build_array(jsonb_build_object(
                              'resource', r.resource, 'size', r.size, 'units', r.units)))
                 THEN 'allowed_before' ELSE 'replayed_otherwise' END)
          INTO verdict
          FROM quotas_reservation r
         WHERE r.cluster_id = (question->>'cluster_id')::uuid
           AND r.pod_uid = question->>'pod_uid'
           AND NOT (r.state = 'released'
                    AND r.release_reason IN ('expired', 'replaced', 'absent'));
      ELSIF met.is_suspended AND NOT met.is_lenient THEN
        moment := (questions->(number - 1)->>'at')::timestamptz;
        SELECT jsonb_build_object('code', 'suspended', 'reason', s.reason) INTO verdict
          FROM quotas_quotasuspension s
         WHERE s.organization_id = met.organization_id
           AND (s.project_id IS NULL OR s.project_id = met.project_id)
           AND s.begin_at <= moment AND (s.end_at IS NULL OR s.end_at > moment)
         ORDER BY s.project_id NULLS FIRST, s.begin_at LIMIT 1;
      ELSIF met.tenant_counters = met.tenant_limits THEN
        code := CASE WHEN met.is_suspended THEN 'suspended'
                     WHEN met.tenant_limits = 0 THEN 'allowed_ungoverned' ELSE 'allowed' END;
      END IF;
      codes[number] := code;
      IF is_single OR verdict->>'code' LIKE 'allowed%' THEN
        verdicts[number] := verdict;
      END IF;
    END IF;
    CONTINUE WHEN codes[number] IS NULL;
    demand_counts[number] := demand_counts[number] + 1;
    earlier := CASE WHEN met.replaced && replaced THEN '{}' ELSE coalesce(met.replaced, '{}') END;
    IF earlier <> '{}' THEN
      replaced := replaced || earlier;
      replaced_by := replaced_by || array_fill(number, ARRAY[cardinality(earlier)]);
    END IF;
    IF met.tenant_limits > 0 AND met.is_covered IS NOT TRUE AND blockers[number] IS NULL THEN
      -- Every model group the pod may land on must be granted by some limit that covers it.
      question := questions->(number - 1);
      SELECT quotas_describe_limit('project', p.slug, d.size, coalesce(g, ''), k.slug, met.is_burst,
                         0, 0, 0, d.units) INTO blocker
        FROM jsonb_to_recordset(question->'demands')
               AS d(size text, units bigint, model_groups text[])
        LEFT JOIN LATERAL unnest(d.model_groups) g ON true
        JOIN tenants_project p ON p.id = met.project_id
        JOIN tenants_cluster k ON k.id = (question->>'cluster_id')::uuid
       WHERE NOT EXISTS (
         SELECT FROM quotas_quotalimit l
          WHERE l.organization_id = met.organization_id AND l.size = d.size
            AND (l.project_id IS NULL OR l.project_id = met.project_id)
            AND (l.user_id IS NULL OR l.user_id = met.person_id)
            AND (l.cluster_id IS NULL OR l.cluster_id = k.id)
            AND (l.model_group = '' OR g IS NULL OR l.model_group = g))
       ORDER BY d.size, g LIMIT 1;
      IF blocker IS NOT NULL THEN
        blockers[number] := blocker;
        codes[number] := CASE codes[number]
          WHEN 'allowed' THEN 'nothing_granted' ELSE codes[number] END;
      END IF;
    END IF;
    IF met.limits IS NOT NULL THEN
      limits := limits || met.limits;
      caps := caps || met.caps;
      units := units || array_fill(met.units, ARRAY[cardinality(met.limits)]);
      freed := freed || array_fill(met.units * cardinality(earlier),
                                   ARRAY[cardinality(met.limits)]);
    END IF;
    last_entries[number] := coalesce(cardinality(limits), 0);
  END LOOP;

  IF limits IS NOT NULL THEN
    SELECT array_agg(c.limit_id), array_agg(c.held_units), array_agg(c.reserved_units),
           array_agg(c.burst_held_units), array_agg(c.burst_reserved_units),
           array_agg(c.used_month)
      INTO counters, held, reserved, burst_held, burst_reserved, used_months
      FROM (SELECT c.limit_id, c.held_units, c.reserved_units, c.burst_held_units,
                   c.burst_reserved_units,
                   CASE WHEN c.month_unit_seconds >= 3600 * l.monthly_unit_hours::bigint
                        THEN c.month END AS used_month
              FROM quotas_quotalimit l JOIN quotas_quotacounter c ON c.limit_id = l.id
             WHERE l.id = ANY (limits)
             ORDER BY l.organization_id,
                      array_position('{organization,project,user}'::text[], l.scope::text),
                      l.cluster_id IS NOT NULL, l.id
               FOR NO KEY UPDATE OF c) c;
    asked := array_fill(0::bigint, ARRAY[cardinality(counters)]);
    asked_burst := asked;
  END IF;

  -- In the order of the questions: each has to fit beside those admitted before it.
  FOR number IN 1..question_count LOOP
    code := codes[number];
    CONTINUE WHEN code IS NULL;
    blocker := blockers[number];
    IF blocker IS NOT NULL AND NOT lenient[number] THEN
      IF is_single THEN
        verdicts[number] := jsonb_build_object('code', code, 'blocker', blocker);
      END IF;
      CONTINUE;
    END IF;
    nearly := '[]';
    full_slots := NULL;
    FOR entry IN first_entries[number]..last_entries[number] LOOP
      slot := array_position(counters, limits[entry]);
      slots[entry] := slot;
      IF is_burst[number] THEN
        asked_burst[slot] := asked_burst[slot] + units[entry] - freed[entry];
        sum_units := burst_held[slot] + burst_reserved[slot] + asked_burst[slot];
      ELSE
        asked[slot] := asked[slot] + units[entry] - freed[entry];
        sum_units := held[slot] + reserved[slot] + asked[slot];
      END IF;
      IF sum_units * 10 >= caps[entry] * 9 OR used_months[slot] IS NOT NULL THEN
        full_slots := full_slots || slot;
      END IF;
    END LOOP;
    IF full_slots IS NOT NULL THEN
      -- Most limits are far away: only now the holders of these are read.
      month_asked := date_trunc(
        'month', (questions->(number - 1)->>'at')::timestamptz AT TIME ZONE 'UTC')::date;
      FOR fact IN
        SELECT e.cap, e.units, e.used + e.reserved + e.units AS sum_units,
               coalesce(used_months[e.slot] = month_asked, false) AS is_used,
               l.monthly_unit_hours, c.month_unit_seconds / 3600 AS month_unit_hours,
               quotas_describe_limit(
                 l.scope, coalesce(u.username, p.slug, o.slug), l.size, l.model_group,
                 coalesce(k.slug, ''), is_burst[number], coalesce(e.cap, 0), e.used, e.reserved,
                 e.units) AS facts
          FROM (SELECT n.slot, n.limit_id, n.cap, n.units,
                       CASE WHEN is_burst[number] THEN burst_held[n.slot]
                            ELSE held[n.slot] END AS used,
                       CASE WHEN is_burst[number]
                            THEN burst_reserved[n.slot] + asked_burst[n.slot]
                            ELSE reserved[n.slot] + asked[n.slot] END - n.units
                         AS reserved
                  FROM (SELECT n.slot, n.limit_id, min(n.cap) AS cap,
                               sum(n.units)::bigint AS units
                          FROM unnest(
                                 slots[first_entries[number]:last_entries[number]],
                                 limits[first_entries[number]:last_entries[number]],
                                 caps[first_entries[number]:last_entries[number]],
                                 units[first_entries[number]:last_entries[number]])
                                 AS n(slot, limit_id, cap, units)
                         WHERE n.slot = ANY (full_slots)
                         GROUP BY n.slot, n.limit_id) n) e
          JOIN quotas_quotalimit l ON l.id = e.limit_id
          JOIN quotas_quotacounter c ON c.limit_id = e.limit_id
          JOIN tenants_organization o ON o.id = l.organization_id
          LEFT JOIN tenants_project p ON p.id = l.project_id
          LEFT JOIN auth_user u ON u.id = l.user_id
          LEFT JOIN tenants_cluster k ON k.id = l.cluster_id
         ORDER BY e.slot
      LOOP
        IF code LIKE 'allowed%' AND fact.sum_units > fact.cap THEN
          code := 'limit_reached';
          blocker := fact.facts;
        ELSIF code LIKE 'allowed%' AND fact.is_used THEN
          code := 'allowance_used';
          blocker := fact.facts || jsonb_build_object(
            'limit_units', fact.monthly_unit_hours, 'used_units', fact.month_unit_hours,
            'reserved_units', 0);
        ELSIF fact.sum_units * 10 >= fact.cap * 9 THEN
          nearly := nearly || fact.facts;
        END IF;
      END LOOP;
    END IF;
    IF NOT is_open[number] THEN
      code := 'closed';
    END IF;
    IF code LIKE 'allowed%' OR is_single THEN
      verdicts[number] := jsonb_build_object('code', code, 'blocker', blocker);
      IF code LIKE 'allowed%' OR lenient[number] THEN
        verdicts[number] := verdicts[number] || jsonb_build_object('nearly_full', nearly);
        IF is_written[number] THEN
          admitted := admitted || number;
          expected := expected + demand_counts[number];
          CONTINUE;
        END IF;
      END IF;
    END IF;
    FOR entry IN first_entries[number]..last_entries[number] LOOP
      slot := slots[entry];
      IF is_burst[number] THEN
        asked_burst[slot] := asked_burst[slot] - units[entry] + freed[entry];
      ELSE
        asked[slot] := asked[slot] - units[entry] + freed[entry];
      END IF;
    END LOOP;
  END LOOP;

  IF admitted IS NULL THEN
    RETURN;
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
   WHERE q.number = ANY (admitted)
   ORDER BY q.cluster_id, q.pod_uid, d.resource
  ON CONFLICT (cluster_id, pod_uid, resource) DO UPDATE
     SET (namespace, pod_name, controller, organization_id, project_id, owner, username, size,
          units, model_groups, is_burst, state, admitted_at, expires_at, released_at,
          release_reason)
       = (excluded.namespace, excluded.pod_name, excluded.controller, excluded.organization_id,
          excluded.project_id, excluded.owner, excluded.username, excluded.size, excluded.units,
          excluded.model_groups, excluded.is_burst, 'reserved', excluded.admitted_at,
          excluded.expires_at, NULL, '')
   WHERE quotas_reservation.state = 'released'
     AND quotas_reservation.release_reason IN ('expired', 'replaced', 'absent');
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written < expected THEN
    RAISE SQLSTATE 'GL001' USING MESSAGE = 'the same pod was counted meanwhile';
  END IF;

  IF replaced_by && admitted THEN
    expected := (SELECT count(*) FROM unnest(replaced_by) b(number)
                  WHERE b.number = ANY (admitted));
    UPDATE quotas_reservation r
       SET state = 'released', released_at = (questions->(b.number - 1)->>'at')::timestamptz,
           release_reason = 'replaced'
      FROM unnest(replaced, replaced_by) AS b(id, number)
     WHERE r.id = b.id AND b.number = ANY (admitted) AND r.state = 'reserved'
       AND r.expires_at IS NOT NULL;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written < expected THEN
      RAISE SQLSTATE 'GL001' USING MESSAGE = 'another attempt replaced the same pod meanwhile';
    END IF;
  END IF;

  UPDATE quotas_quotacounter c
     SET reserved_units = greatest(0, c.reserved_units + n.units),
         burst_reserved_units = greatest(0, c.burst_reserved_units + n.burst_units)
    FROM unnest(counters, asked, asked_burst) AS n(id, units, burst_units)
   WHERE c.limit_id = n.id AND (n.units <> 0 OR n.burst_units <> 0);
END $$;
REVOKE EXECUTE ON FUNCTION quotas_decide(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_decide(jsonb) TO gpu_ledger_runtime;
-- reverse
-- What a call costs is mostly the round trip and the start of its queries, node by node, and
-- little of it the rows. So one query reads everything about all questions, one locks their
-- counters, and the decisions are made in loops over arrays: no grouping, no sum over a window.
--
-- A plan lasts as long as its connection and is made from what was in the tables then, which may
-- be nothing. So every look-up states where it begins: LATERAL and OFFSET 0 keep the planner from
-- reversing it. As joins they were once planned over empty tables, and then read every project
-- and every reservation of the cluster for each pod. A binding that was found is read again by
-- its id: what is compared as IS TRUE or IS NOT DISTINCT leads no plan to the slower index of
-- ranges.
--
-- Counters of all organizations are locked in one order. A single question waits for the lock of
-- its organization; several only try theirs. NULL is the verdict of a question that needs a
-- second attempt: its namespace moved, a counter is missing, or, of several, it is not admitted.
CREATE OR REPLACE FUNCTION quotas_decide(
  questions jsonb, OUT verdicts jsonb[], OUT organizations uuid[], OUT projects uuid[],
  OUT usernames text[], OUT lenient boolean[])
LANGUAGE plpgsql AS $$
DECLARE
  question_count integer := jsonb_array_length(questions);
  is_single boolean := question_count = 1;
  met record;
  fact record;
  number integer;
  entry integer;
  slot integer;
  code text;
  question jsonb;
  moment timestamptz;
  blocker jsonb;
  nearly jsonb;
  verdict jsonb;
  full_slots integer[];
  expected integer := 0;
  written integer;
  -- One entry a question.
  uids text[];
  bindings uuid[];
  codes text[];
  blockers jsonb[];
  is_open boolean[];
  is_written boolean[];
  is_burst boolean[];
  demand_counts integer[];
  first_entries integer[];
  last_entries integer[];
  admitted integer[];
  -- One entry a demand and a limit that counts it.
  limits uuid[];
  units bigint[];
  caps bigint[];
  slots integer[];
  -- One entry a counter, as it is under its lock, and what is asked of it.
  counters uuid[];
  held bigint[];
  reserved bigint[];
  burst_held bigint[];
  burst_reserved bigint[];
  used_months date[];
  asked bigint[];
  asked_burst bigint[];
  sum_units bigint;
  month_asked date;
BEGIN
  SELECT array_agg(q.pod_uid), array_agg(b.id),
         array_agg(CASE WHEN is_single
                          OR pg_try_advisory_xact_lock_shared(quotas_lock_key(p.organization_id))
                        THEN p.organization_id END)
    INTO uids, bindings, organizations
    FROM jsonb_to_recordset(questions)
           AS q(cluster_id uuid, namespace text, pod_uid text, at timestamptz)
    LEFT JOIN tenants_namespacebinding b
      ON b.cluster_id = q.cluster_id AND b.namespace = q.namespace AND b.valid @> q.at
    LEFT JOIN tenants_project p ON p.id = b.project_id;
  IF is_single AND bindings[1] IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock_shared(quotas_lock_key(organizations[1]));
  END IF;
  verdicts := array_fill(NULL::jsonb, ARRAY[question_count]);

  -- The project of a namespace is read again under the lock, which may have been waited for. A uid
  -- belongs to one pod: what was admitted is not counted again, nobody else is admitted by it, nor
  -- the pod once more after its end; only what expired unseen is decided anew. The limits of a
  -- tenant cover a size if one of them is of all models and of all clusters or this one.
  FOR met IN
    SELECT q.number, q.organization_id, q.project_id, q.username, q.person_id, q.is_open,
           q.is_lenient, q.is_burst, q.is_dry_run, q.is_known, q.is_suspended, d.units,
           m.tenant_limits, m.tenant_counters, m.is_covered, m.limits, m.caps
      FROM (SELECT q.number::integer, q.cluster_id, q.at, q.is_burst, q.is_dry_run, q.demands,
                   t.organization_id, t.project_id, t.is_open, t.is_lenient,
                   coalesce(nullif(q.owner, ''), t.username, '') AS username,
                   CASE WHEN coalesce(q.owner, '') = '' THEN t.user_id
                        ELSE (SELECT w.id FROM auth_user w WHERE w.username = q.owner) END
                     AS person_id,
                   EXISTS (
                     SELECT FROM quotas_reservation r
                      WHERE r.cluster_id = q.cluster_id AND r.pod_uid = q.pod_uid
                        AND NOT (r.state = 'released' AND r.release_reason = 'expired')
                     OFFSET 0) AS is_known,
                   EXISTS (
                     SELECT FROM quotas_quotasuspension s
                      WHERE s.organization_id = t.organization_id
                        AND (s.project_id IS NULL OR s.project_id = t.project_id)
                        AND s.begin_at <= q.at AND (s.end_at IS NULL OR s.end_at > q.at)
                     OFFSET 0) AS is_suspended
              FROM ROWS FROM (jsonb_to_recordset(questions)
                     AS (cluster_id uuid, namespace text, pod_uid text, owner text, at timestamptz,
                         is_burst boolean, is_dry_run boolean, demands jsonb))
                   WITH ORDINALITY
                     AS q(cluster_id, namespace, pod_uid, owner, at, is_burst, is_dry_run,
                          demands, number)
              LEFT JOIN LATERAL (
               SELECT p.organization_id, p.id AS project_id,
                      p.state = 'active' AND o.state = 'active' AS is_open,
                      k.admission_mode = 'warn' AS is_lenient, u.id AS user_id, u.username
                 FROM tenants_namespacebinding b
                 JOIN tenants_project p
                   ON p.id = b.project_id
                  AND (p.organization_id = organizations[q.number::integer]) IS TRUE
                 JOIN tenants_organization o ON o.id = p.organization_id
                 JOIN tenants_cluster k ON k.id = b.cluster_id
                 LEFT JOIN auth_user u ON u.id = b.default_owner_id
                WHERE b.id = bindings[q.number::integer] AND (b.valid @> q.at) IS TRUE
                  AND (b.cluster_id, b.namespace) IS NOT DISTINCT FROM (q.cluster_id, q.namespace)
               OFFSET 0) t ON true
             WHERE cardinality(array_positions(uids, q.pod_uid)) = 1
            OFFSET 0) q
     CROSS JOIN LATERAL jsonb_to_recordset(q.demands)
                          AS d(size text, units bigint, model_groups text[])
      LEFT JOIN LATERAL (
       SELECT count(*) AS tenant_limits, count(l.limit_id) AS tenant_counters,
              bool_or(l.is_met AND l.model_group = '') AS is_covered,
              array_agg(l.id) FILTER (WHERE l.is_met) AS limits,
              array_agg(CASE WHEN q.is_burst THEN l.burst_units
                             WHEN l.limit_units IS NULL THEN NULL
                             ELSE greatest(0, l.limit_units + (
                               SELECT coalesce(sum(g.units), 0) FROM quotas_quotagrant g
                                WHERE g.limit_id = l.id AND g.valid @> q.at)) END)
                FILTER (WHERE l.is_met) AS caps
         FROM (SELECT l.id, l.model_group, l.limit_units, l.burst_units, c.limit_id,
                      l.size = d.size
                      AND (l.cluster_id IS NULL OR l.cluster_id = q.cluster_id)
                      AND (l.model_group = '' OR d.model_groups = '{}'
                           OR l.model_group = ANY (d.model_groups)) AS is_met
                 FROM quotas_quotalimit l
                 LEFT JOIN quotas_quotacounter c ON c.limit_id = l.id
                WHERE l.organization_id = q.organization_id
                  AND (l.project_id IS NULL OR l.project_id = q.project_id)
                  AND (l.user_id IS NULL OR l.user_id = q.person_id)) l) m ON true
     ORDER BY q.number
  LOOP
    number := met.number;
    IF demand_counts[number] IS NULL THEN
      demand_counts[number] := 0;
      first_entries[number] := coalesce(cardinality(limits), 0) + 1;
      projects[number] := met.project_id;
      usernames[number] := met.username;
      is_burst[number] := met.is_burst;
      is_open[number] := met.is_open;
      lenient[number] := coalesce(met.is_lenient, false);
      is_written[number] := met.is_dry_run IS NOT TRUE;
      code := NULL;
      verdict := NULL;
      IF bindings[number] IS NULL THEN
        verdict := jsonb_build_object('code', CASE questions->(number - 1)->>'unbound'
          WHEN 'allow' THEN 'allowed_ungoverned' ELSE 'namespace_unbound' END);
      ELSIF met.organization_id IS NULL THEN
        NULL;
      ELSIF NOT (met.is_open OR met.is_lenient) THEN
        verdict := '{"code": "closed"}';
      ELSIF met.is_known THEN
        question := questions->(number - 1);
        SELECT jsonb_build_object('code', CASE
                 WHEN NOT met.is_open THEN 'closed'
                 WHEN count(*) = jsonb_array_length(question->'demands')
                  AND bool_and(
                        r.state <> 'released' AND r.namespace = question->>'namespace'
                        AND question->'demands' @> jsonb_build_array(jsonb_build_object(
                              'resource', r.resource, 'size', r.size, 'units', r.units)))
                 THEN 'allowed_before' ELSE 'replayed_otherwise' END)
          INTO verdict
          FROM quotas_reservation r
         WHERE r.cluster_id = (question->>'cluster_id')::uuid
           AND r.pod_uid = question->>'pod_uid'
           AND NOT (r.state = 'released' AND r.release_reason = 'expired');
      ELSIF met.is_suspended AND NOT met.is_lenient THEN
        moment := (questions->(number - 1)->>'at')::timestamptz;
        SELECT jsonb_build_object('code', 'suspended', 'reason', s.reason) INTO verdict
          FROM quotas_quotasuspension s
         WHERE s.organization_id = met.organization_id
           AND (s.project_id IS NULL OR s.project_id = met.project_id)
           AND s.begin_at <= moment AND (s.end_at IS NULL OR s.end_at > moment)
         ORDER BY s.project_id NULLS FIRST, s.begin_at LIMIT 1;
      ELSIF met.tenant_counters = met.tenant_limits THEN
        code := CASE WHEN met.is_suspended THEN 'suspended'
                     WHEN met.tenant_limits = 0 THEN 'allowed_ungoverned' ELSE 'allowed' END;
      END IF;
      codes[number] := code;
      IF is_single OR verdict->>'code' LIKE 'allowed%' THEN
        verdicts[number] := verdict;
      END IF;
    END IF;
    CONTINUE WHEN codes[number] IS NULL;
    demand_counts[number] := demand_counts[number] + 1;
    IF met.tenant_limits > 0 AND met.is_covered IS NOT TRUE AND blockers[number] IS NULL THEN
      -- Every model group the pod may land on must be granted by some limit that covers it.
      question := questions->(number - 1);
      SELECT quotas_describe_limit('project', p.slug, d.size, coalesce(g, ''), k.slug, met.is_burst,
                         0, 0, 0, d.units) INTO blocker
        FROM jsonb_to_recordset(question->'demands')
               AS d(size text, units bigint, model_groups text[])
        LEFT JOIN LATERAL unnest(d.model_groups) g ON true
        JOIN tenants_project p ON p.id = met.project_id
        JOIN tenants_cluster k ON k.id = (question->>'cluster_id')::uuid
       WHERE NOT EXISTS (
         SELECT FROM quotas_quotalimit l
          WHERE l.organization_id = met.organization_id AND l.size = d.size
            AND (l.project_id IS NULL OR l.project_id = met.project_id)
            AND (l.user_id IS NULL OR l.user_id = met.person_id)
            AND (l.cluster_id IS NULL OR l.cluster_id = k.id)
            AND (l.model_group = '' OR g IS NULL OR l.model_group = g))
       ORDER BY d.size, g LIMIT 1;
      IF blocker IS NOT NULL THEN
        blockers[number] := blocker;
        codes[number] := CASE codes[number]
          WHEN 'allowed' THEN 'nothing_granted' ELSE codes[number] END;
      END IF;
    END IF;
    IF met.limits IS NOT NULL THEN
      limits := limits || met.limits;
      caps := caps || met.caps;
      units := units || array_fill(met.units, ARRAY[cardinality(met.limits)]);
    END IF;
    last_entries[number] := coalesce(cardinality(limits), 0);
  END LOOP;

  IF limits IS NOT NULL THEN
    SELECT array_agg(c.limit_id), array_agg(c.held_units), array_agg(c.reserved_units),
           array_agg(c.burst_held_units), array_agg(c.burst_reserved_units),
           array_agg(c.used_month)
      INTO counters, held, reserved, burst_held, burst_reserved, used_months
      FROM (SELECT c.limit_id, c.held_units, c.reserved_units, c.burst_held_units,
                   c.burst_reserved_units,
                   CASE WHEN c.month_unit_seconds >= 3600 * l.monthly_unit_hours::bigint
                        THEN c.month END AS used_month
              FROM quotas_quotalimit l JOIN quotas_quotacounter c ON c.limit_id = l.id
             WHERE l.id = ANY (limits)
             ORDER BY l.organization_id,
                      array_position('{organization,project,user}'::text[], l.scope::text),
                      l.cluster_id IS NOT NULL, l.id
               FOR NO KEY UPDATE OF c) c;
    asked := array_fill(0::bigint, ARRAY[cardinality(counters)]);
    asked_burst := asked;
  END IF;

  -- In the order of the questions: each has to fit beside those admitted before it.
  FOR number IN 1..question_count LOOP
    code := codes[number];
    CONTINUE WHEN code IS NULL;
    blocker := blockers[number];
    IF blocker IS NOT NULL AND NOT lenient[number] THEN
      IF is_single THEN
        verdicts[number] := jsonb_build_object('code', code, 'blocker', blocker);
      END IF;
      CONTINUE;
    END IF;
    nearly := '[]';
    full_slots := NULL;
    FOR entry IN first_entries[number]..last_entries[number] LOOP
      slot := array_position(counters, limits[entry]);
      slots[entry] := slot;
      IF is_burst[number] THEN
        asked_burst[slot] := asked_burst[slot] + units[entry];
        sum_units := burst_held[slot] + burst_reserved[slot] + asked_burst[slot];
      ELSE
        asked[slot] := asked[slot] + units[entry];
        sum_units := held[slot] + reserved[slot] + asked[slot];
      END IF;
      IF sum_units * 10 >= caps[entry] * 9 OR used_months[slot] IS NOT NULL THEN
        full_slots := full_slots || slot;
      END IF;
    END LOOP;
    IF full_slots IS NOT NULL THEN
      -- Most limits are far away: only now the holders of these are read.
      month_asked := date_trunc(
        'month', (questions->(number - 1)->>'at')::timestamptz AT TIME ZONE 'UTC')::date;
      FOR fact IN
        SELECT e.cap, e.units, e.used + e.reserved + e.units AS sum_units,
               coalesce(used_months[e.slot] = month_asked, false) AS is_used,
               l.monthly_unit_hours, c.month_unit_seconds / 3600 AS month_unit_hours,
               quotas_describe_limit(
                 l.scope, coalesce(u.username, p.slug, o.slug), l.size, l.model_group,
                 coalesce(k.slug, ''), is_burst[number], coalesce(e.cap, 0), e.used, e.reserved,
                 e.units) AS facts
          FROM (SELECT n.slot, n.limit_id, n.cap, n.units,
                       CASE WHEN is_burst[number] THEN burst_held[n.slot]
                            ELSE held[n.slot] END AS used,
                       CASE WHEN is_burst[number]
                            THEN burst_reserved[n.slot] + asked_burst[n.slot]
                            ELSE reserved[n.slot] + asked[n.slot] END - n.units
                         AS reserved
                  FROM (SELECT n.slot, n.limit_id, min(n.cap) AS cap,
                               sum(n.units)::bigint AS units
                          FROM unnest(
                                 slots[first_entries[number]:last_entries[number]],
                                 limits[first_entries[number]:last_entries[number]],
                                 caps[first_entries[number]:last_entries[number]],
                                 units[first_entries[number]:last_entries[number]])
                                 AS n(slot, limit_id, cap, units)
                         WHERE n.slot = ANY (full_slots)
                         GROUP BY n.slot, n.limit_id) n) e
          JOIN quotas_quotalimit l ON l.id = e.limit_id
          JOIN quotas_quotacounter c ON c.limit_id = e.limit_id
          JOIN tenants_organization o ON o.id = l.organization_id
          LEFT JOIN tenants_project p ON p.id = l.project_id
          LEFT JOIN auth_user u ON u.id = l.user_id
          LEFT JOIN tenants_cluster k ON k.id = l.cluster_id
         ORDER BY e.slot
      LOOP
        IF code LIKE 'allowed%' AND fact.sum_units > fact.cap THEN
          code := 'limit_reached';
          blocker := fact.facts;
        ELSIF code LIKE 'allowed%' AND fact.is_used THEN
          code := 'allowance_used';
          blocker := fact.facts || jsonb_build_object(
            'limit_units', fact.monthly_unit_hours, 'used_units', fact.month_unit_hours,
            'reserved_units', 0);
        ELSIF fact.sum_units * 10 >= fact.cap * 9 THEN
          nearly := nearly || fact.facts;
        END IF;
      END LOOP;
    END IF;
    IF NOT is_open[number] THEN
      code := 'closed';
    END IF;
    IF code LIKE 'allowed%' OR is_single THEN
      verdicts[number] := jsonb_build_object('code', code, 'blocker', blocker);
      IF code LIKE 'allowed%' OR lenient[number] THEN
        verdicts[number] := verdicts[number] || jsonb_build_object('nearly_full', nearly);
        IF is_written[number] THEN
          admitted := admitted || number;
          expected := expected + demand_counts[number];
          CONTINUE;
        END IF;
      END IF;
    END IF;
    FOR entry IN first_entries[number]..last_entries[number] LOOP
      slot := slots[entry];
      IF is_burst[number] THEN
        asked_burst[slot] := asked_burst[slot] - units[entry];
      ELSE
        asked[slot] := asked[slot] - units[entry];
      END IF;
    END LOOP;
  END LOOP;

  IF admitted IS NULL THEN
    RETURN;
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
   WHERE q.number = ANY (admitted)
   ORDER BY q.cluster_id, q.pod_uid, d.resource
  ON CONFLICT (cluster_id, pod_uid, resource) DO UPDATE
     SET (namespace, pod_name, controller, organization_id, project_id, owner, username, size,
          units, model_groups, is_burst, state, admitted_at, expires_at, released_at,
          release_reason)
       = (excluded.namespace, excluded.pod_name, excluded.controller, excluded.organization_id,
          excluded.project_id, excluded.owner, excluded.username, excluded.size, excluded.units,
          excluded.model_groups, excluded.is_burst, 'reserved', excluded.admitted_at,
          excluded.expires_at, NULL, '')
   WHERE quotas_reservation.state = 'released' AND quotas_reservation.release_reason = 'expired';
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written < expected THEN
    RAISE SQLSTATE 'GL001' USING MESSAGE = 'the same pod was counted meanwhile';
  END IF;

  UPDATE quotas_quotacounter c
     SET reserved_units = c.reserved_units + n.units,
         burst_reserved_units = c.burst_reserved_units + n.burst_units
    FROM unnest(counters, asked, asked_burst) AS n(id, units, burst_units)
   WHERE c.limit_id = n.id AND n.units + n.burst_units <> 0;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_decide(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_decide(jsonb) TO gpu_ledger_runtime;
