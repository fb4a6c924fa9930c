"""Rows with two owners through every public way in: what is no total of them is refused, and nothing is charged."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.paths.test_two_owners import policy_of
from tests.refusals import refusing

import sfumato
from sfumato import learn, streams, synthesis
from sfumato.database import Database
from sfumato.errors import TwoOwners
from sfumato.lab.generators.population import populate
from sfumato.measure import prepare_measurement
from sfumato.policy.reading import read_policy

REFUSED = (
    "SELECT AVG(size) FROM edges",
    "SELECT MEDIAN(size) FROM edges",
    "SELECT MAX(size) FROM edges",
    "SELECT MODE(size) FROM sales",
    "SELECT STDDEV(size) FROM edges",
    "SELECT CORR(size, world) FROM edges",
    "SELECT COUNT(DISTINCT src) FROM edges",
    "SELECT COUNT(DISTINCT size) FROM edges",
    "SELECT SUM(DISTINCT size) FROM edges",
    "SELECT SUM(size - 9) FROM edges",
    "SELECT SUM(src) FROM edges",
    "SELECT src, COUNT(*) FROM edges GROUP BY src",
    "SELECT * FROM edges",
    "SELECT size FROM edges LIMIT 3",
    "SELECT world, COUNT(*) FROM edges GROUP BY world",
    "SELECT COUNT(*) FROM edges a JOIN edges b ON a.dst = b.src",
    "SELECT COUNT(*) FROM edges a JOIN edges b ON a.topic = b.topic AND a.src <> b.src",
    "SELECT COUNT(*) FROM edges JOIN sales ON edges.topic = sales.topic",
    "SELECT COUNT(*) FROM edges JOIN people ON edges.src = people.who",
    "SELECT COUNT(*) FROM people JOIN edges ON edges.topic = people.topic",
    "SELECT COUNT(*) FROM people WHERE who IN (SELECT src FROM edges)",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM edges e WHERE e.src = p.who)",
    "SELECT COUNT(*) FROM edges WHERE src IN (SELECT who FROM people)",
    "SELECT COUNT(*) FROM edges JOIN (SELECT topic FROM topics UNION ALL SELECT topic FROM topics) t USING (topic)",
    "SELECT COUNT(*) FROM topics LEFT JOIN edges ON edges.topic = topics.topic",
    "SELECT COUNT(*) FROM (SELECT src, COUNT(*) AS n FROM edges GROUP BY src) t",
    "SELECT COUNT(*) FROM (SELECT size, ROW_NUMBER() OVER (PARTITION BY src ORDER BY size) AS n FROM edges) t",
    "SELECT COUNT(*) FROM (SELECT size FROM edges UNION ALL SELECT size FROM sales) t",
    "SELECT COUNT(*) FROM (SELECT size FROM edges LIMIT 5) t",
    "SELECT COUNT(*) FROM edges WHERE src <> dst",
    "SELECT COUNT(*) FROM edges WHERE src = 3",
    "SELECT COUNT(*) FROM edges WHERE size > (SELECT AVG(size) FROM edges)",
    "SELECT COUNT(*) FROM people WHERE who > (SELECT COUNT(*) FROM edges)",
    "SELECT COUNT(*) FROM people WHERE LENGTH(topic) > (SELECT COUNT(*) FROM edges)",
    "SELECT COUNT(*) FROM edges WHERE size > (SELECT COUNT(*) FROM people)",
    'SELECT COUNT(*) FROM "edges.removed"',
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = src) COUNT(*) FROM edges",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1) topic, COUNT(*) FROM edges GROUP BY topic",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 3) COUNT(*) FROM edges",
)
BY_ANOTHER_CODE = {
    "unit_revealed",
    "unknown_name",
    "bad_sql",
    "loosened_policy",
    "unsupported_sql",
    "raw_rows",
    "unsafe_join",
}
"""What the text alone says is refused under its own name: units that are shown or compared, names that do not exist."""
ROWS = "SELECT size, topic FROM edges"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("refused")
    policy = policy_of(folder, budget={"epsilon": 100, "delta": "1e-6", "truncation": 1})
    with sfumato.open(policy) as database:
        yield database


@pytest.mark.parametrize("sql", REFUSED)
def test_everything_but_totals_is_refused_before_any_charge(db: Database, sql: str) -> None:
    before = db.charges()
    for ask in (db.ask, db.explain, db.statements, lambda sql, epsilon: db.ask_all([sql, "SELECT 1"], epsilon=epsilon)):
        with refusing() as caught:
            ask(sql, epsilon="1")
        assert caught.value.code == "two_owners" or caught.value.code in BY_ANOTHER_CODE
        assert caught.value.remedy
    assert db.charges() == before


def test_most_of_it_is_refused_by_its_own_name(db: Database) -> None:
    codes = []
    for sql in REFUSED:
        with refusing() as caught:
            db.explain(sql, epsilon="1")
        codes.append(caught.value.code)
    assert codes.count("two_owners") >= 25


MODELS = {"PCA": (1,), "KMeans": (2,)}
"""The arguments that some models need before their price."""


def _fit(name: str) -> Callable[[Database, Path], object]:
    def fit(db: Database, _: Path) -> object:
        model = getattr(learn, name)(*MODELS.get(name, ()), epsilon="1", delta="1e-9")
        return model.fit(db, ROWS, **({"label": "topic"} if "label" in inspect.signature(model.fit).parameters else {}))

    return fit


WAYS_IN: dict[str, Callable[[Database, Path], object]] = {
    "measure": lambda db, folder: prepare_measurement(db, ROWS),
    "synthesize": lambda db, folder: synthesis.synthesize(db, "edges", columns=["size"], epsilon="1", delta="1e-9"),
    "publish": lambda db, folder: streams.publish(
        db, "SELECT COUNT(*) FROM edges", every="day", horizon=4, epsilon=1, path=folder / "stream"
    ),
    "within": lambda db, folder: db.ask("SELECT COUNT(*) AS n FROM edges", within={"n": 10}),
    "first values": lambda db, folder: db.ask(
        "SELECT COUNT(*) FROM people WHERE LENGTH(topic) > (SELECT COUNT(*) FROM edges)", epsilon="1"
    ),
    "audits": lambda db, folder: populate(db.policy, 1),
    "sealed": lambda db, folder: read_policy(
        {
            "sealed": {
                "store": f"duckdb:{folder}/store/s.duckdb",
                "key": f"file:{folder}/keys/k",
                "epsilon": 1,
                "delta": "1e-9",
            },
            "ledger": f"sqlite:{folder}/l",
            "budget": {"epsilon": 1, "delta": 0},
            "tables": {
                "t": {
                    "unit": ["a", "b"],
                    "rows_per_unit": 3,
                    "columns": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                }
            },
        }
    ),
    "cohorts": lambda db, folder: read_policy({**policy_of(folder), "cohort": "people.topic"}),
    **{name: _fit(name) for name in learn.__all__},
}


OTHERWISE = {
    ("within", "unreachable_margin"),
    ("sealed", "bad_policy"),
    ("cohorts", "bad_policy"),
}
"""Margins that depend on the data are refused in general; a policy is refused before there is a question."""


@pytest.mark.parametrize("way", WAYS_IN)
def test_no_way_in_measures_rows_with_two_owners_otherwise(db: Database, way: str, tmp_path: Path) -> None:
    before = db.charges()
    with refusing() as caught:
        WAYS_IN[way](db, tmp_path)
    assert isinstance(caught.value, TwoOwners) or (way, caught.value.code) in OTHERWISE
    assert way == "within" or "two owners" in str(caught.value)
    assert db.charges() == before


def test_every_public_method_of_a_database_was_tried_or_reads_no_rows() -> None:
    """A new method has to be written down here, after a look at what it does with rows that have two owners."""
    tried = {"ask", "ask_all", "explain", "statements", "prepare"}
    reads_no_rows = {
        *("as_analyst", "describe", "columns", "reopen", "budget", "history", "requests", "entry", "charges"),
        *("catalog", "catalog_of", "version", "known_version", "verify", "close", "require_owner", "source_changed"),
        *("refresh", "measure_truncation", "engine"),
    }
    public = {name for name, _ in inspect.getmembers(Database) if not name.startswith("_")}
    assert public == tried | reads_no_rows


def test_what_the_owner_sees_of_such_a_table(db: Database, tmp_path: Path) -> None:
    """A refresh, truncation losses, columns and answers that are opened again work beside such tables."""
    assert set(db.columns()["edges"]) == {"src", "dst", "world", "topic", "size"}
    answer = db.ask("SELECT COUNT(*) AS n FROM edges WHERE size < 4", epsilon="1")
    assert db.reopen(answer.receipt.id).rows() == answer.rows()
    version = db.version
    assert db.refresh() != version
    alone = db.as_analyst  # an analyst's handle is refused in the same way: it shares the analysis
    assert callable(alone)
    workload = db.ask_all(["SELECT COUNT(*) AS n FROM edges", "SELECT COUNT(*) AS n FROM people"], epsilon="2")
    assert [len(one.rows()) for one in workload] == [1, 1]


def test_statements_name_pairs_and_never_rows(db: Database) -> None:
    (statement,) = db.statements("SELECT topic, SUM(size) AS s FROM edges WHERE world = 3 GROUP BY topic", epsilon="1")
    assert "GROUP BY" in statement.sql
    assert statement.sql.count("SELECT") <= 3
