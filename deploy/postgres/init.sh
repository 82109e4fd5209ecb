#!/bin/sh
# Runs once, when the database container makes its cluster: the roles and the database of
# roles.sql, with passwords from secret files. psql quotes them; no shell ever expands them.
set -eu
: "${OWNER_PASSWORD_FILE:?names the file that holds the owner role's password}"
: "${APP_PASSWORD_FILE:?names the file that holds the app role's password}"
# Not `here=$(...)` of this file: the image's entry point may source it.
psql -v ON_ERROR_STOP=1 --no-psqlrc --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  -v owner_password="$(cat "$OWNER_PASSWORD_FILE")" \
  -v app_password="$(cat "$APP_PASSWORD_FILE")" \
  -f "${ROLES_SQL:-/deploy/roles.sql}"
