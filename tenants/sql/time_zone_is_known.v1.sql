-- Whether a name is a time zone of the IANA database. PostgreSQL itself also takes "Nowhere5", as a
-- zone five hours behind UTC. Reading all names takes milliseconds, which UTC is spared.
CREATE FUNCTION time_zone_is_known(zone text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
  SELECT zone = 'UTC' OR (
    zone !~ '^(posix|right)/|^(localtime|posixrules)$'
    AND EXISTS (SELECT FROM pg_timezone_names AS known WHERE known.name = zone))
$$;
CREATE TRIGGER tenants_organization_time_zone_is_known
  BEFORE INSERT OR UPDATE OF time_zone ON tenants_organization
  FOR EACH ROW WHEN (NOT time_zone_is_known(NEW.time_zone))
  EXECUTE FUNCTION ledger_refuse('it is no time zone', 'Use an IANA zone, such as Europe/Berlin.');
ALTER TABLE tenants_organization ENABLE ALWAYS TRIGGER tenants_organization_time_zone_is_known;
-- reverse
DROP TRIGGER tenants_organization_time_zone_is_known ON tenants_organization;
DROP FUNCTION time_zone_is_known;
