-- An issuer keeps its series, and neither it nor a recipient is deleted. A route goes to a recipient
-- of the project's own organization. A billing run keeps its routes once a document of it is final.
CREATE FUNCTION billing_route_is_own() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tenants_project p
                  WHERE (p.id, p.organization_id) = (NEW.project_id, NEW.organization_id))
     OR NEW.recipient_id IS NOT NULL AND NOT EXISTS (
       SELECT FROM billing_recipient r
        WHERE (r.id, r.organization_id) = (NEW.recipient_id, NEW.organization_id)) THEN
    RAISE EXCEPTION 'a route is of one organization'
      USING ERRCODE = 'restrict_violation', HINT = 'Name a recipient of the project''s own.';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION billing_keep_run_routes() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE changed record;
BEGIN
  changed := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
  IF TG_OP = 'UPDATE' OR EXISTS (
       SELECT FROM billing_invoice i
        WHERE (i.period_id, i.run, i.state) = (changed.period_id, changed.run, 'final')) THEN
    RAISE EXCEPTION '% on the routes of a run is refused: they are frozen', TG_OP
      USING ERRCODE = 'restrict_violation', HINT = 'Void a document to route it anew.';
  END IF;
  RETURN changed;
END $$;
CREATE TRIGGER billing_projectroute_is_own BEFORE INSERT OR UPDATE ON billing_projectroute
  FOR EACH ROW EXECUTE FUNCTION billing_route_is_own();
CREATE TRIGGER billing_runroute_keeps_final BEFORE INSERT OR UPDATE OR DELETE ON billing_runroute
  FOR EACH ROW EXECUTE FUNCTION billing_keep_run_routes();
CREATE TRIGGER billing_runroute_refuses_truncate BEFORE TRUNCATE ON billing_runroute
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('routes of runs are never truncated');
CREATE TRIGGER billing_issuer_refuses_update BEFORE UPDATE ON billing_issuer
  FOR EACH ROW WHEN (
    (OLD.id, OLD.slug, OLD.series, OLD.credit_series, OLD.first_number, OLD.created_at)
    IS DISTINCT FROM
    (NEW.id, NEW.slug, NEW.series, NEW.credit_series, NEW.first_number, NEW.created_at))
  EXECUTE FUNCTION ledger_refuse('an issuer keeps its series');
CREATE TRIGGER billing_issuer_refuses_delete BEFORE DELETE ON billing_issuer
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an issuer is never deleted');
CREATE TRIGGER billing_recipient_refuses_update BEFORE UPDATE ON billing_recipient
  FOR EACH ROW WHEN (
    (OLD.id, OLD.organization_id, OLD.slug) IS DISTINCT FROM
    (NEW.id, NEW.organization_id, NEW.slug))
  EXECUTE FUNCTION ledger_refuse('a recipient stays with its organization');
CREATE TRIGGER billing_recipient_refuses_delete BEFORE DELETE ON billing_recipient
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a recipient is never deleted');
ALTER TABLE billing_projectroute ENABLE ALWAYS TRIGGER billing_projectroute_is_own;
ALTER TABLE billing_runroute
  ENABLE ALWAYS TRIGGER billing_runroute_keeps_final,
  ENABLE ALWAYS TRIGGER billing_runroute_refuses_truncate;
ALTER TABLE billing_issuer
  ENABLE ALWAYS TRIGGER billing_issuer_refuses_update,
  ENABLE ALWAYS TRIGGER billing_issuer_refuses_delete;
ALTER TABLE billing_recipient
  ENABLE ALWAYS TRIGGER billing_recipient_refuses_update,
  ENABLE ALWAYS TRIGGER billing_recipient_refuses_delete;
-- reverse
DROP TRIGGER billing_recipient_refuses_delete ON billing_recipient;
DROP TRIGGER billing_recipient_refuses_update ON billing_recipient;
DROP TRIGGER billing_issuer_refuses_delete ON billing_issuer;
DROP TRIGGER billing_issuer_refuses_update ON billing_issuer;
DROP TRIGGER billing_runroute_refuses_truncate ON billing_runroute;
DROP TRIGGER billing_runroute_keeps_final ON billing_runroute;
DROP TRIGGER billing_projectroute_is_own ON billing_projectroute;
DROP FUNCTION billing_keep_run_routes;
DROP FUNCTION billing_route_is_own;
