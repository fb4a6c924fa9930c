"""A question that was read is remembered: for the account that asked it, and while the snapshot answers."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato import prepare
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.sql.public import MaterializedTable, PublicTables
from sfumato.errors import BadSql, Refusal
from sfumato.lab.generators.clinic import VISITS
from sfumato.language.scalar import Scalar
from sfumato.planning.measurement_identity import SharedParts
from sfumato.planning.named_plans import NamedPlans, named_plans
from sfumato.planning.planner import PriceTarget
from sfumato.prepare import MAX_ACCOUNT_QUESTION_BYTES
from sfumato.query.catalog import Catalog
from sfumato.query.parameters import Bindings
from sfumato.query.parse import parse
from sfumato.query.relation import Query

COUNT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
ANALYSTS = {"ada": {"epsilon": 5}, "grace": {"epsilon": 5}}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been read, in its order."""
    texts: list[str] = []

    def seen(sql: str, catalog: Catalog, bindings: Bindings | None) -> Query:
        texts.append(sql)
        return parse(sql, catalog, bindings)

    monkeypatch.setattr(prepare, "parse", seen)
    return texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("clinic")
    write(found, a_world(1, people=12))
    sfumato.open(policy(found, analysts=ANALYSTS)).close()
    return found


@pytest.fixture
def database(folder: Path) -> Iterator[sfumato.Database]:
    """A handle that remembers nothing yet, on a snapshot that is there; the ledger goes on."""
    with sfumato.open(policy(folder, analysts=ANALYSTS)) as opened:
        yield opened


def test_what_is_asked_twice_is_charged_twice_and_has_noise_of_its_own(
    database: sfumato.Database, read: list[str]
) -> None:
    before = len(database.history())
    one, other = (database.ask(COUNT, epsilon=epsilon) for epsilon in ("0.0001", "0.00011"))
    spent = database.budget().spent.epsilon
    assert one.rows() != other.rows()  # noise of a scale of 30,000: alike with a probability below 10^-12
    assert one.receipt.id != other.receipt.id
    assert len(database.history()) == before + 2
    assert database.ask(COUNT, epsilon="0.0001").rows() == one.rows()
    assert database.budget().spent.epsilon == spent
    database.verify()
    assert read == [COUNT]


def test_a_quote_is_the_same_when_the_question_is_remembered(database: sfumato.Database, folder: Path) -> None:
    first = database.explain(COUNT, within={"n": 25})
    with sfumato.open(policy(folder, analysts=ANALYSTS)) as anew:
        assert database.explain(COUNT, within={"n": 25}) == first == anew.explain(COUNT, within={"n": 25})
    assert database.explain(COUNT, within={"n": 50}).loss.epsilon < first.loss.epsilon


def test_another_account_reads_for_itself(database: sfumato.Database, read: list[str]) -> None:
    """Else the time that reading takes would tell one analyst what another has asked."""
    with database.as_analyst("ada") as ada, database.as_analyst("grace") as grace:
        for handle in (database, ada, grace, ada):
            handle.ask(COUNT, epsilon="0.1")
        assert str(ada.budget().spent) == str(grace.budget().spent)
    assert len(read) == 3


def test_nothing_is_remembered_beyond_a_snapshot(tmp_path: Path, read: list[str]) -> None:
    """The keys of the answer are those of a public table, which the new snapshot has others of."""
    write(tmp_path, a_world(1))
    words = policy(tmp_path, visits={"columns": {**VISITS, "city": {"type": "text", "values": "staff.name"}}})
    sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    with sfumato.open(words) as database:
        before = {row["city"] for row in database.ask(sql, epsilon=1).rows()}
        (staff,) = (tmp_path / "data").rglob("staff*.parquet")
        pq.write_table(pa.table({"dept": ["er"], "name": ["zoe"], "floor": [1]}), staff)
        assert {row["city"] for row in database.ask(sql, epsilon=2).rows()} == before
        database.refresh()
        assert {row["city"] for row in database.ask(sql, epsilon=1).rows()} == {"zoe"} != before
    assert (
        read == [sql] * 2
    )  # once for each snapshot; what the first has paid for is looked at without reading it again


def test_another_policy_reads_anew(database: sfumato.Database, tmp_path: Path) -> None:
    write(tmp_path, a_world(1))
    sql = "SELECT SUM(age) AS s FROM visits"
    narrow = policy(tmp_path, visits={"columns": {**VISITS, "age": {"type": "integer", "bounds": [0, 10]}}})
    wide = database.explain(sql, epsilon=1)
    with sfumato.open(narrow) as other:
        assert other.explain(sql, epsilon=1).margins != wide.margins


def test_values_of_parameters_belong_to_the_question(database: sfumato.Database, read: list[str]) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE age < $1"
    for value in (3, 4, 3, 3.0):
        database.ask(sql, parameters=[value], epsilon="0.01")
    assert len(read) == 3  # an integer is not a decimal
    charged = {entry.sql.split("< ")[1] for entry in database.history() if "<" in entry.sql}
    assert charged == {"3", "4"}  # and the rows below 3 are those below 3.0


def test_what_is_refused_is_refused_again(database: sfumato.Database, read: list[str]) -> None:
    before = database.history()
    for _ in range(2):
        with pytest.raises(Refusal, match="who people are"):
            database.ask("SELECT patient_id FROM visits", epsilon=1)
        with pytest.raises(BadSql, match="not text"):
            database.ask([COUNT], epsilon=1)  # type: ignore[arg-type]
    assert len(read) == 4
    assert database.history() == before


def test_what_a_share_buys_is_found_anew(database: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It depends on the account, and the account on what was asked before."""
    planned: list[object] = []

    def seen(
        query: Query, private: PrivateQuery, wish: PriceTarget, words: str, shared: SharedParts, *, alone: bool = False
    ) -> NamedPlans:
        planned.append(wish.epsilon if wish.share is None else "share")
        return named_plans(query, private, wish, words, shared, alone=alone)

    monkeypatch.setattr(prepare, "named_plans", seen)
    sql = "SELECT COUNT(*) FROM visits WHERE age < 19"  # nothing of it is paid for
    for _ in range(2):
        database.explain(sql, share="10%")
        database.explain(sql, epsilon=1)
    assert planned == ["share", 1, "share"]


JOINED = "SELECT s.name, COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY s.name"


@pytest.mark.parametrize("size", [1000, MAX_ACCOUNT_QUESTION_BYTES])
def test_public_rows_that_a_question_made_count_with_it(
    database: sfumato.Database, read: list[str], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """They may be half a gigabyte, and a question that is remembered keeps them: so large ones are not remembered."""
    measure = PublicTables._measured

    def measured(self: PublicTables, relation: str, columns: tuple[Scalar, ...]) -> MaterializedTable:
        return replace(measure(self, relation, columns), size=size)

    monkeypatch.setattr(PublicTables, "_measured", measured)
    sql = f"{JOINED} HAVING COUNT(*) > {size}"
    with database.as_analyst("ada" if size > 1000 else "grace") as handle:
        for epsilon in (1, 2):
            handle.ask(sql, epsilon=epsilon)
        kept = handle._preparation.remembered_bytes
    if size == MAX_ACCOUNT_QUESTION_BYTES:
        assert kept == 0
        assert read == [sql] * 5  # the second also looks at what the first has paid for, and is combined with it
    else:
        assert kept > size
        assert read == [sql]


def test_public_rows_go_when_their_question_is_forgotten(database: sfumato.Database) -> None:
    with database.as_analyst("ada") as ada:
        ada.explain(JOINED, epsilon=1)
        public = ada.engine.public
        assert isinstance(public, PublicTables)
        public._held.clear()  # as other questions displace it
        gc.collect()
        assert not public._unused
    del ada
    gc.collect()
    database.explain("SELECT COUNT(*) FROM visits WHERE age < 7", epsilon=1)
    gc.collect()
    assert public._unused


def test_what_is_remembered_goes_with_its_handle(database: sfumato.Database) -> None:
    """How many bytes are remembered: tests/test_caches.py."""
    with database.as_analyst("ada") as ada:
        ada.explain(COUNT, epsilon=1)
        owner = ada._preparation._owner
        assert ada._preparation.remembered_bytes > 0
    del ada
    gc.collect()
    database.explain("SELECT COUNT(*) FROM visits WHERE age < 7", epsilon=1)
    assert prepare._QUERY_CACHE.bytes_of(owner) == 0


def test_threads_that_ask_during_a_refresh_are_answered_from_one_snapshot(database: sfumato.Database) -> None:
    def ask(at: int) -> bool:
        if at == 5:
            database.refresh()
        release = database.ask(COUNT, epsilon=f"0.0{at + 1:03}")
        return {row["dept"] for row in release.rows()} == {"er", "icu", "surgery"}

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, range(12)))
