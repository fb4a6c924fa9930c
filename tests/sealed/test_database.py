"""A sealed database answers as the plain one does: the same event, the same exact aggregates, the same refusals."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.paths.shapes import SHAPES
from tests.refusals import refusing
from tests.sealed.clinic import plain_policy, rows, sealed_policy
from tests.sources import HashSource

import sfumato
from sfumato.accounting.event import Approximate, Neighbours, Pure
from sfumato.errors import (
    BadParameter,
    BadPolicy,
    BadSource,
    BudgetExhausted,
    EngineFailed,
    Refusal,
    UnknownName,
    WrongKey,
)
from sfumato.errors import UnsupportedSql as Unsupported
from sfumato.ledger.accounts import open_accounts
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.prepare import RequestedPrice
from sfumato.randomness.source import Source
from sfumato.sealed import batches as batches_of_rows
from sfumato.sealed.database import SealedDatabase, open_sealed, rotate, seal
from sfumato.sealed.keys import create_key
from sfumato.sealed.padding import Padding
from sfumato.sealed.vault import Vault

ASKED = (
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(cost), COUNT(score), COUNT(dept), COUNT(patient_id) FROM visits",
    "SELECT dept, COUNT(*), SUM(cost), AVG(age), VAR_POP(cost), STDDEV(cost), SUM(score) FROM visits GROUP BY dept",
    "SELECT sex, hiv, SUM(cost), AVG(score) FROM visits WHERE dept <> 'er' OR hiv GROUP BY sex, hiv ORDER BY 3",
    "SELECT upper(dept) AS d, COUNT(*) FROM visits WHERE sex IN ('f') GROUP BY d HAVING COUNT(*) > 2",
    "SELECT CASE WHEN dept = 'er' THEN 'fast' ELSE 'slow' END AS g, AVG(cost) FROM visits GROUP BY g",
    "SELECT SUM(cost) FILTER (WHERE hiv), COUNT(*) FILTER (WHERE dept = 'icu' AND NOT hiv) FROM visits",
    "SELECT SUM(LENGTH(dept)), SUM(CASE WHEN hiv THEN 1 ELSE 0 END) FROM visits",
    "SELECT d, SUM(c) FROM (SELECT dept AS d, cost AS c, sex FROM visits WHERE hiv) t WHERE sex = 'm' GROUP BY d",
    "SELECT COUNT(patient_id), COUNT(c) FROM (SELECT patient_id, cost AS c FROM visits) t",
    "SELECT DISTINCT dept FROM visits",
    "SELECT COUNT(*) FROM visits WHERE 1 = 0",
)


def agree(sealed: SealedDatabase, plain: sfumato.Database, sql: str) -> None:
    """Compare event and exact aggregates of both."""
    here, there = (
        sealed._database.prepare(sql, None, RequestedPrice("1")),
        plain.prepare(sql, None, RequestedPrice("1")),
    )
    assert here.plan.event == there.plan.event
    assert here.plan.loss == there.plan.loss
    for one, other in zip(here.engine.run(here.job).groups, there.engine.run(there.job).groups, strict=True):
        assert one.keys == other.keys
        assert {name: list(column) for name, column in one.columns.items()} == {
            name: list(column) for name, column in other.columns.items()
        }


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("clinics")
    policy, everybody = sealed_policy(folder), rows(40)
    seal(policy, "visits", everybody.slice(0, 30))
    seal(policy, "Visits", everybody.slice(30))
    with open_sealed(policy) as sealed, sfumato.open(plain_policy(folder, everybody, policy)) as plain:
        yield sealed, plain


@pytest.mark.parametrize("sql", ASKED)
def test_event_and_aggregates_are_those_of_the_plain_database(clinics: Any, sql: str) -> None:
    agree(clinics[0], clinics[1], sql)


def test_on_every_shape_of_the_path_it_agrees_or_refuses_with_a_remedy(clinics: Any) -> None:
    accepted = 0
    for sql in SHAPES:
        refusal = _refused(clinics[0], sql)
        if refusal is None:
            agree(clinics[0], clinics[1], sql)
            accepted += 1
        else:
            assert refusal.code in {"unsupported_sql", "unknown_name"}, sql
            assert refusal.remedy
    assert accepted >= 10


def _refused(database: SealedDatabase, sql: str) -> Refusal | None:
    try:
        database.explain(sql, epsilon="1")
    except EngineFailed:
        raise
    except Refusal as refusal:
        return refusal
    return None


REFUSED = (
    ("SELECT COUNT(*) FROM visits WHERE cost > 3", "computed before sealing"),
    ("SELECT SUM(cost * 2) FROM visits", "computed before sealing"),
    ("SELECT SUM(cost + 1) FROM visits", "computed before sealing"),
    ("SELECT SUM(cost) FILTER (WHERE age > 3) FROM visits", "computed before sealing"),
    ("SELECT age, COUNT(*) FROM visits GROUP BY age", "bucketed cell column"),
    ("SELECT MIN(cost) FROM visits", "bucketed cell column"),
    ("SELECT MAX(age) FROM visits", "bucketed cell column"),
    ("SELECT VAR_POP(age) FROM visits", "squares"),
    ("SELECT COUNT(DISTINCT patient_id) FROM visits", "one row for each"),
    ("SELECT COUNT(DISTINCT dept) FROM visits", "one row for each"),
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id", "Join before sealing"),
    ("SELECT COUNT(*) FROM visits v, (VALUES (1), (2)) t", "Join before sealing"),
    ("SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1) t", "before sealing"),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 1) COUNT(*) FROM visits",
        "smaller rows_per_unit",
    ),
)


@pytest.mark.parametrize(("sql", "remedy"), REFUSED)
def test_what_sums_of_cells_cannot_answer_is_refused_with_its_remedy(clinics: Any, sql: str, remedy: str) -> None:
    spent = clinics[0].budget().spent
    for attempt in (clinics[0].ask, clinics[0].explain):
        with pytest.raises(Unsupported, match=remedy):
            attempt(sql, epsilon="1")
    assert clinics[0].budget().spent == spent


def test_what_is_not_sealed_does_not_exist(clinics: Any) -> None:
    for name in ("note", "urgent"):
        with pytest.raises(UnknownName):
            clinics[0].ask(f"SELECT COUNT({name}) FROM visits", epsilon="1")  # noqa: S608
    assert clinics[0].ask("SELECT 1 + 1 AS two").rows() == [{"two": 2}]


def test_notes_send_nobody_to_a_table_that_is_not_sealed(clinics: Any) -> None:
    notes = clinics[0].explain("SELECT COUNT(*) FROM visits", epsilon="1").notes
    assert any("Each person contributes at most" in note for note in notes)
    assert not any("removed" in note for note in notes)


def test_the_statement_shows_no_word_of_the_asker(clinics: Any) -> None:
    told = {
        clinics[0].statements(f"SELECT dept, SUM(cost) AS zebra FROM visits WHERE {where} GROUP BY dept")  # noqa: S608
        for where in ("sex = 'f'", "hiv", "dept = 'er' AND sex = 'm'", "TRUE")
    }
    assert len(told) == 1
    ((statement,),) = told
    for word in ("zebra", "dept", "sex", "hiv", "er", "WHERE", "count"):
        assert word not in statement
    assert statement.startswith("SELECT t, SUM(c")
    assert statement.endswith("GROUP BY t")


def test_asking_twice_is_one_release_and_another_batch_is_another_question(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    seal(policy, "visits", rows(5))
    with open_sealed(policy) as database:
        first = database.ask("SELECT COUNT(*) FROM visits", epsilon="1")
        spent = database.budget().spent
        assert database.ask("SELECT COUNT(*)  FROM visits", epsilon="1").rows() == first.rows()
        assert database.budget().spent == spent
        seal(policy, "visits", rows(5, seed=2, first=100))
        second = database.ask("SELECT COUNT(*) FROM visits", epsilon="1")
        assert second.receipt.version != first.receipt.version
        assert database.budget().spent.epsilon > spent.epsilon
        database.check()
        assert database.verify()
        assert "padded sizes" in database.history()[-1].sql
    with pytest.raises(BadParameter, match="closed"):
        database.check()


def test_sizes_are_charged_once_per_table_and_epoch_and_before_anything_is_sent(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path, neighbours="replace")
    seal(policy, "visits", rows(5))
    seal(policy, "visits", rows(0))
    with open_sealed(policy) as database:
        (entry,) = database.history()
        assert entry.event == Approximate(Pure(1, Neighbours.REPLACE), entry.loss.delta)  # type: ignore[arg-type]
    rotate(policy, tmp_path / "keys" / "clinic.key", {"visits": rows(5)})
    with open_sealed(policy) as database:
        assert len(database.history()) == 2
    (tmp_path / "poor").mkdir()
    poor = sealed_policy(tmp_path / "poor")
    poor["budget"] = {"epsilon": 0.5, "delta": 0.5}
    with pytest.raises(BudgetExhausted):
        seal(poor, "visits", rows(5))
    assert not (tmp_path / "poor" / "store").exists()


def test_rows_per_person_are_bounded_over_all_batches_first_come_first_kept(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    mine = pa.concat_tables([rows(1, seed=seed, per_person=1) for seed in range(5)])
    assert seal(policy, "visits", mine.slice(0, 2)).kept == 2
    assert seal(policy, "visits", pa.concat_tables([mine.slice(2), rows(1, first=7, per_person=1)])).kept == 2
    assert seal(policy, "visits", mine).kept == 0
    with open_sealed(policy) as database:
        prepared = database._database.prepare("SELECT SUM(age) FROM visits WHERE sex = 'f'", None, RequestedPrice("1"))
        (total,) = prepared.engine.run(prepared.job).groups[0].columns.values()
    assert int(total[0]) == sum(mine.column("age").to_pylist()[:3])  # person 7 is of the other sex


def test_every_cell_of_every_batch_is_padded_and_columns_are_integers_without_a_name(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    batches = [seal(policy, "visits", part) for part in (rows(10), rows(0), rows(10, first=50))]
    path = tmp_path / "store" / "clinic.duckdb"
    with duckdb.connect(str(path), read_only=True) as store:
        ((name,),) = store.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        columns = store.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE NOT internal").fetchall()
        found = store.execute(f'SELECT * FROM "{name}" ORDER BY rowid').fetchnumpy()  # noqa: S608
        assert store.execute("SELECT count(*) FROM duckdb_indexes()").fetchone() == (0,)
    assert {kind for _, kind in columns} == {"INTEGER"}
    assert [column for column, _ in columns] == ["t", "b", *(f"c{at}" for at in range(len(columns) - 2))]
    assert [int((found["b"] == at).sum()) for at in range(3)] == [batch.stored for batch in batches]
    limbs = np.stack([found[column] for column, _ in columns[2:]])
    assert len(np.unique(limbs[:2].astype(np.int64)[0] << 31 | limbs[1])) == limbs.shape[1]  # nothing is equal
    content = path.read_bytes()
    for secret in (b"secret1", b"surgery", b"icu", b"cost", b"patient_id", b"hiv"):
        assert secret not in content


def test_the_same_rows_twice_share_nothing(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path, unit="rows", rows_per_unit=1)
    for _ in range(2):
        seal(policy, "visits", rows(20))
    with duckdb.connect(str(tmp_path / "store" / "clinic.duckdb"), read_only=True) as store:
        ((name,),) = store.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        found = store.execute(f'SELECT b, c0::BIGINT * 2147483648 + c1 FROM "{name}"').fetchall()  # noqa: S608
    one, other = ({c for b, c in found if b == batch} for batch in (0, 1))
    assert len(one) > 50
    assert not one & other


def test_padded_sizes_are_as_many_dummies_as_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """18 draws of shift + Z, a fixed seed: the mean errs by 6 standard deviations with probability below 1e-5."""
    source = HashSource("padded sizes")
    monkeypatch.setattr(batches_of_rows, "system_source", lambda: source)
    policy = sealed_policy(tmp_path)
    batches = [seal(policy, "visits", rows(0)) for _ in range(3)]
    padding = Padding(Fraction(1), Fraction(1, 100), 3)
    mean = sum(batch.stored for batch in batches) / 18
    assert abs(mean - padding.shift) < 6 * math.sqrt(2) * 3 / math.sqrt(18)


def test_padding_is_drawn_behind_its_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Padding.draw
    charged: list[list[str]] = []

    def draw_behind_charge(self: Padding, cells: int, source: Source) -> Any:
        with open_accounts(read_policy(policy)) as accounts:
            charged.append([entry.state for entry in accounts.history()])
        return draw(self, cells, source)

    monkeypatch.setattr(Padding, "draw", draw_behind_charge)
    policy = sealed_policy(tmp_path)
    for _ in range(2):
        seal(policy, "visits", rows(5))
    assert charged == [["settled"]] * 2


def test_what_cannot_be_sealed_is_refused_to_the_owner_and_changes_nothing(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    good = rows(3)
    for name, value in (("dept", None), ("dept", "morgue"), ("cost", None), ("cost", math.nan)):
        column = pa.array([value] * good.num_rows, good.schema.field(name).type)
        with pytest.raises(BadSource, match=name):
            seal(policy, "visits", good.set_column(good.schema.get_field_index(name), name, column))
    with pytest.raises(BadSource, match="no column"):
        seal(policy, "visits", good.drop_columns(["age"]))
    with pytest.raises(BadParameter, match="pyarrow"):
        seal(policy, "visits", good.to_pylist())
    with pytest.raises(UnknownName):
        seal(policy, "patients", good)
    tight = sealed_policy(tmp_path, capacity=10)
    with pytest.raises(BadSource, match="capacity"):
        seal(tight, "visits", rows(60))
    huge = sealed_policy(tmp_path, measures=["cost"], nulls=[], capacity=10**9)
    huge["tables"]["visits"]["columns"] = {
        **huge["tables"]["visits"]["columns"],
        "cost": {"type": "decimal", "bounds": [0, 10**12], "step": 1e-6},
    }
    with pytest.raises(BadPolicy, match="coarser step"):
        seal(huge, "visits", good)
    assert not (tmp_path / "store").exists()
    nobody = good.set_column(0, "patient_id", pa.array([None] * good.num_rows, pa.int64()))
    assert seal(policy, "visits", nobody).kept == 0


def test_another_key_is_refused_before_the_store_is_touched(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    with pytest.raises(WrongKey, match="Nothing was sealed"):
        open_sealed(policy)
    seal(policy, "visits", rows(3))
    key = tmp_path / "keys" / "clinic.key"
    (tmp_path / "store" / "clinic.duckdb").unlink()
    create_key(tmp_path / "keys" / "other.key")
    right = key.read_bytes()
    key.write_bytes((tmp_path / "keys" / "other.key").read_bytes())
    for attempt in (lambda: open_sealed(policy), lambda: seal(policy, "visits", rows(3))):
        with pytest.raises(WrongKey, match="not the one") as refused:
            attempt()
        assert str(tmp_path) not in str(refused.value)
    key.write_bytes(right)
    manifest = tmp_path / "keys" / "clinic.key.manifest"
    manifest.write_bytes(manifest.read_bytes().replace(b'"attempts":1', b'"attempts":2'))
    with pytest.raises(WrongKey, match="damaged"):
        open_sealed(policy)


def test_a_policy_that_says_something_else_by_now_is_refused(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    seal(policy, "visits", rows(3))
    wider = sealed_policy(tmp_path, capacity=6000)
    with pytest.raises(Refusal, match="confirm") as told:
        rotate(wider, tmp_path / "keys" / "wider.key", {"visits": rows(3)})
    assert policy_hash(read_policy(wider)) in str(told.value)
    for change in ({"rows_per_unit": 4}, {"cells": ["dept"]}, {"capacity": 5001}):
        changed = sealed_policy(tmp_path, **change)
        for attempt in (
            lambda changed=changed: open_sealed(changed),
            lambda changed=changed: seal(changed, "visits", rows(3)),
        ):
            with refusing() as refused:
                attempt()
            assert refused.value.code == "policy_weakened"
    shuffled = sealed_policy(tmp_path)
    dept = {"type": "text", "values": ["icu", "er", "surgery"]}
    shuffled["tables"]["visits"]["columns"] = {**shuffled["tables"]["visits"]["columns"], "dept": dept}
    with open_sealed(shuffled) as database:
        database.check()
    rotate(wider, tmp_path / "keys" / "clinic.key", {"visits": rows(3)}, confirm=policy_hash(read_policy(wider)))
    with open_sealed(wider) as database:
        database.check()
    (tmp_path / "clinic.ledger").unlink()
    with refusing() as refused:
        open_sealed(wider)
    assert refused.value.code == "ledger_damaged"


def test_rotation_seals_everything_anew_and_drops_the_old(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    seal(policy, "visits", rows(10))
    with pytest.raises(BadParameter, match="missing"):
        rotate(policy, tmp_path / "keys" / "new.key", {})
    with pytest.raises(BadParameter, match="folder of the store"):
        rotate(policy, tmp_path / "store" / "new.key", {"visits": rows(10)})
    rotate(policy, tmp_path / "keys" / "new.key", {"visits": rows(10)})
    with pytest.raises(WrongKey, match="rotated"):
        open_sealed(policy)
    renewed = {**policy, "sealed": {**policy["sealed"], "key": f"file:{tmp_path / 'keys' / 'new.key'}"}}
    with open_sealed(renewed) as database:
        database.check()
        assert len(database.history()) == 2
    with duckdb.connect(str(tmp_path / "store" / "clinic.duckdb"), read_only=True) as store:
        assert len(store.execute("SELECT 1 FROM duckdb_tables()").fetchall()) == 1
    with pytest.raises(BadParameter, match="in use"):
        rotate(
            {**policy, "sealed": {**policy["sealed"], "key": f"file:{tmp_path / 'keys' / 'new.key'}"}},
            _used(tmp_path),
            {"visits": rows(1)},
        )


def _used(folder: Path) -> Path:
    """Return a key that seals already, in another ledger."""
    (folder / "second").mkdir()
    policy = sealed_policy(folder / "second")
    seal(policy, "visits", rows(1))
    return folder / "second" / "keys" / "clinic.key"


def test_tokens_are_a_permutation_that_hangs_on_key_and_epoch(tmp_path: Path) -> None:
    vault = Vault(read_policy(sealed_policy(tmp_path, cells=["dept", "sex", "urgent"])))
    layout = vault.layout("visits")
    drawn = [tuple(vault.tokens(epoch, layout).tolist()) for epoch in ("a", "b", "c", "a")]
    assert all(sorted(tokens) == list(range(12)) for tokens in drawn)
    assert drawn[0] == drawn[3]
    assert len(set(drawn)) == 3


def test_those_who_ask_and_one_who_seals_do_not_disturb_each_other(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    seal(policy, "visits", rows(5))
    with open_sealed(policy) as database, ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(_asked, database, at) for at in range(12)]
        sealing = pool.submit(lambda: [seal(policy, "visits", rows(3, first=100 * at)).kept for at in (1, 2)])
        assert all(answer.result() for answer in asked)
        assert min(sealing.result()) > 0
        database.check()


def _asked(database: SealedDatabase, at: int) -> list[dict[str, Any]]:
    return database.ask(f"SELECT SUM(age) + {at} AS s FROM visits", epsilon="1").rows()  # noqa: S608


def test_an_analyst_spends_from_a_budget_of_their_own(tmp_path: Path) -> None:
    policy = {**sealed_policy(tmp_path), "analysts": {"research": {"epsilon": 1}}}
    seal(policy, "visits", rows(5))
    with pytest.raises(UnknownName):
        open_sealed(policy, analyst="press")
    with open_sealed(policy, analyst="research") as database:
        assert database.history() == ()  # the sizes are the dataset's
        database.ask("SELECT COUNT(*) FROM visits", epsilon="1")
        with pytest.raises(BudgetExhausted):
            database.ask("SELECT SUM(age) FROM visits", epsilon="1")
