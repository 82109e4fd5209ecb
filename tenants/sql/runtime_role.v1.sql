-- The runtime role may use all tables of this schema, those made before and those made later, and
-- owns none of them. deploy/postgres/roles.sql makes the roles.
GRANT USAGE ON SCHEMA public TO gpu_ledger_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO gpu_ledger_runtime;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO gpu_ledger_runtime;
ALTER DEFAULT PRIVILEGES IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO gpu_ledger_runtime;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO gpu_ledger_runtime;
-- reverse
ALTER DEFAULT PRIVILEGES IN SCHEMA public
  REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLES FROM gpu_ledger_runtime;
ALTER DEFAULT PRIVILEGES IN SCHEMA public
  REVOKE USAGE, SELECT ON SEQUENCES FROM gpu_ledger_runtime;
