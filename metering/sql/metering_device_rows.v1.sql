-- Device figures in rows of integers, by month of their hour. What repeats from hour to hour (the
-- device, what held it, how much was sampled) is in tables of facts that are only added to; a row
-- has their ids. Two workers that post at once may add one fact twice, which changes no reader, so
-- that no unique index is kept over their texts. The view has the name and columns of before.
ALTER TABLE metering_deviceusage RENAME TO metering_deviceusage_whole;
CREATE TABLE metering_devicefact (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cluster_id uuid NOT NULL REFERENCES tenants_cluster,
  node varchar(253) NOT NULL,
  uuid varchar(64) NOT NULL,
  model varchar(128) NOT NULL,
  instance_id varchar(16) NOT NULL,
  instance_profile varchar(32) NOT NULL
);
CREATE TABLE metering_deviceholder (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  attribution varchar(16) NOT NULL,
  namespace varchar(63) NOT NULL,
  pod_name varchar(253) NOT NULL,
  pod_uid varchar(64) NOT NULL,
  resource varchar(128) NOT NULL,
  organization_id uuid REFERENCES tenants_organization,
  project_id uuid REFERENCES tenants_project,
  owner varchar(150) NOT NULL,
  size varchar(16) NOT NULL,
  price_group varchar(96) NOT NULL,
  sharing_mode varchar(16) NOT NULL,
  CONSTRAINT device_holder_exclusive_has_its_pod
    CHECK (attribution <> 'exclusive' OR (pod_uid <> '' AND project_id IS NOT NULL))
);
-- Hundred thousandths of the samples that were expected; -1 is "no data".
CREATE TABLE metering_devicecoverage (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  busy integer NOT NULL,
  sm_active integer NOT NULL,
  tensor_active integer NOT NULL,
  dram_active integer NOT NULL,
  memory integer NOT NULL,
  power integer NOT NULL,
  energy integer NOT NULL,
  is_busy_uncertain boolean NOT NULL,
  CONSTRAINT device_coverage_is_a_share CHECK (
    least(busy, sm_active, tensor_active, dram_active, memory, power, energy) >= -1)
);
-- The id is that of the window, and a number of 22 bits in it. Times count from window_start.
CREATE TABLE metering_devicefigure (
  id bigint NOT NULL,
  window_start timestamptz NOT NULL,
  energy_millijoules bigint,
  device_id integer NOT NULL,
  holder_id integer NOT NULL,
  coverage_id integer NOT NULL,
  begin_milliseconds integer NOT NULL,
  end_milliseconds integer NOT NULL,
  busy_millionths integer,
  sm_active_millionths integer,
  tensor_active_millionths integer,
  dram_active_millionths integer,
  memory_used_peak_mebibytes integer,
  memory_total_mebibytes integer,
  power_mean_milliwatts integer,
  CONSTRAINT device_figure_within_its_hour CHECK (
    begin_milliseconds >= 0 AND end_milliseconds > begin_milliseconds
    AND end_milliseconds <= 3600000),
  CONSTRAINT device_figure_is_positive CHECK (
    least(energy_millijoules, busy_millionths, sm_active_millionths, tensor_active_millionths,
          dram_active_millionths, memory_used_peak_mebibytes, memory_total_mebibytes,
          power_mean_milliwatts) >= 0)
) PARTITION BY RANGE (window_start);

CREATE VIEW metering_deviceusage WITH (security_invoker = true) AS
SELECT f.id, f.id >> 22 AS window_id, f.window_start, d.cluster_id, d.node, d.uuid, d.model,
       d.instance_id, d.instance_profile, h.attribution, h.namespace, h.pod_name, h.pod_uid,
       h.resource, h.organization_id, h.project_id, h.owner, h.size, h.price_group, h.sharing_mode,
       f.window_start + f.begin_milliseconds * interval '1 millisecond' AS begin_at,
       f.window_start + f.end_milliseconds * interval '1 millisecond' AS end_at,
       (f.end_milliseconds - f.begin_milliseconds) / 1000 AS seconds,
       (f.busy_millionths * 0.000001)::numeric(7, 6) AS busy_ratio,
       (nullif(c.busy, -1) * 0.00001)::numeric(6, 5) AS busy_coverage, c.is_busy_uncertain,
       (f.sm_active_millionths * 0.000001)::numeric(7, 6) AS sm_active_ratio,
       (nullif(c.sm_active, -1) * 0.00001)::numeric(6, 5) AS sm_active_coverage,
       (f.tensor_active_millionths * 0.000001)::numeric(7, 6) AS tensor_active_ratio,
       (nullif(c.tensor_active, -1) * 0.00001)::numeric(6, 5) AS tensor_active_coverage,
       (f.dram_active_millionths * 0.000001)::numeric(7, 6) AS dram_active_ratio,
       (nullif(c.dram_active, -1) * 0.00001)::numeric(6, 5) AS dram_active_coverage,
       f.memory_used_peak_mebibytes, f.memory_total_mebibytes,
       (nullif(c.memory, -1) * 0.00001)::numeric(6, 5) AS memory_coverage, f.power_mean_milliwatts,
       (nullif(c.power, -1) * 0.00001)::numeric(6, 5) AS power_coverage, f.energy_millijoules,
       (nullif(c.energy, -1) * 0.00001)::numeric(6, 5) AS energy_coverage
  FROM metering_devicefigure f
  JOIN metering_devicefact d ON d.id = f.device_id
  JOIN metering_deviceholder h ON h.id = f.holder_id
  JOIN metering_devicecoverage c ON c.id = f.coverage_id;

DO $$
BEGIN
  IF EXISTS (SELECT FROM metering_deviceusage_whole
              WHERE begin_at <> date_trunc('milliseconds', begin_at)
                 OR end_at <> date_trunc('milliseconds', end_at)
                 OR seconds <> floor(extract(epoch FROM end_at - begin_at))) THEN
    RAISE EXCEPTION 'a device figure has a time that is not exact to the millisecond';
  END IF;
END $$;
SELECT metering_ensure_device_partition(hour)
  FROM (SELECT DISTINCT date_trunc('month', window_start, 'UTC') AS hour
          FROM metering_deviceusage_whole) months ORDER BY hour;
INSERT INTO metering_devicefact (cluster_id, node, uuid, model, instance_id, instance_profile)
SELECT DISTINCT cluster_id, node, uuid, model, instance_id, instance_profile
  FROM metering_deviceusage_whole;
INSERT INTO metering_deviceholder (attribution, namespace, pod_name, pod_uid, resource,
  organization_id, project_id, owner, size, price_group, sharing_mode)
SELECT DISTINCT attribution, namespace, pod_name, pod_uid, resource, organization_id, project_id,
       owner, size, price_group, sharing_mode
  FROM metering_deviceusage_whole;
INSERT INTO metering_devicecoverage (busy, sm_active, tensor_active, dram_active, memory, power,
  energy, is_busy_uncertain)
SELECT DISTINCT coalesce(busy_coverage * 100000, -1), coalesce(sm_active_coverage * 100000, -1),
       coalesce(tensor_active_coverage * 100000, -1), coalesce(dram_active_coverage * 100000, -1),
       coalesce(memory_coverage * 100000, -1), coalesce(power_coverage * 100000, -1),
       coalesce(energy_coverage * 100000, -1), is_busy_uncertain
  FROM metering_deviceusage_whole;
ANALYZE metering_devicefact, metering_deviceholder, metering_devicecoverage,
  metering_deviceusage_whole;
-- Keys of so many columns are taken for more selective than they are.
SET LOCAL enable_nestloop = off;
SET LOCAL enable_mergejoin = off;
INSERT INTO metering_devicefigure
SELECT (u.window_id << 22) + row_number() OVER (PARTITION BY u.window_id ORDER BY u.id) - 1,
       u.window_start, u.energy_millijoules, d.id, h.id, c.id,
       extract(epoch FROM u.begin_at - u.window_start) * 1000,
       extract(epoch FROM u.end_at - u.window_start) * 1000, u.busy_ratio * 1000000,
       u.sm_active_ratio * 1000000, u.tensor_active_ratio * 1000000, u.dram_active_ratio * 1000000,
       u.memory_used_peak_mebibytes, u.memory_total_mebibytes, u.power_mean_milliwatts
  FROM metering_deviceusage_whole u
  JOIN metering_devicefact d USING (cluster_id, node, uuid, model, instance_id, instance_profile)
  JOIN metering_deviceholder h USING (attribution, namespace, pod_name, pod_uid, resource, owner,
         size, price_group, sharing_mode)
  JOIN metering_devicecoverage c
    ON (c.busy, c.sm_active, c.tensor_active, c.dram_active, c.memory, c.power, c.energy,
        c.is_busy_uncertain)
     = (coalesce(u.busy_coverage * 100000, -1), coalesce(u.sm_active_coverage * 100000, -1),
        coalesce(u.tensor_active_coverage * 100000, -1),
        coalesce(u.dram_active_coverage * 100000, -1), coalesce(u.memory_coverage * 100000, -1),
        coalesce(u.power_coverage * 100000, -1), coalesce(u.energy_coverage * 100000, -1),
        u.is_busy_uncertain)
 WHERE (h.organization_id, h.project_id) IS NOT DISTINCT FROM (u.organization_id, u.project_id)
 ORDER BY u.window_start, u.window_id, u.id;
SET LOCAL enable_nestloop = DEFAULT;
SET LOCAL enable_mergejoin = DEFAULT;
DO $$
BEGIN
  IF (SELECT count(*) FROM metering_devicefigure)
     <> (SELECT count(*) FROM metering_deviceusage_whole) THEN
    RAISE EXCEPTION 'not every device figure was moved';
  END IF;
END $$;
DROP TABLE metering_deviceusage_whole;
CREATE INDEX device_fact_by_uuid ON metering_devicefact (uuid);
CREATE INDEX device_holder_by_pod ON metering_deviceholder (pod_uid, pod_name);
CREATE INDEX device_holder_by_project ON metering_deviceholder (project_id);
CREATE INDEX device_figure_by_hour ON metering_devicefigure (window_start, (id >> 22));
CREATE INDEX device_figure_by_holder ON metering_devicefigure (holder_id);
ANALYZE metering_devicefigure;
DROP FUNCTION metering_check_device_usage;
REVOKE ALL ON metering_devicefigure, metering_devicefact, metering_deviceholder,
  metering_devicecoverage, metering_deviceusage FROM gpu_ledger_runtime;
GRANT SELECT, INSERT, DELETE ON metering_devicefigure TO gpu_ledger_runtime;
GRANT SELECT, INSERT ON metering_devicefact, metering_deviceholder, metering_devicecoverage
  TO gpu_ledger_runtime;
GRANT SELECT ON metering_deviceusage TO gpu_ledger_runtime;
-- reverse
ALTER VIEW metering_deviceusage RENAME TO metering_deviceusage_view;
CREATE TABLE metering_deviceusage (
  id bigint GENERATED BY DEFAULT AS IDENTITY,
  window_start timestamptz NOT NULL,
  node varchar(253) NOT NULL,
  uuid varchar(64) NOT NULL,
  model varchar(128) NOT NULL,
  instance_id varchar(16) NOT NULL,
  instance_profile varchar(32) NOT NULL,
  attribution varchar(16) NOT NULL,
  namespace varchar(63) NOT NULL,
  pod_name varchar(253) NOT NULL,
  pod_uid varchar(64) NOT NULL,
  resource varchar(128) NOT NULL,
  owner varchar(150) NOT NULL,
  size varchar(16) NOT NULL,
  price_group varchar(96) NOT NULL,
  sharing_mode varchar(16) NOT NULL,
  begin_at timestamptz NOT NULL,
  end_at timestamptz NOT NULL,
  seconds integer NOT NULL CHECK (seconds >= 0),
  busy_ratio numeric(7, 6),
  busy_coverage numeric(6, 5),
  is_busy_uncertain boolean NOT NULL,
  sm_active_ratio numeric(7, 6),
  sm_active_coverage numeric(6, 5),
  tensor_active_ratio numeric(7, 6),
  tensor_active_coverage numeric(6, 5),
  dram_active_ratio numeric(7, 6),
  dram_active_coverage numeric(6, 5),
  memory_used_peak_mebibytes integer CHECK (memory_used_peak_mebibytes >= 0),
  memory_total_mebibytes integer CHECK (memory_total_mebibytes >= 0),
  memory_coverage numeric(6, 5),
  power_mean_milliwatts integer CHECK (power_mean_milliwatts >= 0),
  power_coverage numeric(6, 5),
  energy_millijoules bigint,
  energy_coverage numeric(6, 5),
  cluster_id uuid NOT NULL CONSTRAINT metering_deviceusage_cluster_id_3cce5311_fk_tenants_cluster_id
    REFERENCES tenants_cluster DEFERRABLE INITIALLY DEFERRED,
  organization_id uuid CONSTRAINT metering_deviceusage_organization_id_ad9c8dc5_fk_tenants_o
    REFERENCES tenants_organization DEFERRABLE INITIALLY DEFERRED,
  project_id uuid CONSTRAINT metering_deviceusage_project_id_cb3f5cbc_fk_tenants_project_id
    REFERENCES tenants_project DEFERRABLE INITIALLY DEFERRED,
  window_id bigint NOT NULL CONSTRAINT metering_deviceusage_window_id_777a25eb_fk_metering_
    REFERENCES metering_meteringwindow DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO metering_deviceusage (window_start, node, uuid, model, instance_id, instance_profile,
  attribution, namespace, pod_name, pod_uid, resource, owner, size, price_group, sharing_mode,
  begin_at, end_at, seconds, busy_ratio, busy_coverage, is_busy_uncertain, sm_active_ratio,
  sm_active_coverage, tensor_active_ratio, tensor_active_coverage, dram_active_ratio,
  dram_active_coverage, memory_used_peak_mebibytes, memory_total_mebibytes, memory_coverage,
  power_mean_milliwatts, power_coverage, energy_millijoules, energy_coverage, cluster_id,
  organization_id, project_id, window_id)
SELECT window_start, node, uuid, model, instance_id, instance_profile, attribution, namespace,
       pod_name, pod_uid, resource, owner, size, price_group, sharing_mode, begin_at, end_at,
       seconds, busy_ratio, busy_coverage, is_busy_uncertain, sm_active_ratio, sm_active_coverage,
       tensor_active_ratio, tensor_active_coverage, dram_active_ratio, dram_active_coverage,
       memory_used_peak_mebibytes, memory_total_mebibytes, memory_coverage, power_mean_milliwatts,
       power_coverage, energy_millijoules, energy_coverage, cluster_id, organization_id,
       project_id, window_id
  FROM metering_deviceusage_view ORDER BY window_start, id;
DROP VIEW metering_deviceusage_view;
DROP TABLE metering_devicefigure, metering_devicefact, metering_deviceholder,
  metering_devicecoverage;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE metering_deviceusage
  ADD CONSTRAINT metering_deviceusage_pkey PRIMARY KEY (id, window_start),
  ADD CONSTRAINT device_usage_unique UNIQUE NULLS NOT DISTINCT (window_id, uuid, instance_id,
    instance_profile, begin_at, attribution, window_start, organization_id),
  ADD CONSTRAINT device_usage_forward CHECK (end_at > begin_at),
  ADD CONSTRAINT device_usage_exclusive_has_its_pod CHECK (
    NOT (attribution = 'exclusive') OR (NOT (pod_uid = '') AND project_id IS NOT NULL));
CREATE INDEX device_usage_by_project ON metering_deviceusage (project_id, window_start);
CREATE INDEX device_usage_by_cluster ON metering_deviceusage (cluster_id, window_start);
CREATE INDEX device_usage_instances ON metering_deviceusage (window_start)
  WHERE attribution = 'exclusive' AND NOT (instance_id = '');
CREATE FUNCTION metering_check_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, n.uuid, d.state INTO offender
    FROM new_rows n LEFT JOIN metering_meteringwindow w ON w.id = n.window_id
    LEFT JOIN metering_devicewindow d ON d.window_id = n.window_id
   WHERE w.id IS NULL OR d.state IN ('sealed', 'unavailable')
      OR w.start_at <> n.window_start OR w.cluster_id <> n.cluster_id
      OR n.begin_at < w.start_at OR n.end_at > w.start_at + interval '1 hour'
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: devices of window %, %, do not take %',
      offender.window_id, COALESCE(offender.state, 'not due'), offender.uuid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed device figures take no rows; window, cluster and times must agree.';
  END IF;
  SELECT n.project_id INTO offender
    FROM (SELECT DISTINCT organization_id, project_id FROM new_rows) n
    LEFT JOIN tenants_project p ON p.id = n.project_id
   WHERE p.organization_id IS DISTINCT FROM n.organization_id
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: project % is not of the organization',
      offender.project_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A device row has the organization of its project, or neither.';
  END IF;
  -- Row by row, by the unique index: planned as a join it could read the whole table.
  SELECT n.window_id, n.uuid INTO offender
    FROM new_rows n
   WHERE EXISTS (
     SELECT FROM metering_deviceusage u
      WHERE u.window_id = n.window_id AND u.uuid = n.uuid AND u.instance_id = n.instance_id
        AND u.instance_profile = n.instance_profile AND u.begin_at = n.begin_at
        AND u.attribution = n.attribution
        AND u.organization_id IS DISTINCT FROM n.organization_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: window % has % for another organization',
      offender.window_id, offender.uuid
      USING ERRCODE = 'restrict_violation',
            HINT = 'From one time on a device serves one organization, or none.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER metering_deviceusage_checks_insert AFTER INSERT ON metering_deviceusage REFERENCING
  NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_check_device_usage();
CREATE TRIGGER metering_deviceusage_keeps_sealed AFTER DELETE ON metering_deviceusage REFERENCING
  OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_device_usage();
CREATE TRIGGER metering_deviceusage_refuses_update BEFORE UPDATE ON metering_deviceusage
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('device usage is replaced, never edited');
CREATE TRIGGER metering_deviceusage_refuses_truncate BEFORE TRUNCATE ON metering_deviceusage
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('device usage is never truncated');
ALTER TABLE metering_deviceusage
  ENABLE ALWAYS TRIGGER metering_deviceusage_checks_insert,
  ENABLE ALWAYS TRIGGER metering_deviceusage_keeps_sealed,
  ENABLE ALWAYS TRIGGER metering_deviceusage_refuses_update,
  ENABLE ALWAYS TRIGGER metering_deviceusage_refuses_truncate;
REVOKE ALL ON metering_deviceusage FROM gpu_ledger_runtime;
GRANT SELECT, INSERT, DELETE ON metering_deviceusage TO gpu_ledger_runtime;
