-- What every counter should hold; the reservations are the truth, the counters are their sums.
-- They are added up by their distinguishing columns before they are joined to limits.
CREATE VIEW quotas_counted AS
WITH live AS (
  SELECT organization_id, project_id, username, cluster_id, size, model_groups,
         coalesce(sum(units) FILTER (WHERE state = 'held' AND NOT is_burst), 0) AS held,
         coalesce(sum(units) FILTER (WHERE state = 'reserved' AND NOT is_burst), 0) AS reserved,
         coalesce(sum(units) FILTER (WHERE state = 'held' AND is_burst), 0) AS burst_held,
         coalesce(sum(units) FILTER (WHERE state = 'reserved' AND is_burst), 0) AS burst_reserved
    FROM quotas_reservation WHERE state <> 'released'
   GROUP BY organization_id, project_id, username, cluster_id, size, model_groups)
SELECT l.id AS limit_id, l.organization_id,
       coalesce(sum(r.held), 0)::bigint AS held_units,
       coalesce(sum(r.reserved), 0)::bigint AS reserved_units,
       coalesce(sum(r.burst_held), 0)::bigint AS burst_held_units,
       coalesce(sum(r.burst_reserved), 0)::bigint AS burst_reserved_units
  FROM quotas_quotalimit l
  LEFT JOIN auth_user l_user ON l_user.id = l.user_id
  LEFT JOIN live r ON l.organization_id = r.organization_id AND l.size = r.size
    AND (l.project_id IS NULL OR l.project_id = r.project_id) AND (l.user_id IS NULL
    OR l_user.username = r.username) AND (l.cluster_id IS NULL OR l.cluster_id = r.cluster_id)
    AND (l.model_group = '' OR r.model_groups = '{}' OR l.model_group = ANY (r.model_groups))
 GROUP BY l.id, l.organization_id;
-- reverse
DROP VIEW quotas_counted;
