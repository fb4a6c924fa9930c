-- free
select 1 as id

-- free
select distinct nspname from pg_namespace

-- free
select 'clinic' as database, tablename as name, schemaname as schema, 'table' as type from pg_tables where schemaname ilike 'public' union all select 'clinic' as database, viewname as name, schemaname as schema, 'view' as type from pg_views where schemaname ilike 'public'

-- free
select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale from "clinic".INFORMATION_SCHEMA.columns where table_name = 'visits' and table_schema = 'public' order by ordinal_position

-- charged
select dept, count(*) as n from "clinic"."public"."visits" group by 1 limit 5

-- free
select * from (select dept, count(*) as n from "clinic"."public"."visits" group by 1) as __dbt_sbq where false limit 0
