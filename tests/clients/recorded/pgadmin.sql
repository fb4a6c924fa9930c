-- free
SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = 'bytea_output'; SET client_encoding='utf-8'

-- free
SELECT db.oid as did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding, has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate FROM pg_catalog.pg_database db WHERE db.datname = current_database()

-- free
SELECT oid as id, rolname as name, rolsuper as is_superuser, CASE WHEN rolsuper THEN true ELSE rolcreaterole END as can_create_role FROM pg_catalog.pg_roles WHERE rolname = current_user

-- free
SELECT rel.oid, rel.relname AS name FROM pg_catalog.pg_class rel WHERE rel.relkind IN ('r','s','t','p') AND NOT rel.relispartition ORDER BY rel.relname

-- 42501
SELECT * FROM public.visits LIMIT 100

-- charged
SELECT dept, AVG(age) AS age FROM public.visits GROUP BY dept ORDER BY dept
