"""Names that clients look up in the catalogue: functions of types, types, identifiers, and the list of databases."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.wire.served import COUNT, PRICE, Served, errors, served
from tests.server.wire.test_clients import psql_environment

from sfumato.server.wire.pg_catalog.type_functions import ROLES, functions_by_name, functions_by_number

RECEIVE = {
    "bool": "boolrecv",
    "bytea": "bytearecv",
    "date": "date_recv",
    "float8": "float8recv",
    "int4": "int4recv",
    "int8": "int8recv",
    "_int8": "array_recv",
    "interval": "interval_recv",
    "numeric": "numeric_recv",
    "text": "textrecv",
    "timestamp": "timestamp_recv",
    "timestamptz": "timestamptz_recv",
    "visits": "record_recv",
}
ADBC = """SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type
WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv'"""
ODBC = """select a.attname, a.atthasdef, t.typname from ((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n
on n.oid = c.relnamespace and c.relname = 'staff') inner join pg_catalog.pg_attribute a on (not a.attisdropped) and
a.attnum > 0 and a.attrelid = c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid left outer join pg_attrdef d
on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum order by a.attnum"""


def test_types_are_read_by_functions_that_have_names(server: Served) -> None:
    with server.client() as client:
        found = {row[0]: row[1] for row in client.rows("SELECT typname, typreceive FROM pg_type")}
        assert {name: found[name] for name in RECEIVE} == RECEIVE
        listed = client.rows(ADBC)
        assert ("20", "int8", "int8recv", "0", "0", "1016") in listed
        assert not [row for row in listed if row[1] == "_int8"]
        assert client.rows("SELECT oid, typname FROM pg_type WHERE typreceive = 'int8recv'::regproc") == [
            ("20", "int8")
        ]
        joined = "SELECT p.proname FROM pg_type t JOIN pg_proc p ON p.oid = t.typreceive WHERE t.typname = 'date'"
        assert client.rows(joined) == [("date_recv",)]
        for role in ROLES:
            missing = f"SELECT typname FROM pg_type WHERE {role} NOT IN (SELECT oid FROM pg_proc)"  # noqa: S608
            assert client.rows(missing) == []
    assert len(functions_by_number()) == len(functions_by_name())


def test_types_have_the_names_that_people_write(server: Served) -> None:
    with server.client() as client:
        sql = "SELECT 'int'::regtype, 'int8'::regtype::oid, 25::regtype, 'varchar(10)'::regtype, 'int[]'::regtype"
        assert client.rows(sql) == [("integer", "20", "text", "character varying", "integer[]")]
        assert client.state("SELECT 'nothing'::regtype") == "42704"


def test_identifiers_are_parsed_and_rows_are_numbered(server: Served) -> None:
    with server.client() as client:
        assert client.rows("""SELECT parse_ident('"Some".Thing')""") == [("{Some,thing}",)]
        assert client.state("SELECT parse_ident('a b')") == "22023"
        numbered = "SELECT a, n FROM unnest(ARRAY['x','y']) WITH ORDINALITY AS t(a, n)"
        assert client.rows(numbered) == [("x", "1"), ("y", "2")]


def test_a_join_in_brackets_keeps_its_aliases_and_texts_have_no_length(server: Served) -> None:
    with server.client() as client:
        assert client.rows(ODBC)[:2] == [("id", "f", "int8"), ("name", "f", "text")]
        lengths = "SELECT DISTINCT character_maximum_length FROM information_schema.columns"
        assert client.rows(lengths) == [(None,)]


@pytest.mark.parametrize("database", ["postgres", "template1"])
def test_a_client_may_connect_to_list_the_databases(server: Served, database: str) -> None:
    with server.client(database=database, pairs=PRICE) as client:
        listed = client.rows("SELECT datname, datistemplate FROM pg_database ORDER BY datname")
        assert listed == [("clinic", "f"), ("postgres", "f"), ("template1", "t")]
        assert client.rows("SELECT current_database()") == [(database,)]
        assert client.rows("SELECT relname FROM pg_class WHERE relnamespace = 2200") == []
        before = server.spent()
        for sql in (COUNT, "SELECT name FROM staff", f"COPY ({COUNT}) TO STDOUT", f"EXPLAIN {COUNT}"):
            (said,) = errors(client.query(sql))
            assert (said["C"], said["H"]) == ("42P01", "Connect to clinic.")
        assert server.spent() == before


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_lists_databases(server: Served) -> None:
    where = ["-X", "-h", server.host, "-p", str(server.port), "-U", "research"]
    done = subprocess.run(
        ["psql", *where, "-l"], env=psql_environment(server), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert " clinic " in done.stdout


def test_a_catalogue_that_another_thread_forgets_meanwhile_is_shown_all_the_same(tmp_path: Path) -> None:
    class Forgetful(dict[Any, Any]):
        """As if a thread that began under another policy removed every entry, and another one what is removed."""

        def setdefault(self, key: Any, default: Any = None) -> Any:
            return default

        def __setitem__(self, key: Any, value: Any) -> None:
            pass

        def __iter__(self) -> Iterator[Any]:
            return iter([("research", True, 0)])

    with served(tmp_path) as server:
        server.listener.wire.catalogues = Forgetful()
        with server.client() as client:
            assert client.rows("SELECT relname FROM pg_class WHERE relname = 'visits'") == [("visits",)]
