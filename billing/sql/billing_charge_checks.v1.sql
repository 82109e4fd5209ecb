-- A charge is added to an open period of its organization, at a price that is there. Its window,
-- which is sealed, and its project have the same time, cluster and organization as the charge: the
-- key of charges contains time and organization, and would admit a copy with others.
--
-- Charges have no foreign keys: each would be checked once a row. What they refer to is looked up
-- once for each distinct value of a statement, by its primary key, whatever the size of the tables;
-- the new rows are read once. None of it can be deleted: usage refers to organization and project,
-- its window to the cluster, and prices and periods refuse it.
CREATE OR REPLACE FUNCTION billing_refuse_posted_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  WITH parents AS MATERIALIZED (
    SELECT DISTINCT window_id, window_start, cluster_id, organization_id, project_id, period_id,
           price_id
      FROM new_rows
  )
  SELECT found.* INTO offender FROM (
    SELECT 1 AS check, r.period_id::text AS id FROM (SELECT DISTINCT period_id FROM parents) r
     WHERE NOT EXISTS (
       SELECT FROM billing_billingperiod p WHERE p.id = r.period_id AND p.state = 'open' OFFSET 0)
     UNION ALL
    SELECT 2, r.window_id::text
      FROM (SELECT DISTINCT window_id, window_start, cluster_id FROM parents) r
     WHERE NOT EXISTS (
       SELECT FROM metering_sealed_window w
        WHERE w.id = r.window_id AND w.start_at = r.window_start AND w.cluster_id = r.cluster_id
       OFFSET 0)
     UNION ALL
    SELECT 3, r.project_id::text
      FROM (SELECT DISTINCT organization_id, project_id, period_id FROM parents) r
     WHERE NOT EXISTS (
       SELECT FROM tenants_project p
        WHERE p.id = r.project_id AND p.organization_id = r.organization_id
       OFFSET 0)
        OR NOT EXISTS (
       SELECT FROM billing_billingperiod p
        WHERE p.id = r.period_id AND p.organization_id = r.organization_id
       OFFSET 0)
     UNION ALL
    SELECT 4, r.price_id::text FROM (SELECT DISTINCT price_id FROM parents) r
     WHERE NOT EXISTS (SELECT FROM billing_price p WHERE p.id = r.price_id OFFSET 0)
  ) found LIMIT 1;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  CASE offender.check
    WHEN 1 THEN
      RAISE EXCEPTION 'INSERT on charges is refused: a charge comes to an open period'
        USING ERRCODE = 'restrict_violation', HINT = 'Post it to the next open period.';
    WHEN 2 THEN
      RAISE EXCEPTION 'INSERT on charges is refused: window % is not sealed, or differs',
        offender.id
        USING ERRCODE = 'restrict_violation',
              HINT = 'A charge has the time and the cluster of its sealed window.';
    WHEN 3 THEN
      RAISE EXCEPTION 'INSERT on charges is refused: project % or the period is not of the '
        'organization', offender.id
        USING ERRCODE = 'restrict_violation',
              HINT = 'A charge has the organization of its project and of its period.';
    ELSE
      RAISE EXCEPTION 'INSERT on charges is refused: there is no price %', offender.id
        USING ERRCODE = 'foreign_key_violation', HINT = 'A charge pins a price of a price book.';
  END CASE;
END $$;
DROP TRIGGER billing_charge_has_price ON billing_charge;
DROP FUNCTION billing_check_charge_prices;
-- Most charges are of no repricing: one look at the new rows says so.
CREATE OR REPLACE FUNCTION billing_check_repriced() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  IF NOT EXISTS (SELECT FROM new_rows WHERE repricing_id IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  SELECT r.repricing_id INTO offender
    FROM (SELECT DISTINCT repricing_id, organization_id FROM new_rows
           WHERE repricing_id IS NOT NULL) r
   WHERE NOT EXISTS (
     SELECT FROM billing_repricing p
      WHERE (p.id, p.organization_id, p.state) = (r.repricing_id, r.organization_id, 'proposed'))
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: repricing % is not there, or is decided',
      offender.repricing_id
      USING ERRCODE = 'restrict_violation', HINT = 'Reprice the month by the service.';
  END IF;
  SELECT r.repricing_id INTO offender
    FROM new_rows r WHERE r.repricing_id IS NOT NULL
   GROUP BY r.repricing_id, r.window_id, r.project_id, r.owner, r.size, r.price_group,
            r.correction_id
  HAVING sum(r.unit_seconds) <> 0
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: repricing % changes quantities',
      offender.repricing_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'Charge as many unit-seconds anew as are reversed.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
CREATE OR REPLACE FUNCTION billing_check_repriced() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT r.repricing_id INTO offender
    FROM (SELECT DISTINCT repricing_id, organization_id FROM new_rows
           WHERE repricing_id IS NOT NULL) r
   WHERE NOT EXISTS (
     SELECT FROM billing_repricing p
      WHERE (p.id, p.organization_id, p.state) = (r.repricing_id, r.organization_id, 'proposed'))
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: repricing % is not there, or is decided',
      offender.repricing_id
      USING ERRCODE = 'restrict_violation', HINT = 'Reprice the month by the service.';
  END IF;
  SELECT r.repricing_id INTO offender
    FROM new_rows r WHERE r.repricing_id IS NOT NULL
   GROUP BY r.repricing_id, r.window_id, r.project_id, r.owner, r.size, r.price_group,
            r.correction_id
  HAVING sum(r.unit_seconds) <> 0
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: repricing % changes quantities',
      offender.repricing_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'Charge as many unit-seconds anew as are reversed.';
  END IF;
  RETURN NULL;
END $$;
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
CREATE OR REPLACE FUNCTION billing_check_charge_prices() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE missing uuid;
BEGIN
  SELECT r.price_id INTO missing FROM (SELECT DISTINCT price_id FROM new_rows) r
   WHERE NOT EXISTS (SELECT FROM billing_price p WHERE p.id = r.price_id OFFSET 0) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: there is no price %', missing
      USING ERRCODE = 'foreign_key_violation', HINT = 'A charge pins a price of a price book.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_charge_has_price AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_charge_prices();
ALTER TABLE billing_charge ENABLE ALWAYS TRIGGER billing_charge_has_price;
