-- Usage records with all their columns. A join to the facts by their whole key leaves out none and
-- doubles none, so a query that needs no column of them does not read them.
CREATE VIEW metering_usage WITH (security_invoker = true) AS
SELECT r.id, r.window_id, r.window_start, f.cluster_id, r.organization_id, f.project_id, f.owner,
       f.namespace, f.pod_name, f.pod_uid, f.resource, r.revision, f.node, f.size, f.price_group,
       f.sharing_mode, f.share_numerator, f.share_denominator, f.units,
       r.window_start + r.begin_second * interval '1 second' AS begin_at,
       r.window_start + r.end_second * interval '1 second' AS end_at,
       (r.end_second - r.begin_second)::integer AS seconds, r.unit_seconds, r.end_kind,
       r.slack_seconds, f.catalogue_version, r.busy_ratio, r.busy_coverage, r.energy_millijoules,
       r.split_among, r.correction_id, r.fact_id
  FROM metering_usagerecord r
  LEFT JOIN metering_usagefact f
    ON f.id = r.fact_id AND f.version = r.fact_version AND f.organization_id = r.organization_id;
REVOKE INSERT, UPDATE, DELETE ON metering_usage FROM gpu_ledger_runtime;
-- reverse
DROP VIEW metering_usage;
