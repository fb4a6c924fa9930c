"""Keys that are selected in rounds, through the whole path: what a person can move in a later round, and what is shown.

Laws hold for every neighbour of a small database and every set of keys that the first round may release. Where noise is
drawn, a test fails by chance less often than once in 10⁹ runs.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.database import Database
from sfumato.engines.aggregates import GroupAggregates
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning import renyi_keys
from sfumato.planning.plan import Plan
from sfumato.prepare import RequestedPrice
from sfumato.release import key_rounds
from sfumato.release.key_rounds import add_later_rounds
from sfumato.release.noisy import NoisyGroup, NoisyResult

QUESTIONS = (
    "SELECT DISTINCT word FROM said",
    "SELECT topic FROM said GROUP BY topic",
    "SELECT word, topic FROM said WHERE topic <> 3 GROUP BY word, topic",
    "SELECT upper(s.word) AS w FROM said s JOIN said t ON s.person = t.person AND s.topic = t.topic GROUP BY 1",
)
WORDS = ("a'b", "c\\d", "é", "x\ty", "z", None)
GROUPS = 2
MANY: dict[str, Any] = {"rows_per_unit": 20, "groups_per_unit": 10}
Counts = dict[tuple[Any, ...], int]
_ONCE = RenyiSelection(Fraction(1, 1000), GROUPS, (8,), (Fraction(1),), Neighbours.ADD_REMOVE)
ROUNDS = KeyRounds((_ONCE, _ONCE))


def _rows() -> list[tuple[int, str | None, int | None]]:
    """Return what five people said: one to six words each, some twice, and one that no statement spells."""
    found = []
    for person in range(1, 6):
        for place in range(person + 1):
            found += [(person, WORDS[(person + place) % 6], None if place == 4 else (person * place) % 4)] * (
                1 + (place == 2)
            )
    return found


def _open(folder: Path, rows: list[tuple[int, str | None, int | None]], **table: object) -> Database:
    folder.mkdir(parents=True)
    salt = folder / "ledger.copy.salt"
    salt.touch(mode=0o600)
    salt.write_bytes(bytes(range(32)))
    names = ("person", "word", "topic")
    types = (pa.int64(), pa.string(), pa.int64())
    columns = {name: pa.array([row[at] for row in rows], types[at]) for at, name in enumerate(names)}
    said = {
        "unit": "person",
        "rows_per_unit": 10,
        "groups_per_unit": GROUPS,
        "columns": {
            "person": {"type": "integer"},
            "word": {"type": "text"},
            "topic": {"type": "integer", "bounds": [0, 1000000]},
        },
    } | table
    return sfumato.open(
        {
            "name": "words",
            "source": {"said": pa.table(columns)},
            "ledger": f"sqlite:{folder / 'ledger'}",
            "budget": {"epsilon": 50, "delta": "1e-3", "query_delta": "1e-5"},
            "tables": {"said": said},
        }
    )


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Database]]:
    """Give everybody, and everybody but one person."""
    folder = tmp_path_factory.mktemp("words")
    opened = [_open(folder / str(p), [row for row in _rows() if row[0] != p]) for p in range(6)]
    yield opened
    for db in opened:
        db.close()


def _later_counts(db: Database, sql: str, found: tuple[tuple[Any, ...], ...]) -> tuple[Plan, Counts]:
    """Return the plan of a round after these keys were found, and how many people each other key has in it."""
    asked = db.prepare(sql, None, RequestedPrice("2"))
    plan = replace(asked.plan, groups=tuple(replace(group, selection=ROUNDS) for group in asked.plan.groups))
    seen: list[tuple[Plan, GroupAggregates]] = []

    def run(stage: Plan) -> NoisyResult:
        seen.append((stage, asked.engine.run(asked.engine.prepare(stage)).groups[0]))
        return NoisyResult((NoisyGroup((), ()),), 0)

    add_later_rounds(plan, NoisyResult((NoisyGroup(found, ()),), 0), run)
    ((stage, exact),) = seen
    assert exact.units is not None
    return stage, dict(zip(exact.keys, (int(units) for units in np.asarray(exact.units)), strict=True))


def _first_counts(db: Database, sql: str) -> Counts:
    asked = db.prepare(sql, None, RequestedPrice("2"))
    exact = asked.engine.run(asked.job).groups[0]
    assert exact.units is not None
    return dict(zip(exact.keys, (int(units) for units in np.asarray(exact.units)), strict=True))


@pytest.mark.parametrize("sql", QUESTIONS)
def test_whatever_was_found_one_person_moves_as_many_keys_as_before(databases: list[Database], sql: str) -> None:
    whole, *others = databases
    first = _first_counts(whole, sql)
    keys = sorted(first)
    for size in (0, 1, 2, len(keys)):
        for found in list(combinations(keys, size))[:8]:
            stage, counts = _later_counts(whole, sql, found)
            assert not {key for key in found if all(str(part).isprintable() for part in key)} & set(counts)
            assert all(counts.get(key, 0) >= first[key] for key in keys if key not in found)  # nobody leaves a key
            for other in others:
                theirs = _later_counts(other, sql, found)[1]
                moved = [abs(counts.get(key, 0) - theirs.get(key, 0)) for key in {*counts, *theirs}]
                assert max(moved, default=0) <= 1
                assert sum(moved) <= stage.groups[0].group.contribution.groups


def test_people_are_counted_in_keys_that_were_not_found(databases: list[Database]) -> None:
    first = _first_counts(databases[0], QUESTIONS[0])
    most = max(first, key=lambda key: first[key])
    later = _later_counts(databases[0], QUESTIONS[0], (most,))[1]
    assert sum(later.values()) > sum(first.values()) - first[most]


def test_a_long_list_of_found_keys_is_cut_and_never_refused(
    databases: list[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tuple((f"{number:>200}",) for number in range(3000))
    counts = _later_counts(databases[0], QUESTIONS[0], many)[1]
    assert counts == _first_counts(databases[0], QUESTIONS[0])
    monkeypatch.setattr(key_rounds, "MAX_LEFT_OUT_CHARS", 1)
    assert _later_counts(databases[0], QUESTIONS[0], (("z",),))[1] == counts


def _crowd() -> list[tuple[int, str | None, int | None]]:
    """Return 1,000 people who all have ten common words, and each of them ten of 140 others."""
    rng = np.random.default_rng(3)
    common = [(person, f"common {word}", 0) for person in range(1000) for word in range(10)]
    others = [(p, f"rare {word}", 0) for p in range(1000) for word in rng.choice(140, 10, replace=False)]
    return [*common, *others]


def test_two_rounds_find_keys_that_one_round_misses_and_the_answer_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = QUESTIONS[0]
    with _open(tmp_path / "rounds", _crowd(), **MANY) as db:
        plan = db.prepare(sql, None, RequestedPrice("1")).plan
        assert isinstance(plan.groups[0].selection, KeyRounds)
        first, second = db.statements(sql, epsilon="1")
        assert "without the keys that were found" in second.purpose
        assert first.sql != second.sql
        shown = db.ask(sql, epsilon="1")
        found = [row["word"] for row in shown.rows()]
        assert found == sorted(set(found))
        assert len(found) >= 120  # of 150: fewer have a chance below 10⁻⁹
        again = db.ask(sql, epsilon="1")
        assert (again.rows(), again.repeated, again.loss) == (shown.rows(), True, shown.loss)
    with _open(tmp_path / "once", _crowd(), **MANY) as db:
        monkeypatch.setattr(renyi_keys, "_in_rounds", lambda noise: None)
        before = db.ask(sql, epsilon="1")  # as it was answered before there were rounds
        assert len(before.rows()) < 100
        monkeypatch.undo()
        spent, kept = db.budget().used, db.ask(sql, epsilon="1")
        assert (kept.rows(), kept.repeated) == (before.rows(), True)
        assert db.budget().used == spent


def test_a_workload_and_a_value_that_is_measured_first_have_rounds_too(tmp_path: Path) -> None:
    texts = [QUESTIONS[0], "SELECT COUNT(*) AS n FROM said"]
    first = "SELECT DISTINCT word FROM said WHERE topic < (SELECT COUNT(*) FROM said)"
    with _open(tmp_path / "both", _crowd(), **MANY) as db:
        words, _ = db.ask_all(texts, epsilon="4")
        assert len(words.rows()) >= 120
        plan = db.prepare(first, None, RequestedPrice("4")).plan
        assert any(isinstance(group.selection, KeyRounds) for group in plan.groups)
        assert len(db.ask(first, epsilon="4").rows()) >= 120


def test_a_database_without_rows_for_others_has_one_round(tmp_path: Path) -> None:
    with _open(tmp_path / "few", _rows(), rows_per_unit=GROUPS) as db:
        plan = db.prepare(QUESTIONS[0], None, RequestedPrice("2")).plan
        assert not isinstance(plan.groups[0].selection, KeyRounds)
