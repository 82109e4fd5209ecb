-- A charge is added to an open period of its organization. Its window, which is sealed, and its
-- project have the same time, cluster and organization as the charge: the key of charges contains
-- time and organization, and would admit a copy with others. Few distinct values are looked up, each
-- by its primary key, whatever the size of the tables.
CREATE OR REPLACE FUNCTION billing_refuse_posted_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  IF EXISTS (SELECT FROM (SELECT DISTINCT period_id FROM new_rows) r
               LEFT JOIN billing_billingperiod p ON p.id = r.period_id
              WHERE p.state IS DISTINCT FROM 'open') THEN
    RAISE EXCEPTION 'INSERT on charges is refused: a charge comes to an open period'
      USING ERRCODE = 'restrict_violation', HINT = 'Post it to the next open period.';
  END IF;
  SELECT r.window_id INTO offender
    FROM (SELECT DISTINCT window_id, window_start, cluster_id FROM new_rows) r
   WHERE NOT EXISTS (
     SELECT FROM metering_sealed_window w
      WHERE w.id = r.window_id AND w.start_at = r.window_start AND w.cluster_id = r.cluster_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: window % is not sealed, or differs',
      offender.window_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A charge has the time and the cluster of its sealed window.';
  END IF;
  SELECT r.project_id INTO offender
    FROM (SELECT DISTINCT organization_id, project_id, period_id FROM new_rows) r
   WHERE NOT EXISTS (
     SELECT FROM tenants_project p
      WHERE p.id = r.project_id AND p.organization_id = r.organization_id
     OFFSET 0)
      OR NOT EXISTS (
     SELECT FROM billing_billingperiod p
      WHERE p.id = r.period_id AND p.organization_id = r.organization_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: project % or the period is not of the '
      'organization', offender.project_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A charge has the organization of its project and of its period.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
CREATE OR REPLACE FUNCTION billing_refuse_posted_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  IF EXISTS (SELECT FROM new_rows r LEFT JOIN billing_billingperiod p ON p.id = r.period_id
              WHERE r.line_id IS NOT NULL OR p.state IS DISTINCT FROM 'open') THEN
    RAISE EXCEPTION 'INSERT on charges is refused: a charge comes unbilled, to an open period'
      USING ERRCODE = 'restrict_violation', HINT = 'Post it to the next open period.';
  END IF;
  SELECT r.window_id INTO offender
    FROM (SELECT DISTINCT window_id, window_start, cluster_id FROM new_rows) r
   WHERE NOT EXISTS (
     SELECT FROM metering_sealed_window w
      WHERE w.id = r.window_id AND w.start_at = r.window_start AND w.cluster_id = r.cluster_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: window % is not sealed, or differs',
      offender.window_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A charge has the time and the cluster of its sealed window.';
  END IF;
  SELECT r.project_id INTO offender
    FROM (SELECT DISTINCT organization_id, project_id, period_id FROM new_rows) r
   WHERE NOT EXISTS (
     SELECT FROM tenants_project p
      WHERE p.id = r.project_id AND p.organization_id = r.organization_id
     OFFSET 0)
      OR NOT EXISTS (
     SELECT FROM billing_billingperiod p
      WHERE p.id = r.period_id AND p.organization_id = r.organization_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: project % or the period is not of the '
      'organization', offender.project_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A charge has the organization of its project and of its period.';
  END IF;
  RETURN NULL;
END $$;
