-- What billing may read: posted corrections only.
CREATE VIEW metering_posted_correction AS
SELECT id, window_id, window_start, cluster_id, organization_id, project_id, cause, unit_seconds,
       record_count, decided_at AS posted_at
  FROM metering_usagecorrection WHERE state = 'posted';
GRANT SELECT ON metering_posted_correction TO gpu_ledger_runtime;
-- reverse
DROP VIEW metering_posted_correction;
