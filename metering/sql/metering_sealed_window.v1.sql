-- What billing may read: sealed windows and their usage only.
CREATE VIEW metering_sealed_window AS
SELECT id, cluster_id, start_at, as_of, sealed_at, record_count, record_digest
  FROM metering_meteringwindow WHERE state = 'sealed';
GRANT SELECT ON metering_sealed_window TO gpu_ledger_runtime;
-- reverse
DROP VIEW metering_sealed_window;
