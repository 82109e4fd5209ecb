-- Both sides come from one snapshot, so the comparison needs no lock.
CREATE VIEW quotas_drift AS
SELECT n.*,
       abs(n.held_units - coalesce(c.held_units, 0))
       + abs(n.reserved_units - coalesce(c.reserved_units, 0))
       + abs(n.burst_held_units - coalesce(c.burst_held_units, 0))
       + abs(n.burst_reserved_units - coalesce(c.burst_reserved_units, 0)) AS drift_units
  FROM quotas_counted n
  LEFT JOIN quotas_quotacounter c ON c.limit_id = n.limit_id;
-- reverse
DROP VIEW quotas_drift;
