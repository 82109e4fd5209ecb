-- Each month with sealed device figures has a partition, also one whose hours have only activity of
-- usage: `verify` names a month without.
SELECT metering_ensure_device_partition(month)
  FROM (SELECT DISTINCT date_trunc('month', window_start, 'UTC') AS month
          FROM metering_devicewindow WHERE state = 'sealed' AND row_count > 0) months
 ORDER BY month;
-- reverse
-- Empty partitions stay, as those of the months to come do.
SELECT 1;
