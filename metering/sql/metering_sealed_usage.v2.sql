CREATE VIEW metering_sealed_usage AS
SELECT u.* FROM metering_usage u JOIN metering_meteringwindow w ON w.id = u.window_id
  WHERE w.state = 'sealed';
GRANT SELECT ON metering_sealed_usage TO gpu_ledger_runtime;
-- reverse
DROP VIEW metering_sealed_usage;
