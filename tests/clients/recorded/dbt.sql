-- tool: dbt 1.10.23 with dbt-postgres 1.9.1
-- source: recorded; tests/clients/tools/run_dbt.py ran against PostgreSQL 15, and a proxy read the frames

-- => free
select 1 as id

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "connection_name": "list_clinic_public"} */
select
      'clinic' as database,
      tablename as name,
      schemaname as schema,
      'table' as type
    from pg_tables
    where schemaname ilike 'public'
    union all
    select
      'clinic' as database,
      viewname as name,
      schemaname as schema,
      'view' as type
    from pg_views
    where schemaname ilike 'public'
    union all
    select
      'clinic' as database,
      matviewname as name,
      schemaname as schema,
      'materialized_view' as type
    from pg_matviews
    where schemaname ilike 'public'

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "connection_name": "master"} */
select distinct
        dependent_namespace.nspname as dependent_schema,
        dependent_class.relname as dependent_name,
        referenced_namespace.nspname as referenced_schema,
        referenced_class.relname as referenced_name

    -- Query for views: views are entries in pg_class with an entry in pg_rewrite, but we avoid
    -- a seq scan on pg_rewrite by leveraging the fact there is an "internal" row in pg_depend for
    -- the view...
    from pg_class as dependent_class
    join pg_namespace as dependent_namespace on dependent_namespace.oid = dependent_class.relnamespace
    join pg_depend as dependent_depend on dependent_depend.refobjid = dependent_class.oid
        and dependent_depend.classid = 'pg_rewrite'::regclass
        and dependent_depend.refclassid = 'pg_class'::regclass
        and dependent_depend.deptype = 'i'

    -- ... and via pg_depend (that has a row per column, hence the need for "distinct" above, and
    -- making sure to exclude the internal row to avoid a view appearing to depend on itself)...
    join pg_depend as joining_depend on joining_depend.objid = dependent_depend.objid
        and joining_depend.classid = 'pg_rewrite'::regclass
        and joining_depend.refclassid = 'pg_class'::regclass
        and joining_depend.refobjid != dependent_depend.refobjid

    -- ... we can find the tables they query from in pg_class, but excluding system tables. Note we
    -- don't need need to exclude _dependent_ system tables, because they only query from other
    -- system tables, and so are automatically excluded by excluding _referenced_ system tables
    join pg_class as referenced_class on referenced_class.oid = joining_depend.refobjid
    join pg_namespace as referenced_namespace on referenced_namespace.oid = referenced_class.relnamespace
        and referenced_namespace.nspname != 'information_schema'
        and referenced_namespace.nspname not like 'pg\_%'

    order by
        dependent_schema, dependent_name, referenced_schema, referenced_name;

-- => charged
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "node_id": "sql_operation.clinic.inline_query"} */

  
  select dept, count(*) as n from "clinic"."public"."visits" group by 1
  
  limit 3

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "node_id": "model.clinic.by_dept"} */

  
  select dept, count(*) as n from "clinic"."public"."visits" group by 1
  
  limit 5

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "node_id": "test.clinic.source_accepted_values_clinic_visits_dept__er__icu__surgery.27b5b3266b"} */

    
    select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
      
    
  
    
    

with all_values as (

    select
        dept as value_field,
        count(*) as n_records

    from "clinic"."public"."visits"
    group by dept

)

select *
from all_values
where value_field not in (
    'er','icu','surgery'
)



  
  
      
    ) dbt_internal_test

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "node_id": "test.clinic.source_not_null_clinic_staff_id.2aa8c20aa9"} */

    
    select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
      
    
  
    
    



select id
from "clinic"."public"."staff"
where id is null



  
  
      
    ) dbt_internal_test

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "node_id": "test.clinic.source_not_null_clinic_visits_dept.0bf7c1366f"} */

    
    select
      count(*) as failures,
      count(*) > 40 as should_warn,
      count(*) > 40 as should_error
    from (
      
    
  
    
    



select dept
from "clinic"."public"."visits"
where dept is null



  
  
      
    ) dbt_internal_test

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "node_id": "test.clinic.source_unique_clinic_staff_id.a395188ebc"} */

    
    select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
      
    
  
    
    

select
    id as unique_field,
    count(*) as n_records

from "clinic"."public"."staff"
where id is not null
group by id
having count(*) > 1



  
  
      
    ) dbt_internal_test

-- => free
/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "clinic", "target_name": "here", "connection_name": "clinic.information_schema"} */

    
    

    select
        'clinic' as table_database,
        sch.nspname as table_schema,
        tbl.relname as table_name,
        case tbl.relkind
            when 'v' then 'VIEW'
            when 'm' then 'MATERIALIZED VIEW'
            else 'BASE TABLE'
        end as table_type,
        tbl_desc.description as table_comment,
        col.attname as column_name,
        col.attnum as column_index,
        pg_catalog.format_type(col.atttypid, col.atttypmod) as column_type,
        col_desc.description as column_comment,
        pg_get_userbyid(tbl.relowner) as table_owner

    from pg_catalog.pg_namespace sch
    join pg_catalog.pg_class tbl on tbl.relnamespace = sch.oid
    join pg_catalog.pg_attribute col on col.attrelid = tbl.oid
    left outer join pg_catalog.pg_description tbl_desc on (tbl_desc.objoid = tbl.oid and tbl_desc.objsubid = 0)
    left outer join pg_catalog.pg_description col_desc on (col_desc.objoid = tbl.oid and col_desc.objsubid = col.attnum)
    where ((upper(sch.nspname) = upper('public') and
           upper(tbl.relname) = upper('visits')) or (upper(sch.nspname) = upper('public') and
           upper(tbl.relname) = upper('staff')) or (upper(sch.nspname) = upper('public') and
           upper(tbl.relname) = upper('by_dept')))
      and not pg_is_other_temp_schema(sch.oid) -- not a temporary schema belonging to another session
      and tbl.relpersistence in ('p', 'u') -- [p]ermanent table or [u]nlogged table. Exclude [t]emporary tables
      and tbl.relkind in ('r', 'v', 'f', 'p', 'm') -- o[r]dinary table, [v]iew, [f]oreign table, [p]artitioned table, [m]aterialized view. Other values are [i]ndex, [S]equence, [c]omposite type, [t]OAST table
      and col.attnum > 0 -- negative numbers are used for system columns such as oid
      and not col.attisdropped -- column as not been dropped

    order by
        sch.nspname,
        tbl.relname,
        col.attnum
