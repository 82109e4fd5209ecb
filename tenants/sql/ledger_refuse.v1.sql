-- Refuses a statement on a ledger; the trigger's argument says why.
CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'restrict_violation',
          HINT = 'Nothing in a ledger is edited; it is corrected by a new row.';
END $$;
-- reverse
DROP FUNCTION ledger_refuse;
