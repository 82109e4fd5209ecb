-- An accounting month is closed once it is over, by this server's clock, and after the last closed
-- one: a month of the future would move all postings behind it.
CREATE FUNCTION billing_accounting_month_is_over() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  last text;
BEGIN
  PERFORM FROM billing_accountingmonth WHERE label = '0000-00' FOR UPDATE;
  SELECT max(label) INTO last FROM billing_accountingmonth;
  IF NEW.label <= last THEN
    RAISE EXCEPTION 'the accounting month % is closed already: the last one is %', NEW.label, last
      USING ERRCODE = 'restrict_violation', HINT = 'Close a month after the last closed one.';
  END IF;
  IF (to_date(NEW.label, 'YYYY-MM') + interval '1 month') AT TIME ZONE 'UTC' > clock_timestamp()
  THEN
    RAISE EXCEPTION 'the accounting month % is not over', NEW.label
      USING ERRCODE = 'restrict_violation', HINT = 'Close it after its last day (UTC).';
  END IF;
  RETURN NEW;
END $$;
-- Labels that name no month are refused by the table's check, which comes after this trigger.
CREATE TRIGGER billing_accountingmonth_is_over BEFORE INSERT ON billing_accountingmonth
  FOR EACH ROW WHEN (NEW.label ~ '^(19|20|21)[0-9]{2}-(0[1-9]|1[0-2])$')
  EXECUTE FUNCTION billing_accounting_month_is_over();
ALTER TABLE billing_accountingmonth ENABLE ALWAYS TRIGGER billing_accountingmonth_is_over;
-- reverse
DROP TRIGGER billing_accountingmonth_is_over ON billing_accountingmonth;
DROP FUNCTION billing_accounting_month_is_over;
