-- Whether a code is a currency that can be billed in: ISO 4217:2015, list one, as amended up to 2026.
CREATE FUNCTION currency_is_known(code text) RETURNS boolean LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
  SELECT code = ANY (string_to_array(
    'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP ' ||
    'BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD ' ||
    'FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD ' ||
    'JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK ' ||
    'MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR ' ||
    'PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP ' ||
    'SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF ' ||
    'XCD XCG XOF XPF YER ZAR ZMW ZWG', ' '))
$$;
CREATE TRIGGER tenants_organization_currency_is_known
  BEFORE INSERT OR UPDATE OF billing_currency ON tenants_organization
  FOR EACH ROW WHEN (NOT currency_is_known(NEW.billing_currency))
  EXECUTE FUNCTION ledger_refuse('it is no currency', 'Use a code of ISO 4217, such as EUR.');
ALTER TABLE tenants_organization ENABLE ALWAYS TRIGGER tenants_organization_currency_is_known;
-- reverse
DROP TRIGGER tenants_organization_currency_is_known ON tenants_organization;
DROP FUNCTION currency_is_known;
