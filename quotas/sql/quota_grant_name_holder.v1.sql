-- A grant keeps the holder of its limit, also after the limit is deleted.
CREATE OR REPLACE FUNCTION quota_grant_name_holder() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  SELECT organization_id, project_id INTO NEW.organization_id, NEW.project_id
    FROM quotas_quotalimit WHERE id = NEW.limit_id;
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION quota_grant_name_holder;
