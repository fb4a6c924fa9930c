-- tool: DBeaver 24.2
-- source: taken from DBeaver's public source at commit 2428359b74 of October 2024, org.jkiss.dbeaver.ext.postgresql: PostgreDataSource, PostgreExecutionContext, PostgreDatabase, PostgreSchema, PostgreDataTypeCache, PostgreDependency, PostgreExecutionPlan; the data editor is JDBCTable, its row count SQLQueryTransformerCount; the first two are pgjdbc's. Line breaks are left out. Not a capture

-- => free
SET extra_float_digits = 3

-- => free
SET application_name = 'DBeaver 24.2.3 - Main <clinic>'

-- => free
-- values: ["clinic"]
SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn AND NOT datistemplate OR db.datname =$1 ORDER BY db.datname

-- => free
-- values: []
SELECT current_database()

-- => free
-- values: ["clinic"]
SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname=$1

-- => free
-- values: []
SELECT version()

-- => free
-- values: []
SELECT current_schema(),session_user

-- => free
-- values: []
SHOW search_path

-- => free
-- values: ["standard_conforming_strings"]
select * from pg_catalog.pg_settings where name=$1

-- => free
-- values: []
SELECT typcategory FROM pg_catalog.pg_type WHERE 1<>1 LIMIT 1

-- => free
-- values: []
SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname

-- => free
-- values: []
SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')

-- => free
-- values: ["1043"]
SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.oid=$1 

-- => free
-- values: ["1043"]
SELECT e.enumlabel FROM pg_catalog.pg_enum e WHERE e.enumtypid=$1 ORDER BY e.enumsortorder

-- => free
-- values: ["clinic"]
select description from pg_shdescription join pg_database on objoid = pg_database.oid where datname = $1

-- => free
-- values: []
SELECT a.oid,a.*,pd.description FROM pg_catalog.pg_roles a left join pg_catalog.pg_shdescription pd on a.oid = pd.objoid ORDER BY a.rolname

-- => free
-- values: []
SELECT am.oid,am.* FROM pg_catalog.pg_am am ORDER BY am.oid

-- => free
-- values: []
SELECT c.contoencoding as encid,pg_catalog.pg_encoding_to_char(c.contoencoding) as encname FROM pg_catalog.pg_conversion c GROUP BY c.contoencoding ORDER BY 2

-- => free
-- values: []
SELECT c.oid,c.* FROM pg_catalog.pg_collation c ORDER BY c.oid

-- => free
-- values: []
SELECT l.oid,l.* FROM pg_catalog.pg_language l ORDER BY l.oid

-- => free
-- values: []
SELECT l.oid,l.*,p.pronamespace as handler_schema_id FROM pg_catalog.pg_foreign_data_wrapper l LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid=l.fdwhandler ORDER BY l.fdwname

-- => free
-- values: []
SELECT l.oid,l.* FROM pg_catalog.pg_foreign_server l ORDER BY l.srvname

-- => free
-- values: []
SELECT t.oid,t.*,pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid

-- => free
-- values: []
SELECT name,default_version,installed_version,comment FROM pg_catalog.pg_available_extensions ORDER BY name

-- => free
-- values: []
SELECT e.oid, cfg.tbls, n.nspname as schema_name, e.* FROM pg_catalog.pg_extension e join pg_namespace n on n.oid =e.extnamespace left join ( select ARRAY_AGG(ns.nspname || '.' || cls.relname) tbls, oid_ext from ( select unnest(e1.extconfig) oid , e1.oid oid_ext from pg_catalog.pg_extension e1 ) c join pg_class cls on cls.oid = c.oid join pg_namespace ns on ns.oid = cls.relnamespace group by oid_ext ) cfg on cfg.oid_ext = e.oid ORDER BY e.oid

-- => free
-- values: []
SELECT pet.*, d.description FROM pg_catalog.pg_event_trigger pet LEFT OUTER JOIN pg_catalog.pg_description d ON pet."oid" = d.objoid

-- => free
-- values: ["16384"]
SELECT db.datname,pg_database_size(db.oid) FROM pg_catalog.pg_database db WHERE db.oid=$1

-- => free
-- values: ["2200"]
SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,  pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE c.relnamespace=$1 AND c.relkind not in ('i','I','c')

-- => free
-- values: ["2200"]
SELECT i.inhrelid relid, pc.relnamespace parent_ns, pc.oid parent_oid, i.inhseqno FROM pg_catalog.pg_inherits i, pg_class rc, pg_class pc WHERE rc.oid=i.inhrelid AND rc.relnamespace=$1 AND pc.oid=i.inhparent

-- => free
-- values: ["20001"]
SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid=$1 ORDER BY a.attnum

-- => free
-- values: ["20001"]
SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass WHERE c.conrelid=$1 ORDER BY c.oid

-- => free
-- values: ["20001"]
SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE  i.indrelid=$1 ORDER BY c.relname

-- => free
-- values: ["2200"]
SELECT p.oid as poid,p.*,pg_catalog.pg_get_expr(p.proargdefaults, 0) as arg_defaults,d.description FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=p.oid and d.classoid='pg_proc'::regclass  AND d.objsubid = 0 WHERE p.pronamespace=$1 ORDER BY p.proname

-- => free
-- values: ["2200"]
SELECT p.oid AS proc_oid,p.proname AS proc_name,a.* FROM pg_catalog.pg_aggregate a,pg_catalog.pg_proc p WHERE p.oid=a.aggfnoid AND p.pronamespace=$1 ORDER BY p.proname

-- => free
-- values: ["2200"]
SELECT * FROM pg_default_acl WHERE defaclnamespace = $1

-- => free
-- values: ["2200"]
select c.oid,pg_catalog.pg_total_relation_size(c.oid) as total_rel_size,pg_catalog.pg_relation_size(c.oid) as rel_size FROM pg_class c WHERE c.relnamespace=$1

-- => 42501
-- values: []
SELECT x.* FROM public.visits x

-- => free
-- values: []
SELECT x.* FROM public.staff x

-- => charged
-- values: []
SELECT COUNT(*) FROM public.visits

-- => charged
-- values: []
SELECT dept, count(*) FROM public.visits WHERE age BETWEEN 18 AND 65 GROUP BY dept

-- => free
-- values: []
SELECT COUNT(*) FROM ( SELECT dept, count(*) FROM public.visits WHERE age BETWEEN 18 AND 65 GROUP BY dept ) dbvrcnt

-- => free
-- values: []
SELECT dept, count(*) FROM public.visits WHERE age BETWEEN 18 AND 65 GROUP BY dept ORDER BY 2 DESC

-- => free
EXPLAIN (FORMAT XML, VERBOSE) SELECT dept, count(*) FROM public.visits WHERE age BETWEEN 18 AND 65 GROUP BY dept
