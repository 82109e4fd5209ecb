-- SQLSTATE GL000 takes a dry run back; a row lock or advisory lock taken inside ends with it, as
-- it does with GL002, whose verdict stands unless it is stale.
CREATE OR REPLACE FUNCTION quotas_admit(questions jsonb) RETURNS jsonb LANGUAGE plpgsql
  SET search_path = public, pg_temp SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  question jsonb := questions->0;
  moment timestamptz := (question->>'at')::timestamptz;
  decided record;
  verdict jsonb;
  locked uuid;
  owned_by uuid;
  is_stale boolean := false;
  kept text;
BEGIN
  kept := set_config('synchronous_commit', 'off', true);
  IF jsonb_array_length(questions) <> 1 THEN
    RETURN to_jsonb((quotas_decide(questions)).verdicts);
  END IF;
  BEGIN
    decided := quotas_decide(questions);
    verdict := decided.verdicts[1];
    IF verdict IS NULL THEN
      RAISE SQLSTATE 'GL001';
    ELSIF verdict->>'code' NOT LIKE 'allowed%' AND decided.organizations[1] IS NOT NULL THEN
      IF NOT decided.lenient[1] THEN
        -- A second look reads every live reservation of the tenant. Without the locks of the
        -- counters, other pods of the tenant need not wait for that.
        RAISE SQLSTATE 'GL002';
      END IF;
      PERFORM FROM quotas_over(decided.organizations[1], moment) LIMIT 1;
      IF FOUND THEN
        RAISE SQLSTATE 'GL001';
      END IF;
    END IF;
  EXCEPTION
    WHEN SQLSTATE 'GL001' THEN is_stale := true;
    WHEN SQLSTATE 'GL002' THEN
      is_stale := quotas_may_be_stale(question, decided.organizations[1], verdict);
  END;
  IF is_stale THEN
    BEGIN
      LOOP
        owned_by := (SELECT p.organization_id FROM tenants_namespacebinding b
                       JOIN tenants_project p ON p.id = b.project_id
                      WHERE b.cluster_id = (question->>'cluster_id')::uuid
                        AND b.namespace = question->>'namespace' AND b.valid @> moment);
        EXIT WHEN owned_by IS NOT DISTINCT FROM locked;
        locked := owned_by;
        PERFORM quotas_settle(locked, moment);
      END LOOP;
      decided := quotas_decide(questions);
      verdict := decided.verdicts[1];
      IF verdict IS NULL THEN
        RAISE SQLSTATE 'GL001' USING MESSAGE = 'the namespace moves again and again';
      ELSIF (question->>'is_dry_run')::boolean THEN
        RAISE SQLSTATE 'GL000';
      END IF;
    EXCEPTION
      WHEN SQLSTATE 'GL000' THEN NULL;
    END;
  END IF;
  IF NOT (verdict->>'code' LIKE 'allowed%' OR decided.lenient[1]
          OR (question->>'is_dry_run')::boolean) THEN
    PERFORM quotas_refuse(question, decided.organizations[1], decided.projects[1],
                          decided.usernames[1], verdict);
  END IF;
  RETURN jsonb_build_array(verdict);
END $$;
REVOKE EXECUTE ON FUNCTION quotas_admit(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_admit(jsonb) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_admit;
