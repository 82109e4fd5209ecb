-- One query over all new rows. Windows take metered records until they are sealed, and records of
-- their posted corrections after that. A correction has exactly the records it announces, and no
-- pod's usage falls below zero. A revision of a pod belongs to one organization, which the key
-- leaves open. Usage has no foreign keys: each would be checked once a row, which took half of the
-- time of writing it. What it refers to is looked up here, and refuses to be deleted. The
-- search_path is fixed, so that no temporary table of a session replaces a ledger.
CREATE OR REPLACE FUNCTION metering_check_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, f.pod_uid, w.state, amount.is_possible INTO offender
    FROM new_rows n
    LEFT JOIN metering_meteringwindow w ON w.id = n.window_id
    LEFT JOIN metering_usagefact f
      ON f.id = n.fact_id AND f.version = n.fact_version AND f.organization_id = n.organization_id
    LEFT JOIN metering_usagecorrection c ON c.id = n.correction_id
   CROSS JOIN LATERAL (
     SELECT CASE WHEN n.revision > 0 THEN true
                 WHEN n.split_among = 1
                 THEN n.unit_seconds = f.units::bigint * (n.end_second - n.begin_second)
                 ELSE n.unit_seconds
                      BETWEEN 0 AND f.units::bigint * (n.end_second - n.begin_second)
            END AS is_possible) amount
   WHERE w.id IS NULL OR f.id IS NULL OR (w.state = 'sealed') <> (n.correction_id IS NOT NULL)
      OR (n.revision > 0) <> (n.correction_id IS NOT NULL)
      OR w.start_at <> n.window_start OR w.cluster_id <> f.cluster_id OR NOT amount.is_possible
      OR (n.correction_id IS NOT NULL
          AND (c.state, c.window_id, c.project_id)
              IS DISTINCT FROM ('posted', n.window_id, f.project_id))
   ORDER BY amount.is_possible DESC LIMIT 1;
  IF FOUND AND offender.is_possible IS NOT FALSE THEN
    RAISE EXCEPTION 'INSERT on usage is refused: window % in state % does not take pod %',
      offender.window_id, offender.state, offender.pod_uid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed windows take posted corrections only; window, cluster, project and '
                   'organization must agree.';
  END IF;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: of pod % it is not units by seconds',
      offender.pod_uid
      USING ERRCODE = 'check_violation', CONSTRAINT = 'metering_usage_is_units_by_seconds';
  END IF;
  -- Row by row, by the primary keys: planned as a join it would read the whole partition. Records
  -- of two organizations name facts of both, so records are looked up for those pods only that have
  -- such facts; hardly any has.
  SELECT n.fact_id INTO offender
    FROM new_rows n
   WHERE EXISTS (
     SELECT FROM metering_usagefact f
      WHERE f.id = n.fact_id AND f.organization_id <> n.organization_id
     OFFSET 0)
     AND EXISTS (
     SELECT FROM metering_usagerecord u
      WHERE u.window_start = n.window_start AND u.fact_id = n.fact_id
        AND u.revision = n.revision AND u.organization_id <> n.organization_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: pod % has usage of another organization',
      (SELECT max(f.pod_uid) FROM metering_usagefact f WHERE f.id = offender.fact_id)
      USING ERRCODE = 'restrict_violation',
            HINT = 'A revision of a pod belongs to one organization; a correction moves it.';
  END IF;
  IF NOT EXISTS (SELECT FROM new_rows WHERE correction_id IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  SELECT c.id INTO offender
    FROM metering_usagecorrection c
   CROSS JOIN LATERAL (
     SELECT count(*) AS records, sum(u.unit_seconds) AS unit_seconds FROM metering_usagerecord u
      WHERE u.correction_id = c.id AND u.window_start = c.window_start) written
   WHERE c.id IN (SELECT correction_id FROM new_rows)
     AND (written.records, written.unit_seconds)
         IS DISTINCT FROM (c.record_count::bigint, c.unit_seconds::numeric)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: correction % has other records', offender.id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A posted correction has exactly the records it announces, written at once.';
  END IF;
  SELECT u.fact_id, sum(u.unit_seconds) AS unit_seconds INTO offender
    FROM metering_usagerecord u
   WHERE (u.window_start, u.fact_id) IN (SELECT window_start, fact_id FROM new_rows)
   GROUP BY u.window_start, u.fact_id
  HAVING sum(u.unit_seconds) < 0
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: pod % would have used % unit-seconds',
      (SELECT max(f.pod_uid) FROM metering_usagefact f WHERE f.id = offender.fact_id),
      offender.unit_seconds
      USING ERRCODE = 'restrict_violation', HINT = 'Usage never falls below zero.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
CREATE OR REPLACE FUNCTION metering_check_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, f.pod_uid, w.state, amount.is_possible INTO offender
    FROM new_rows n
    LEFT JOIN metering_meteringwindow w ON w.id = n.window_id
    LEFT JOIN metering_usagefact f
      ON f.id = n.fact_id AND f.version = n.fact_version AND f.organization_id = n.organization_id
    LEFT JOIN metering_usagecorrection c ON c.id = n.correction_id
   CROSS JOIN LATERAL (
     SELECT CASE WHEN n.revision > 0 THEN true
                 WHEN n.split_among = 1
                 THEN n.unit_seconds = f.units::bigint * (n.end_second - n.begin_second)
                 ELSE n.unit_seconds
                      BETWEEN 0 AND f.units::bigint * (n.end_second - n.begin_second)
            END AS is_possible) amount
   WHERE w.id IS NULL OR f.id IS NULL OR (w.state = 'sealed') <> (n.correction_id IS NOT NULL)
      OR (n.revision > 0) <> (n.correction_id IS NOT NULL)
      OR w.start_at <> n.window_start OR w.cluster_id <> f.cluster_id OR NOT amount.is_possible
      OR (n.correction_id IS NOT NULL
          AND (c.state, c.window_id, c.project_id)
              IS DISTINCT FROM ('posted', n.window_id, f.project_id))
   ORDER BY amount.is_possible DESC LIMIT 1;
  IF FOUND AND offender.is_possible IS NOT FALSE THEN
    RAISE EXCEPTION 'INSERT on usage is refused: window % in state % does not take pod %',
      offender.window_id, offender.state, offender.pod_uid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed windows take posted corrections only; window, cluster, project and '
                   'organization must agree.';
  END IF;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: of pod % it is not units by seconds',
      offender.pod_uid
      USING ERRCODE = 'check_violation', CONSTRAINT = 'metering_usage_is_units_by_seconds';
  END IF;
  -- Row by row, by the primary key: planned as a join it would read the whole partition.
  SELECT n.fact_id INTO offender
    FROM new_rows n
   WHERE EXISTS (
     SELECT FROM metering_usagerecord u
      WHERE u.window_start = n.window_start AND u.fact_id = n.fact_id
        AND u.revision = n.revision AND u.organization_id <> n.organization_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: pod % has usage of another organization',
      (SELECT max(f.pod_uid) FROM metering_usagefact f WHERE f.id = offender.fact_id)
      USING ERRCODE = 'restrict_violation',
            HINT = 'A revision of a pod belongs to one organization; a correction moves it.';
  END IF;
  IF NOT EXISTS (SELECT FROM new_rows WHERE correction_id IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  SELECT c.id INTO offender
    FROM metering_usagecorrection c
   CROSS JOIN LATERAL (
     SELECT count(*) AS records, sum(u.unit_seconds) AS unit_seconds FROM metering_usagerecord u
      WHERE u.correction_id = c.id AND u.window_start = c.window_start) written
   WHERE c.id IN (SELECT correction_id FROM new_rows)
     AND (written.records, written.unit_seconds)
         IS DISTINCT FROM (c.record_count::bigint, c.unit_seconds::numeric)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: correction % has other records', offender.id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A posted correction has exactly the records it announces, written at once.';
  END IF;
  SELECT u.fact_id, sum(u.unit_seconds) AS unit_seconds INTO offender
    FROM metering_usagerecord u
   WHERE (u.window_start, u.fact_id) IN (SELECT window_start, fact_id FROM new_rows)
   GROUP BY u.window_start, u.fact_id
  HAVING sum(u.unit_seconds) < 0
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: pod % would have used % unit-seconds',
      (SELECT max(f.pod_uid) FROM metering_usagefact f WHERE f.id = offender.fact_id),
      offender.unit_seconds
      USING ERRCODE = 'restrict_violation', HINT = 'Usage never falls below zero.';
  END IF;
  RETURN NULL;
END $$;
