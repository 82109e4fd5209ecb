"""SQL that lets a pod in or refuses it: the question and the verdict are JSON, one call a pod."""

from quotas.migrations._admission import BY_INDEX, PINNED, only_runtime

# One limit that a pod meets, as it is told to whoever is refused or warned.
TELL = f"""
CREATE FUNCTION quotas_tell(
  scope text, holder text, size text, model_group text, cluster text, is_burst boolean,
  limit_units bigint, used_units bigint, reserved_units bigint, asked_units bigint)
RETURNS jsonb LANGUAGE sql IMMUTABLE {PINNED} RETURN jsonb_build_object(
  'scope', scope, 'holder', holder, 'size', size, 'model_group', model_group,
  'cluster', cluster, 'is_burst', is_burst, 'limit_units', limit_units,
  'used_units', used_units, 'reserved_units', reserved_units, 'asked_units', asked_units);
{only_runtime("quotas_tell(text, text, text, text, text, boolean, bigint, bigint, bigint, bigint)")}
"""

# The caller holds the organization's lock, shared or alone. SQLSTATE GL001 asks for the second
# look: a counter is missing, or another request of the same pod has just been counted.
RESERVE = f"""
CREATE FUNCTION quotas_reserve(
  question jsonb, organization uuid, project uuid, person text, person_id integer,
  is_lenient boolean)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  moment timestamptz := (question->>'at')::timestamptz;
  cluster uuid := (question->>'cluster_id')::uuid;
  burst boolean := (question->>'is_burst')::boolean;
  -- What is asked, taken apart once; groups are arrays as text, since they differ in length.
  resources text[];
  sizes text[];
  units bigint[];
  groups text[];
  open_sizes text[];
  met record;
  code text := 'allowed';
  blocker jsonb;
  told jsonb;
  nearly jsonb := '[]';
  taken bigint;
  is_used boolean;
  cap bigint;
  counter_ids uuid[] := '{{}}';
  counter_units bigint[] := '{{}}';
  known integer;
  same integer;
  limits integer;
  counters integer;
  written integer;
BEGIN
  SELECT array_agg(d.resource), array_agg(d.size), array_agg(d.units),
         array_agg(d.model_groups::text)
    INTO resources, sizes, units, groups
    FROM jsonb_to_recordset(question->'demands')
         AS d(resource text, size text, units bigint, model_groups text[]);

  -- A uid is one pod's. What it has been let in for is not asked again, and nobody else comes in by
  -- it, nor it once more after its end; only what expired unseen asks anew.
  SELECT count(*), count(*) FILTER (
           WHERE r.state <> 'released' AND r.namespace = question->>'namespace'
             AND question->'demands' @> jsonb_build_array(jsonb_build_object(
                   'resource', r.resource, 'size', r.size, 'units', r.units)))
    INTO known, same
    FROM quotas_reservation r
   WHERE r.cluster_id = cluster AND r.pod_uid = question->>'pod_uid'
     AND NOT (r.state = 'released' AND r.release_reason = 'expired');
  IF known > 0 THEN
    RETURN jsonb_build_object('code', CASE
      WHEN known = same AND same = cardinality(resources) THEN 'allowed_before'
      ELSE 'replayed_otherwise' END);
  END IF;

  SELECT count(*), count(c.limit_id),
         array_agg(l.size) FILTER (
           WHERE l.model_group = '' AND (l.cluster_id IS NULL OR l.cluster_id = cluster)),
         (SELECT to_jsonb(s.reason) FROM quotas_quotasuspension s
           WHERE s.organization_id = organization
             AND (s.project_id IS NULL OR s.project_id = project)
             AND s.begin_at <= moment AND (s.end_at IS NULL OR s.end_at > moment)
           ORDER BY s.project_id NULLS FIRST, s.begin_at LIMIT 1)
    INTO limits, counters, open_sizes, told
    FROM quotas_quotalimit l
    LEFT JOIN quotas_quotacounter c ON c.limit_id = l.id
   WHERE l.organization_id = organization AND (l.project_id IS NULL OR l.project_id = project)
     AND (l.user_id IS NULL OR l.user_id = person_id);
  IF told IS NOT NULL THEN
    code := 'suspended';
    IF NOT is_lenient THEN
      RETURN jsonb_build_object('code', code, 'reason', told);
    END IF;
  END IF;

  IF counters < limits THEN
    RAISE SQLSTATE 'GL001' USING MESSAGE = 'a limit has no counter yet';
  END IF;

  IF limits = 0 THEN
    code := CASE code WHEN 'allowed' THEN 'allowed_ungoverned' ELSE code END;
  ELSIF NOT sizes <@ open_sizes OR open_sizes IS NULL THEN
    -- Every model group the pod may land on must be granted by some limit that covers it; limits
    -- of all models cover every one.
    SELECT quotas_tell('project', p.slug, d.size, coalesce(g, ''), k.slug, burst,
                       0, 0, 0, d.units) INTO blocker
      FROM unnest(sizes, units, groups) AS d(size, units, model_groups)
      LEFT JOIN LATERAL unnest(d.model_groups::text[]) g ON true
      JOIN tenants_project p ON p.id = project
      JOIN tenants_cluster k ON k.id = cluster
     WHERE NOT EXISTS (
       SELECT FROM quotas_quotalimit l
        WHERE l.organization_id = organization AND l.size = d.size
          AND (l.project_id IS NULL OR l.project_id = project)
          AND (l.user_id IS NULL OR l.user_id = person_id)
          AND (l.cluster_id IS NULL OR l.cluster_id = cluster)
          AND (l.model_group = '' OR g IS NULL OR l.model_group = g))
     ORDER BY d.size, g LIMIT 1;
    IF blocker IS NOT NULL THEN
      code := CASE code WHEN 'allowed' THEN 'nothing_granted' ELSE code END;
      IF NOT is_lenient THEN
        RETURN jsonb_build_object('code', code, 'blocker', blocker);
      END IF;
    END IF;
  END IF;

  -- Counters are locked in the one order; what is read of them is as it stands under the lock.
  FOR met IN
    SELECT c.*, l.scope, l.size, l.model_group, l.limit_units, l.burst_units,
           l.project_id, l.user_id, l.cluster_id, l.monthly_unit_hours, a.units AS asked_units,
           (SELECT coalesce(sum(g.units), 0) FROM quotas_quotagrant g
             WHERE g.limit_id = l.id AND g.valid @> moment) AS granted_units
      FROM quotas_quotalimit l
      JOIN quotas_quotacounter c ON c.limit_id = l.id
     CROSS JOIN LATERAL (
       SELECT sum(d.units)::bigint AS units
         FROM unnest(sizes, units, groups) AS d(size, units, model_groups)
        WHERE d.size = l.size
          AND (l.model_group = '' OR d.model_groups = '{{}}'
               OR l.model_group = ANY (d.model_groups::text[]))) a
     WHERE l.organization_id = organization AND (l.project_id IS NULL OR l.project_id = project)
       AND (l.user_id IS NULL OR l.user_id = person_id)
       AND (l.cluster_id IS NULL OR l.cluster_id = cluster)
       AND a.units IS NOT NULL
     ORDER BY array_position('{{organization,project,user}}'::text[], l.scope::text),
              l.cluster_id IS NOT NULL, l.id
       FOR NO KEY UPDATE OF c
  LOOP
    counter_ids := counter_ids || met.limit_id;
    counter_units := counter_units || met.asked_units;
    -- Burst has a bound of its own, also where nominal units have none.
    cap := CASE WHEN burst THEN met.burst_units WHEN met.limit_units IS NULL THEN NULL
                ELSE greatest(0, met.limit_units + met.granted_units) END;
    taken := CASE WHEN burst THEN met.burst_held_units + met.burst_reserved_units
                  ELSE met.held_units + met.reserved_units END;
    is_used := coalesce(
      met.month_unit_seconds >= 3600 * met.monthly_unit_hours::bigint
      AND met.month = date_trunc('month', moment AT TIME ZONE 'UTC')::date, false);
    -- Most limits are far away: whose they are is looked up only where somebody is told.
    CONTINUE WHEN NOT (is_used OR coalesce((taken + met.asked_units) * 10 >= cap * 9, false));
    SELECT quotas_tell(
             met.scope, coalesce(u.username, p.slug, o.slug), met.size, met.model_group,
             coalesce(k.slug, ''), burst, coalesce(cap, 0),
             CASE WHEN burst THEN met.burst_held_units ELSE met.held_units END,
             CASE WHEN burst THEN met.burst_reserved_units ELSE met.reserved_units END,
             met.asked_units) INTO told
      FROM tenants_organization o
      LEFT JOIN tenants_project p ON p.id = met.project_id
      LEFT JOIN auth_user u ON u.id = met.user_id
      LEFT JOIN tenants_cluster k ON k.id = met.cluster_id
     WHERE o.id = organization;
    IF code LIKE 'allowed%' AND taken + met.asked_units > cap THEN
      code := 'limit_reached';
      blocker := told;
    ELSIF code LIKE 'allowed%' AND is_used THEN
      code := 'allowance_used';
      blocker := told || jsonb_build_object(
        'limit_units', met.monthly_unit_hours, 'used_units', met.month_unit_seconds / 3600,
        'reserved_units', 0);
    ELSIF (taken + met.asked_units) * 10 >= cap * 9 THEN
      nearly := nearly || told;
    END IF;
  END LOOP;

  IF NOT (code LIKE 'allowed%' OR is_lenient) THEN
    RETURN jsonb_build_object('code', code, 'blocker', blocker);
  END IF;

  INSERT INTO quotas_reservation (
    cluster_id, pod_uid, resource, namespace, pod_name, controller, organization_id, project_id,
    owner, username, size, units, model_groups, is_burst, state, origin, admitted_at, expires_at,
    release_reason)
  SELECT cluster, question->>'pod_uid', d.resource, question->>'namespace',
         question->>'pod_name', question->>'controller', organization, project,
         question->>'owner', person, d.size, d.units, d.model_groups::text[], burst,
         'reserved', 'admission', moment,
         moment + make_interval(secs => (question->>'ttl_seconds')::integer), ''
    FROM unnest(resources, sizes, units, groups) AS d(resource, size, units, model_groups)
   ORDER BY d.resource
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
  IF written < cardinality(resources) THEN
    RAISE SQLSTATE 'GL001' USING MESSAGE = 'the same pod was counted meanwhile';
  END IF;

  UPDATE quotas_quotacounter c
     SET reserved_units = c.reserved_units + CASE WHEN burst THEN 0 ELSE n.units END,
         burst_reserved_units = c.burst_reserved_units + CASE WHEN burst THEN n.units ELSE 0 END
    FROM unnest(counter_ids, counter_units) AS n(id, units)
   WHERE c.limit_id = n.id;
  RETURN jsonb_build_object('code', code, 'blocker', blocker, 'nearly_full', nearly);
END $$;
{only_runtime("quotas_reserve(jsonb, uuid, uuid, text, integer, boolean)")}
"""

# A closed tenant starts nothing; where the cluster only warns, what is let in counts all the same.
_WEIGH = """verdict := CASE
        WHEN place.organization_id IS NULL THEN NULL
        WHEN place.is_open OR place.is_lenient THEN
          quotas_reserve(question, place.organization_id, place.project_id, place.person,
                         place.person_id, place.is_lenient)
          || CASE WHEN place.is_open THEN '{}' ELSE '{"code": "closed"}' END::jsonb
        ELSE '{"code": "closed"}' END;"""

# SQLSTATE GL000 takes a dry run back; a row lock or advisory lock taken inside ends with it,
# as it does with GL002, whose verdict stands unless it is stale.
ADMIT = f"""
CREATE FUNCTION quotas_admit(question jsonb) RETURNS jsonb LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE
  moment timestamptz := (question->>'at')::timestamptz;
  dry boolean := (question->>'is_dry_run')::boolean;
  theirs uuid;
  place record;
  verdict jsonb;
  is_stale boolean := false;
  kept text;
BEGIN
  kept := set_config('synchronous_commit', 'off', true);
  -- Whose the namespace is, is read again under the lock, which somebody may have been waited for.
  SELECT p.organization_id INTO theirs
    FROM tenants_namespacebinding b JOIN tenants_project p ON p.id = b.project_id
   WHERE b.cluster_id = (question->>'cluster_id')::uuid
     AND b.namespace = question->>'namespace' AND b.valid @> moment;
  IF FOUND THEN
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(quotas_lock_key(theirs));
      SELECT * INTO place FROM quotas_place(question, moment);
      IF place.organization_id IS DISTINCT FROM theirs THEN
        RAISE SQLSTATE 'GL001' USING MESSAGE = 'the namespace has moved';
      END IF;
      {_WEIGH}
      -- Whoever is refused lets go of the counters before it looks further: that reads every live
      -- reservation of its tenant, and others of it must not wait for that.
      IF verdict->>'code' NOT LIKE 'allowed%' AND NOT place.is_lenient THEN
        RAISE SQLSTATE 'GL002';
      ELSIF verdict->>'code' NOT LIKE 'allowed%' THEN
        PERFORM FROM quotas_over(theirs, moment) LIMIT 1;
        IF FOUND THEN
          RAISE SQLSTATE 'GL001';
        END IF;
      END IF;
      IF dry THEN
        RAISE SQLSTATE 'GL000';
      END IF;
    EXCEPTION
      WHEN SQLSTATE 'GL001' THEN is_stale := true;
      WHEN SQLSTATE 'GL002' THEN is_stale := quotas_may_be_stale(question, theirs, verdict);
      WHEN SQLSTATE 'GL000' THEN NULL;
    END;
    IF is_stale THEN
      BEGIN
        theirs := NULL;
        LOOP
          SELECT * INTO place FROM quotas_place(question, moment);
          EXIT WHEN place.organization_id IS NOT DISTINCT FROM theirs;
          theirs := place.organization_id;
          PERFORM quotas_settle(theirs, moment);
        END LOOP;
        {_WEIGH}
        IF dry THEN
          RAISE SQLSTATE 'GL000';
        END IF;
      EXCEPTION
        WHEN SQLSTATE 'GL000' THEN NULL;
      END;
    END IF;
  ELSE
    SELECT * INTO place FROM quotas_place(question, moment);
  END IF;
  IF verdict IS NULL THEN
    verdict := jsonb_build_object('code', CASE question->>'unbound'
      WHEN 'allow' THEN 'allowed_ungoverned' ELSE 'namespace_unbound' END);
  END IF;
  IF NOT (dry OR verdict->>'code' LIKE 'allowed%' OR coalesce(place.is_lenient, false)) THEN
    PERFORM quotas_refuse(question, place.organization_id, place.project_id,
                          coalesce(place.person, question->>'owner'), verdict);
  END IF;
  RETURN verdict;
END $$;
{only_runtime("quotas_admit(jsonb)")}
"""
