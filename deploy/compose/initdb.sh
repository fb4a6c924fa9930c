#!/bin/sh
# Runs once, when PostgreSQL's volume is empty: the two roles of sfumato, and what each of them may do.
set -eu

psql --set=ON_ERROR_STOP=1 --no-psqlrc --quiet --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set=database="$POSTGRES_DB" \
  --set=reader_password="$(cat "${SECRETS:-/run/secrets}/reader_password")" \
  --set=ledger_password="$(cat "${SECRETS:-/run/secrets}/ledger_password")" <<'SQL'
-- The tables that the policy names. Replace them by yours, or load yours here.
CREATE TABLE visits (patient_id integer NOT NULL, dept text, cost numeric(8, 2));

-- Reads these tables and keeps the bounded copies in a schema of its own.
CREATE ROLE sfumato_reader LOGIN PASSWORD :'reader_password';
GRANT CONNECT ON DATABASE :"database" TO sfumato_reader;
GRANT USAGE ON SCHEMA public TO sfumato_reader;
GRANT SELECT ON visits TO sfumato_reader;
CREATE SCHEMA sfumato AUTHORIZATION sfumato_reader;
REVOKE TEMP ON DATABASE :"database" FROM PUBLIC;

-- Owns the ledger, in a database where nobody else may connect.
CREATE ROLE sfumato_ledger LOGIN PASSWORD :'ledger_password';
CREATE DATABASE sfumato_ledger OWNER sfumato_ledger;
REVOKE CONNECT ON DATABASE sfumato_ledger FROM PUBLIC;
SQL
