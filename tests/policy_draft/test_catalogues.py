"""A policy is drafted from the catalogue of a server: names, types, keys, comments; no row is read."""

from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from tests.engines.postgres_under_law import url

import sfumato
from sfumato.cli import main
from sfumato.errors import BadSource
from sfumato.policy.policy import RowUnit, UnitColumn, UnitPath
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.catalogue import catalogue_source, read_catalogue

CLINIC = """
CREATE TYPE {schema}.dept AS ENUM ('er', 'icu', 'it''s');
CREATE TABLE {schema}.people (id bigint PRIMARY KEY, born date, full_name text, sex "char");
CREATE TABLE {schema}.stays (nr int PRIMARY KEY, who bigint REFERENCES {schema}.people, ward {schema}.dept,
    cost numeric(8,2));
CREATE TABLE {schema}.doses (stay int REFERENCES {schema}.stays (nr), mg double precision, given timestamptz,
    extra jsonb);
CREATE TABLE {schema}.drugs (code text PRIMARY KEY, price numeric);
CREATE VIEW {schema}.recent AS SELECT * FROM {schema}.stays;
COMMENT ON TABLE {schema}.stays IS 'One row per stay in
the hospital';
COMMENT ON COLUMN {schema}.stays.cost IS 'in EUR, net # of tax';
INSERT INTO {schema}.people VALUES (1, '1980-01-01', 'Ann', 'f'), (2, '1990-01-01', 'Bob', 'm');
INSERT INTO {schema}.stays VALUES (7, 1, 'er', 12.5), (8, 1, 'icu', 900), (9, 2, 'er', 3);
INSERT INTO {schema}.doses VALUES (7, 1.5, '2024-01-01Z', NULL), (9, 2, '2024-02-01Z', NULL);
"""


@pytest.fixture
def source() -> str:
    schema = f"s{uuid4().hex}"
    with psycopg.connect(url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(CLINIC.replace("{schema}", schema))
    address = url().replace("sfumato@", "sfumato:not-a-secret@")
    return f"{address}?options={quote(f'-csearch_path={schema}')}"


def test_a_policy_is_drafted_from_the_catalogue_of_a_server(source: str, tmp_path: Path) -> None:
    output = tmp_path / "clinic.toml"
    words = ["--unit", "people.id", "--rows-per-unit", "20", "--public", "drugs", "--epsilon", "3", "--delta", "1e-6"]
    words += ["--bounds", "cost=0:1000", "--analyst", "research", "--analyst", "press=0.5"]
    shown = CliRunner().invoke(main, ["init", source, *words, "-o", str(output)])
    assert shown.exit_code == 0, shown.output
    written = output.read_text(encoding="utf-8")
    assert "not-a-secret" not in written + shown.output
    assert "The password of the URL is not in the policy" in shown.output
    assert "Proposed by a foreign key, check it: in stays the person is named by who." in shown.output
    assert "# One row per stay in the hospital" in written
    assert "in EUR, net # of tax" in written
    policy = read_policy(output)
    units = {table.name: table.unit for table in policy.tables}
    assert units["people"] == UnitColumn("id")
    assert units["stays"] == UnitColumn("who")
    assert units["doses"] == UnitPath("stays", "who", "stay", "nr")
    stays = policy.table("stays")
    assert stays is not None
    ward, cost = stays.column("ward"), stays.column("cost")
    assert ward is not None
    assert ward.values == ("er", "icu", "it's")
    assert cost is not None
    assert (cost.type, str(cost.step)) == ("decimal", "1/100")
    assert {analyst.name: float(analyst.epsilon) for analyst in policy.analysts} == {"research": 3, "press": 0.5}
    people = policy.table("people")
    assert people is not None
    assert people.column("full_name") is None  # by its name it is a person's
    checked = CliRunner().invoke(main, ["check", str(output)])
    assert checked.exit_code == 0, checked.output
    assert "Effect on rows" in checked.output
    assert "Which rows_per_unit for stays" in checked.output
    with sfumato.open(output, analyst="research") as database:
        assert database.ask("SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward").rows()  # at the analyst's price


def test_a_view_and_what_is_not_known_stay_open(source: str, tmp_path: Path) -> None:
    output = tmp_path / "clinic.toml"
    shown = CliRunner().invoke(main, ["init", source, "--analyst", "research", "-o", str(output)])
    assert shown.exit_code == 0, shown.output
    written = output.read_text(encoding="utf-8")
    assert "# [tables.recent]" in written
    assert "[analysts.research]\n# epsilon = 1      # FILL IN" in written
    assert "budget.epsilon" in shown.output


@pytest.mark.parametrize(
    ("options", "why"),
    [(["--look"], "--look cannot read a source of postgresql:"), (["--csv", "null=NA"], "has no effect")],
)
def test_options_for_files_are_refused(source: str, tmp_path: Path, options: list[str], why: str) -> None:
    shown = CliRunner().invoke(main, ["init", source, *options, "-o", str(tmp_path / "a.toml")])
    assert (shown.exit_code, why in shown.output) == (2, True), shown.output
    assert not (tmp_path / "a.toml").exists()


def test_an_empty_schema_is_refused_with_the_one_that_has_tables(source: str) -> None:
    typed = catalogue_source(url())  # its role is called as the schema of copies, which comes first in its path
    assert typed is not None
    with pytest.raises(BadSource, match="holds no table that may be read") as refused:
        read_catalogue(typed)
    assert "search_path%3D" in str(refused.value)


def test_a_folder_for_spark_is_read_by_its_footers(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "age": [3, 4]}), tmp_path / "data" / "people.parquet")
    output = tmp_path / "clinic.toml"
    options = ["--unit", "rows", "--epsilon", "1", "--delta", "0", "-o", str(output)]
    shown = CliRunner().invoke(main, ["init", f"spark:{tmp_path / 'data'}", *options])
    assert shown.exit_code == 0, shown.output
    policy = read_policy(output)
    assert (policy.source.scheme, policy.source.path) == ("spark", tmp_path / "data")
    assert isinstance(policy.tables[0].unit, RowUnit)
