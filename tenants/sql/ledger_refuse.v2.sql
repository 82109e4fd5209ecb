-- Refuses a statement; the trigger's arguments say why, and what to do where it is no correction.
CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'restrict_violation',
          HINT = coalesce(
            TG_ARGV[1], 'Nothing in a ledger is edited; it is corrected by a new row.');
END $$;
-- reverse
CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'restrict_violation',
          HINT = 'Nothing in a ledger is edited; it is corrected by a new row.';
END $$;
