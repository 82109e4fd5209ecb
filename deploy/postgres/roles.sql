-- The three roles of GPU Ledger. Run once per server, as a superuser:
--   psql -v owner_password=... -v app_password=... -f roles.sql
-- The owner makes and changes tables; the runtime role only uses them, so that the triggers which
-- freeze ledgers cannot be switched off by the service. The app is what the service logs in as.
CREATE ROLE gpu_ledger_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE gpu_ledger_runtime NOLOGIN;
CREATE ROLE gpu_ledger_app LOGIN PASSWORD :'app_password' IN ROLE gpu_ledger_runtime;
CREATE DATABASE gpu_ledger OWNER gpu_ledger_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE gpu_ledger FROM PUBLIC;
GRANT CONNECT, TEMPORARY ON DATABASE gpu_ledger TO gpu_ledger_runtime;
