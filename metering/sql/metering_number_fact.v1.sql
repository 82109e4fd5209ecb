-- Facts of one pod and resource have one id and are numbered by version; what is stored already is
-- left out. Two transactions that number facts of a pod at once meet in the unique key: the later
-- one stores nothing, and looks again. What a fact refers to is looked up here, once a fact instead
-- of once a record.
CREATE FUNCTION metering_number_fact() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tenants_project p
                  WHERE (p.id, p.organization_id) = (NEW.project_id, NEW.organization_id))
     OR NOT EXISTS (SELECT FROM metering_catalogueversion v WHERE v.version = NEW.catalogue_version)
  THEN
    RAISE EXCEPTION 'INSERT on usage facts is refused: pod % is of no such project or catalogue',
      NEW.pod_uid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Project and organization must agree, and the catalogue version must exist.';
  END IF;
  SELECT f.id, f.version + 1 INTO NEW.id, NEW.version
    FROM metering_usagefact f
   WHERE (f.cluster_id, f.pod_uid, f.resource) = (NEW.cluster_id, NEW.pod_uid, NEW.resource)
   ORDER BY f.version DESC LIMIT 1;
  IF NOT FOUND THEN
    NEW.id := nextval('metering_usagefact_id_seq');
    NEW.version := 1;
  ELSIF EXISTS (
    SELECT FROM metering_usagefact f
     WHERE (f.cluster_id, f.pod_uid, f.resource) = (NEW.cluster_id, NEW.pod_uid, NEW.resource)
       AND (f.organization_id, f.project_id, f.owner, f.namespace, f.pod_name, f.node, f.size,
            f.price_group, f.sharing_mode, f.share_numerator, f.share_denominator, f.units,
            f.catalogue_version)
         = (NEW.organization_id, NEW.project_id, NEW.owner, NEW.namespace, NEW.pod_name, NEW.node,
            NEW.size, NEW.price_group, NEW.sharing_mode, NEW.share_numerator,
            NEW.share_denominator, NEW.units, NEW.catalogue_version)) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION metering_number_fact;
