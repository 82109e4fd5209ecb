-- Money is in a known currency, and hours are priced in a known time zone.
CREATE TRIGGER billing_invoice_currency_is_known
  BEFORE INSERT OR UPDATE OF currency ON billing_invoice
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE billing_invoice ENABLE ALWAYS TRIGGER billing_invoice_currency_is_known;
CREATE TRIGGER billing_journalentry_currency_is_known
  BEFORE INSERT OR UPDATE OF currency ON billing_journalentry
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE billing_journalentry ENABLE ALWAYS TRIGGER billing_journalentry_currency_is_known;
CREATE TRIGGER billing_minimumcharge_currency_is_known
  BEFORE INSERT OR UPDATE OF currency ON billing_minimumcharge
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE billing_minimumcharge ENABLE ALWAYS TRIGGER billing_minimumcharge_currency_is_known;
CREATE TRIGGER billing_openingbalance_currency_is_known
  BEFORE INSERT OR UPDATE OF currency ON billing_openingbalance
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE billing_openingbalance ENABLE ALWAYS TRIGGER billing_openingbalance_currency_is_known;
CREATE TRIGGER billing_payment_currency_is_known
  BEFORE INSERT OR UPDATE OF currency ON billing_payment
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE billing_payment ENABLE ALWAYS TRIGGER billing_payment_currency_is_known;
CREATE TRIGGER billing_pricebook_currency_is_known
  BEFORE INSERT OR UPDATE OF currency ON billing_pricebook
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE billing_pricebook ENABLE ALWAYS TRIGGER billing_pricebook_currency_is_known;
CREATE TRIGGER billing_pricecalendar_time_zone_is_known
  BEFORE INSERT OR UPDATE OF time_zone ON billing_pricecalendar
  FOR EACH ROW WHEN (NOT time_zone_is_known(NEW.time_zone))
  EXECUTE FUNCTION ledger_refuse('it is no time zone', 'Use an IANA zone, such as Europe/Berlin.');
ALTER TABLE billing_pricecalendar ENABLE ALWAYS TRIGGER billing_pricecalendar_time_zone_is_known;
-- reverse
DROP TRIGGER billing_pricecalendar_time_zone_is_known ON billing_pricecalendar;
DROP TRIGGER billing_invoice_currency_is_known ON billing_invoice;
DROP TRIGGER billing_journalentry_currency_is_known ON billing_journalentry;
DROP TRIGGER billing_minimumcharge_currency_is_known ON billing_minimumcharge;
DROP TRIGGER billing_openingbalance_currency_is_known ON billing_openingbalance;
DROP TRIGGER billing_payment_currency_is_known ON billing_payment;
DROP TRIGGER billing_pricebook_currency_is_known ON billing_pricebook;
