-- The three roles of GPU Ledger. Run once per server, as a superuser:
--   psql -v owner_password=... -v app_password=... -f roles.sql
-- The owner makes and changes tables; the runtime role only uses them, so that the triggers which
-- freeze ledgers cannot be switched off by the service. The app is what the service logs in as.
CREATE ROLE gpu_ledger_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE gpu_ledger_runtime NOLOGIN;
CREATE ROLE gpu_ledger_app LOGIN PASSWORD :'app_password' IN ROLE gpu_ledger_runtime;
-- Timeouts are the roles', not the connections': so they hold behind a pooler too. The service says
-- at /readyz when one is not in force.
ALTER ROLE gpu_ledger_owner SET lock_timeout = '2s';
ALTER ROLE gpu_ledger_app SET lock_timeout = '2s';
ALTER ROLE gpu_ledger_app SET statement_timeout = '60s';
ALTER ROLE gpu_ledger_app SET idle_in_transaction_session_timeout = '30s';
CREATE DATABASE gpu_ledger OWNER gpu_ledger_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE gpu_ledger FROM PUBLIC;
GRANT CONNECT, TEMPORARY ON DATABASE gpu_ledger TO gpu_ledger_runtime;
