"""What caps and bounds cut off is measured once per snapshot, paid by the dataset, and told with every answer."""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refusing

import sfumato
from sfumato.database import Database
from sfumato.dataset import TRUNCATION_HISTORY_TEXT
from sfumato.errors import BudgetExhausted
from sfumato.ledger.ledger import Entry
from sfumato.opening import open_without_charge, refreshed
from sfumato.planning.bounding.truncation import (
    CUT,
    CUT_PEOPLE,
    MOVED,
    ROWS,
    TruncationBlock,
    blocks,
    plan_truncation_release,
)
from sfumato.release.receipt import receipt_from_json, receipt_to_json
from sfumato.release.rendering.documents import release_document
from sfumato.server.remote_json import answer_document, answer_of

COUNT = "SELECT COUNT(*) AS n FROM visits"


def _policy(folder: Path, **budget: object) -> dict[str, Any]:
    if not (folder / "data").exists():
        (folder / "data").mkdir()
        rows = [f"{who},{'er' if visit % 2 else 'icu'},{visit * 7}" for who in range(40) for visit in range(who % 5)]
        (folder / "data" / "visits.csv").write_text("\n".join(["who,dept,cost", *rows]), encoding="utf-8")
        (folder / "data" / "votes.csv").write_text("choice\n1\n2\n", encoding="utf-8")
        (folder / "data" / "wards.csv").write_text("dept,ward\ner,a\ner,b\nicu,c\n", encoding="utf-8")
    return {
        "name": "clinic",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 10, "delta": 0, "truncation": "1/2", **budget},
        "analysts": {"press": {"epsilon": 1}},
        "tables": {
            "visits": {
                "unit": "who",
                "rows_per_unit": 2,
                "columns": {
                    "who": {"type": "integer"},
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "cost": {"type": "integer", "bounds": [0, 20]},
                },
            },
            "votes": {"unit": "rows", "columns": {"choice": {"type": "integer"}}},
            "wards": {"public": True},
        },
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open one clinic for the questions that only look."""
    with sfumato.open(_policy(tmp_path_factory.mktemp("shared"))) as database:
        yield database


def _charged(database: Database) -> list[Entry]:
    return [entry for entry in database.payer.ledger.history() if entry.sql == TRUNCATION_HISTORY_TEXT]


def test_it_is_charged_once_per_snapshot_to_the_dataset_and_never_to_an_analyst(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path)) as database:
        [entry] = _charged(database)  # before anybody asks
        assert (entry.account, entry.state, entry.loss.epsilon) == ("", "settled", Fraction(1, 2))
        assert re.search(r"left out about [\d,]+ \(±[\d,]+\) of `n`", str(database.explain(COUNT, epsilon=1)))
        press = database.as_analyst("press")
        first = press.ask(COUNT, epsilon="0.5")
        database.ask("SELECT SUM(cost) AS s FROM visits", epsilon="0.5")
        assert len(_charged(database)) == 1
        assert press.budget().spent.epsilon == Fraction(1, 2)
        assert database.budget().spent.epsilon == Fraction(3, 2)
        database.refresh()
        assert len(_charged(database)) == 2
        again = press.ask(COUNT, epsilon="0.5")
        assert len(_charged(database)) == 2
        assert first.intervals(bias=True) != again.intervals(bias=True)
        press.close()
    with sfumato.open(_policy(tmp_path)), refreshed(_policy(tmp_path)) as database:
        assert len(_charged(database)) == 3


@pytest.mark.parametrize(
    ("sql", "is_limit"),
    [
        (COUNT, False),
        ("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", False),
        ("SELECT COUNT(*) AS n FROM visits WHERE dept = 'er'", True),
        ("SELECT COUNT(*) FILTER (WHERE dept = 'er') AS n FROM visits", True),
        ("SELECT dept, COUNT(DISTINCT who) AS n FROM visits GROUP BY dept", True),
        ("SELECT COUNT(DISTINCT who) AS n FROM visits WHERE dept = 'er'", True),
    ],
)
def test_what_the_whole_table_lost_is_told_as_a_limit_of_its_parts(shared: Database, sql: str, is_limit: bool) -> None:
    """The people of a department do not lack everybody who lost a row anywhere: "about 2,100" was told of 3,169."""
    release = shared.ask(sql, epsilon="0.3")
    for notes in (release.notes, shared.explain(sql, epsilon="0.3").notes):
        (told,) = [note for note in notes if note.startswith("Bounds and clipping")]
        assert ("at most about" in told) == is_limit
        assert not (is_limit and "%" in told)


def test_the_same_bounds_come_with_kept_and_reopened_answers_and_over_the_wire(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path)) as database:
        release = database.ask(COUNT, epsilon="0.5")
    with sfumato.open(_policy(tmp_path)) as database:
        kept, reopened = database.ask(COUNT, epsilon="0.5"), database.reopen(release.receipt.id)
        for other in (kept, reopened):
            assert other.intervals(bias=True) == release.intervals(bias=True)
            assert other.notes == release.notes
        assert len(_charged(database)) == 1
    travelled = answer_of(answer_document(release), lambda level: answer_document(release, level))
    for level in ("0.95", "0.8"):
        assert travelled.intervals(level, bias=True) == release.intervals(level, bias=True)
    assert travelled.cut == release.cut
    assert release_document(release)["biased"] != release_document(release)["intervals"]
    assert travelled.marks() == release.marks() == [{"n": True}]
    assert re.search(r"(?m)^ *-?\d+ ± 12 \*$", str(release))
    [ends] = release.intervals(bias=True)
    [clamped] = release.clamped().intervals(bias=True)
    assert clamped["n"][0] == max(ends["n"][0], 0)


def test_a_budget_that_is_too_small_leaves_it_unknown_and_refuses_nobody(tmp_path: Path) -> None:
    policy = _policy(tmp_path, epsilon=1, truncation=1)
    with open_without_charge(policy) as database:
        release = database.ask(COUNT, epsilon="0.5")
    with sfumato.open(policy) as database:
        assert database.ask(COUNT, epsilon="0.5").rows() == release.rows()
        assert not _charged(database)
        assert release.intervals(bias=True) == [{"n": (None, None)}]
        with pytest.raises(BudgetExhausted):
            database.ask("SELECT COUNT(*) AS n FROM visits WHERE cost > 3", epsilon=1)


def test_a_copy_from_before_the_policy_spent_on_it_is_not_measured_until_it_is_taken_again(tmp_path: Path) -> None:
    old = _policy(tmp_path)
    del old["budget"]["truncation"]
    with sfumato.open(old) as database:
        release = database.ask(COUNT, epsilon="0.5")
        assert release.intervals(bias=True) == [{"n": (None, None)}]
        assert release.cut == ()
    with sfumato.open(_policy(tmp_path)) as database:
        assert database.ask(COUNT, epsilon="0.25").intervals(bias=True) == [{"n": (None, None)}]
        database.refresh()
        assert None not in database.ask(COUNT, epsilon="0.25").intervals(bias=True)[0]["n"]


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        ("SELECT COUNT(*) AS x FROM visits", (True, True)),
        ("SELECT COUNT(cost) AS x FROM visits WHERE cost < 5", (True, True)),
        ("SELECT SUM(3 * cost - 1) AS x FROM visits", (True, True)),
        ("SELECT SUM(cost) AS x FROM visits WHERE cost > 5", (True, True)),
        ("SELECT SUM(CASE WHEN cost < 9 THEN cost END) AS x FROM visits WHERE cost BETWEEN 3 AND 17", (True, True)),
        ("SELECT SUM(x) AS x FROM (SELECT cost + 1 AS x FROM visits WHERE dept = 'er') AS t", (True, True)),
        ("SELECT COUNT(*) AS x FROM visits JOIN wards ON visits.dept = wards.dept", (True, True)),
        (
            "SELECT COUNT(*) AS x FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) AS t WHERE n > 1",
            (True, True),
        ),
        ("SELECT SUM(n) AS x FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) AS t", (True, True)),
        ("SELECT SUM(cost * cost) AS x FROM visits", (False, False)),
        ("SELECT VARIANCE(cost) AS x FROM visits", (False, False)),
        ("SELECT SUM(DISTINCT cost) AS x FROM visits", (False, False)),
        ("SELECT SUM(n) AS x FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) AS t", (False, False)),
        ("SELECT COUNT(*) AS x FROM visits a JOIN visits b ON a.who = b.who", (False, False)),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 1) COUNT(*) AS x FROM visits", (True, False)),
    ],
)
def test_what_no_bound_is_known_for_has_open_sides(shared: Database, sql: str, known: tuple[bool, bool]) -> None:
    [row] = shared.ask(sql, epsilon="0.5").intervals(bias=True)
    assert tuple(end is not None for end in row["x"]) == known


@pytest.mark.parametrize(
    "asked",
    [
        "COUNT(*) AS x FROM visits",
        "COUNT(*) AS x FROM visits WHERE cost > 20",
        "SUM(cost) AS x FROM visits WHERE cost + 1 > 0",  # asked nowhere else
        "SUM(3 - 2 * cost) AS x, SUM(cost) AS y, AVG(cost) AS z FROM visits",
        "SUM(CASE WHEN cost > 20 THEN 1 ELSE -cost END) AS x FROM visits JOIN wards ON visits.dept = wards.dept",
        "dept, SUM(cost) AS x, COUNT(*) AS y FROM visits GROUP BY dept",
    ],
)
def test_a_quote_and_its_answer_say_the_same_of_what_is_cut_off(shared: Database, asked: str) -> None:
    told = [
        [
            re.sub(r", [\d.e+-]+ % \(±[\d.e+-]+ points\)", "", note)
            for note in notes
            if "bounds and clip" in note.lower()
        ]
        for notes in (
            shared.explain(f"SELECT {asked}", epsilon="0.1").notes,
            shared.ask(f"SELECT {asked}", epsilon="0.1").notes,
        )
    ]
    assert told[0] == told[1]
    assert any("`x`" in note for note in told[0])


def test_where_nothing_can_be_cut_nothing_is_said_and_the_intervals_are_the_same(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path)) as database:
        for sql in ("SELECT COUNT(*) AS n FROM votes", "SELECT COUNT(DISTINCT who) AS n FROM visits"):
            release = database.ask(sql, epsilon="0.5")
            assert release.intervals("0.9") == release.intervals("0.9", bias=True)
            assert [note for note in release.notes if "can be told from 0" not in note] == []
        exact = database.ask("SELECT COUNT(*) AS n FROM wards")
        assert exact.intervals(bias=True) == [{"n": (3, 3)}]


def test_no_question_can_name_the_table_of_losses(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path)) as database:
        assert not [name for name in database.catalog.tables if name.endswith(CUT)]
        with refusing() as refused:
            database.ask(f'SELECT COUNT(*) FROM "visits{CUT}"', epsilon=1)  # noqa: S608
        assert refused.value.code == "unknown_name"


def test_a_receipt_names_whom_every_table_protects(shared: Database) -> None:
    for sql, units in (
        ("SELECT COUNT(*) AS n FROM visits JOIN wards ON visits.dept = wards.dept", "visits: each who"),
        ("SELECT COUNT(*) AS n FROM votes", "votes: each row"),
        ("SELECT COUNT(*) AS n FROM wards", ""),
    ):
        release = shared.ask(sql, epsilon="0.1") if units else shared.ask(sql)
        assert release.receipt.units == units
        assert receipt_from_json(receipt_to_json(release.receipt)) == release.receipt


def test_what_is_measured_of_losses_is_what_the_proof_says_whichever_way_is_taken(tmp_path: Path) -> None:
    """Against the definition: each person has so many rows of one cost, so that it does not matter which are kept."""
    had = {who: (who % 7, 5 * (who % 11)) for who in range(40)} | {99: (900, 3), 98: (1, 10**6)}
    policy = _policy(tmp_path)
    rows = [f"{who},er,{cost}" for who, (number, cost) in had.items() for _ in range(number)]
    (tmp_path / "data" / "visits.csv").write_text("\n".join(["who,dept,cost", *rows]), encoding="utf-8")
    with sfumato.open(policy) as database:
        plan = plan_truncation_release(database.policy)
        assert plan is not None
        exact = database.engine.run(database.engine.prepare(plan))
        for block, group, aggregates in zip(blocks(database.policy), plan.groups, exact.groups, strict=True):
            expected: Counter[str] = Counter()
            for number, cost in had.values():
                removed = max(number - 2, 0)
                expected += _added_by(block, removed, min(number, 2), cost)
            found = {one.name: int(aggregates.columns[one.name][0]) for one in group.measured}
            assert found == {name: expected[name] for name in found}


def _added_by(block: TruncationBlock, removed: int, kept: int, cost: int) -> Counter[str]:
    lost = {
        ROWS: [removed],
        MOVED: [kept * (cost > 20)],
        "cost": [cost * removed + max(cost - 20, 0) * kept, 0],
    }
    had = [(sum(lost[one.column]) + one.max_contribution, one.bucket_edges) for one in block.tailed]
    buckets = [sum(end <= amount for end in ends) - 1 for amount, ends in had]
    if block.strategy is None:
        rows, number = (bucket >= 0 for bucket in buckets)
        return Counter(["both" if rows and number else "rows" if rows else "numbers"] if rows or number else [])
    if max(buckets, default=-1) >= 0:
        return Counter([f"h{max(buckets)}"])
    parts = [amount for one in block.statistics for amount in lost[one.column]]
    counted = {CUT_PEOPLE: 1} if removed and ROWS in [one.column for one in block.tailed] else {}
    return Counter({f"s{place}": amount for place, amount in enumerate(parts)} | counted)


@pytest.mark.parametrize(
    ("condition", "alike"),
    [
        ("cost > 3 AND cost < 20", True),
        ("cost >= 1 OR NOT cost <= 19", True),
        ("cost BETWEEN 1 AND 19", True),
        ("cost = 5 OR cost IN (1, 19)", True),
        ("cost <> 7", True),
        ("cost IS NULL", True),
        ("cost >= 0", True),  # -1 is none of them, and is compared as what lies outside
        ("cost <= 20", True),
        ("cost > 20", True),
        ("cost = 20", True),
        ("cost IN (0, 5)", True),
        ("cost + 1 > 5", False),  # not looked into
        ("cost > 3 AND cost % 2 = 0", False),
    ],
)
def test_conditions_that_bounds_cannot_change_mistake_no_row(shared: Database, condition: str, alike: bool) -> None:
    """A count has too much only where a row that was moved to its bounds could be mistaken."""
    release = shared.ask(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon="0.01")  # noqa: S608
    cut = release.truncation_of("n")
    assert cut is not None
    assert (cut[0] == 0) == alike
