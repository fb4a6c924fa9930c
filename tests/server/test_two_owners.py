"""Tables whose rows have two owners, as servers describe them: HTTP, the console, PostgreSQL's catalogue."""

import pytest
from tests.paths.test_two_owners import policy_of

import sfumato
from sfumato.policy.policy import Table
from sfumato.server.console.wording import column_facts
from sfumato.server.tables import tables_document
from sfumato.server.wire.pg_catalog.relations import _about_column, _about_table


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> sfumato.Database:
    return sfumato.open(policy_of(tmp_path_factory.mktemp("shown")))


def _table(db: sfumato.Database, name: str) -> Table:
    found = db.policy.table(name)
    assert found is not None
    return found


def test_a_document_names_both_owners(db: sfumato.Database) -> None:
    document = tables_document(db.policy, db.catalog)
    tables = {table["name"]: table for table in document["tables"]}  # type: ignore[attr-defined]
    assert tables["edges"]["unit"] == ["dst", "src"]
    assert tables["sales"]["unit"] == ["buyer: src", "seller: dst"]
    facts = {column["name"]: column_facts(column, tables["sales"]) for column in tables["sales"]["columns"]}
    assert facts["src"] == facts["dst"] == "integer · names one of the two people of a row"
    assert "people" not in facts["size"]


def test_a_catalogue_says_whose_rows_they_are(db: sfumato.Database) -> None:
    edges = _table(db, "edges")
    assert "each row belongs to two people" in _about_table(edges)
    assert "one of the two people" in _about_column(edges, edges.columns[0])
