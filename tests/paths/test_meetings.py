"""Rows of different people meet where the text says so: counted exactly, with bars that hold, and refused otherwise.

The bits of the noise are fixed. Bars that hold with exactly 95 % would fall below 91 % of 200 with probability 0.01.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.paths.test_sensitivity import Opened, _shared
from tests.paths.worlds import a_world, policy, write
from tests.refusals import refusing
from tests.sources import HashSource

import sfumato
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import Refusal, UnreachableMargin
from sfumato.mechanisms.meetings import Meetings
from sfumato.planning.aggregates.cross_unit_count import CrossUnitCountColumn
from sfumato.policy.reading import read_policy
from sfumato.prepare import RequestedPrice
from sfumato.release.publish import publish
from sfumato.release.release import make_release
from sfumato.terminal.tuning import tune

APART = "a.patient_id <> b.patient_id"
PAIRS = (
    "a.dept = b.dept",
    "a.city = b.city",
    "a.cost = b.cost AND a.urgent = b.urgent",
    "a.score = b.score",
    "a.age = b.age AND b.urgent AND a.dept IN ('er', 'icu')",
    "a.age = b.age AND a.age = 7",
    "a.age = b.age AND a.age = b.score",
    "a.day = b.day AND a.seen = b.seen",
)
"""They read the same over the copy, where NULL, no number and infinity are absent, and meet nothing."""

_BOUNDS = {
    "age": (0, 20),
    "cost": (-10, 20),
    "day": (19_723, 20_088),
    "seen": (1_704_067_200_000_000, 1_735_603_200_000_000),
}
_KEYS = ", ".join(
    f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} END AS {name}" for name, (low, high) in _BOUNDS.items()
)
INSIDE = f"(SELECT * REPLACE ({_KEYS}) FROM visits)"  # noqa: S608
"""As keys, values outside their bounds meet nothing."""


class Listed(Opened):
    """A clinic in which nobody is cut, and the pairs of its copy, listed one by one."""

    def __init__(self, folder: Path) -> None:
        write(folder, a_world(5, people=7))
        self.policy = read_policy(policy(folder, visits={"rows_per_unit": 9}))
        registered = register(self.policy, lambda phase, table: None)
        with duckdb.connect(str(registered.path), read_only=True) as copy:
            self.pairs = {
                condition: self._count(copy, f"FROM {INSIDE} a, {INSIDE} b WHERE {APART} AND {condition}")
                for condition in PAIRS
            }
            self.triples = self._count(
                copy,
                f"FROM visits a, visits b, visits c WHERE {APART} AND a.patient_id <> c.patient_id AND "
                "b.patient_id <> c.patient_id AND a.dept = b.dept AND b.dept = c.dept AND a.urgent = c.urgent "
                "AND a.urgent = b.urgent",
            )
        self.engine = DuckDB(self.policy, registered, Limits(threads=1))

    def _count(self, copy: duckdb.DuckDBPyConnection, rows: str) -> int:
        return int(copy.execute(f"SELECT COUNT(*) {rows}").fetchall()[0][0])

    def met(self, sql: str) -> list[int]:
        """The exact meetings of a question, cell by cell."""
        ((plan, found),) = self.aggregates(sql)
        (chosen,) = plan.chosen
        assert isinstance(chosen.mechanism, Meetings)
        cells = [_shared(found, chosen.name).for_cell(place) for place in range(len(found.keys))]
        return chosen.mechanism.meetings(cells, max(2, chosen.mechanism.max_key_frequency(cells)))


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listed]:
    opened = Listed(tmp_path_factory.mktemp("listed"))
    yield opened
    opened.engine.close()


def test_pairs_and_triples_are_those_of_a_list(clinic: Listed) -> None:
    for condition, pairs in clinic.pairs.items():
        sql = f"SELECT COUNT(*) FROM visits a JOIN visits b ON {APART} AND {condition}"  # noqa: S608
        assert clinic.met(sql) == [pairs], condition
    assert all(clinic.pairs[listed] for listed in (*PAIRS[:2], PAIRS[3]))
    both = "a.dept = b.dept AND b.dept = c.dept AND a.urgent = c.urgent AND b.urgent = a.urgent"
    apart = f"{APART} AND NOT a.patient_id = c.patient_id AND b.patient_id IS DISTINCT FROM c.patient_id"
    triples = f"FROM visits a, visits b, visits c WHERE {both} AND {apart}"
    assert clinic.met(f"SELECT COUNT(*) {triples}") == [clinic.triples]
    assert clinic.triples
    assert sum(clinic.met(f"SELECT b.dept, COUNT(*) {triples} GROUP BY b.dept")) == clinic.triples


def test_rows_of_the_same_person_are_joined_before_they_meet_others(clinic: Listed) -> None:
    """A person's patients row is theirs: it chooses their visits, and meets nobody else's."""
    own = "FROM visits a JOIN patients p ON a.patient_id = p.patient_id JOIN visits b ON a.dept = b.dept"
    (joined,) = clinic.met(f"SELECT COUNT(*) {own} AND a.patient_id <> b.patient_id")
    assert 0 < joined <= clinic.pairs["a.dept = b.dept"]


@pytest.mark.parametrize(
    ("select", "rest", "code"),
    [
        ("SUM(a.cost)", f"a.dept = b.dept AND {APART}", "unsafe_join"),
        ("COUNT(DISTINCT a.patient_id)", f"a.dept = b.dept AND {APART}", "unsafe_join"),
        ("COUNT(*) FILTER (WHERE a.urgent)", f"a.dept = b.dept AND {APART}", "unsafe_join"),
        ("COUNT(*)", f"a.age < b.age AND {APART}", "unsafe_join"),
        ("COUNT(*)", f"a.dept = b.dept AND a.age + b.age = 7 AND {APART}", "unsafe_join"),
        ("COUNT(*)", APART, "unsafe_join"),
        ("COUNT(*)", "a.dept = b.dept AND a.patient_id <= b.patient_id", "unit_revealed"),
        ("COUNT(*)", "a.dept = b.dept AND a.patient_id < b.patient_id AND a.urgent", "unsafe_join"),
        ("COUNT(*)", "a.age = b.score AND a.patient_id < b.patient_id", "unsafe_join"),
        ("COUNT(*)", "a.dept = b.dept AND a.patient_id < b.patient_id AND b.patient_id < a.patient_id", "unsafe_join"),
        ("COUNT(*)", f"a.dept = b.dept AND ({APART} OR a.urgent)", "unit_revealed"),
        ("COUNT(*)", f"a.weight = b.weight AND {APART}", "unsafe_join"),
        ("COUNT(*)", f"a.dept = b.dept AND {APART} GROUP BY a.city", "unsafe_join"),
        ("COUNT(*)", f"a.city = b.city AND {APART} GROUP BY a.city", "unsafe_join"),
        ("COUNT(*)", f"a.dept = b.dept AND {APART} GROUP BY a.patient_id", "unsafe_join"),
        ("COUNT(*)", f"a.dept = b.dept AND b.patient_id <> b.patient_id AND {APART}", "unsafe_join"),
        ("a.age", f"a.dept = b.dept AND {APART}", "unit_revealed"),
    ],
)
def test_what_has_no_proof_is_refused_from_the_text(clinic: Listed, select: str, rest: str, code: str) -> None:
    with refusing() as refused:
        clinic.plan(f"SELECT {select} FROM visits a JOIN visits b ON {rest}")  # noqa: S608
    assert refused.value.code == code


def test_names_in_order_count_the_same_people_once(clinic: Listed) -> None:
    """The order of opaque ids means nothing, but of two people who meet one comes first."""
    pair = "FROM visits a JOIN visits b ON a.dept = b.dept AND a.patient_id < b.patient_id"
    three = "FROM visits a, visits b, visits c WHERE a.dept = b.dept AND b.dept = c.dept AND a.patient_id > "
    three += "b.patient_id AND b.patient_id > c.patient_id"
    for rows, times in ((pair, 2), (three, 6), (pair + " AND a.age > 3 AND b.age > 3 AND a.urgent = b.urgent", 2)):
        (group,) = clinic.plan(f"SELECT COUNT(*) {rows}").groups
        (made,) = group.derived
        assert isinstance(made, CrossUnitCountColumn)
        assert made.times == times
    assert clinic.met(f"SELECT COUNT(*) {pair}") == [clinic.pairs["a.dept = b.dept"]]


def test_three_people_have_to_be_three(clinic: Listed) -> None:
    joined = "FROM visits a JOIN visits b ON a.dept = b.dept JOIN visits c ON b.dept = c.dept"
    for said in (APART, f"{APART} AND b.patient_id <> c.patient_id"):
        with pytest.raises(Refusal, match="not every two of them"):
            clinic.plan(f"SELECT COUNT(*) {joined} WHERE {said}")
    with pytest.raises(Refusal, match="same columns"):
        clinic.plan(
            "SELECT COUNT(*) FROM visits a, visits b, visits c WHERE a.dept = b.dept AND b.city = c.city AND "  # noqa: S608
            f"{APART} AND b.patient_id <> c.patient_id AND a.patient_id <> c.patient_id"
        )


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder = tmp_path_factory.mktemp("hospital")
    (folder / "data").mkdir()
    rows = [f"{i // 2},{(i * 7 + i // 9) % 12},{('er', 'icu')[i % 2]}" for i in range(800)]
    (folder / "data" / "visits.csv").write_text("\n".join(["patient,day,dept", *rows]), encoding="utf-8")
    columns = {
        "patient": {"type": "integer"},
        "day": {"type": "integer", "bounds": [0, 11]},
        "dept": {"type": "text", "values": ["er", "icu"]},
    }
    opened = sfumato.open(
        {
            "name": "hospital",
            "source": f"csv:{folder}/data",
            "ledger": f"sqlite:{folder}/ledger",
            "budget": {"epsilon": 100, "delta": 0},
            "tables": {"visits": {"unit": "patient", "rows_per_unit": 2, "columns": columns}},
        }
    )
    yield opened
    opened.close()


MET = "FROM visits a JOIN visits b ON a.dept = b.dept AND a.day = b.day AND a.patient <> b.patient"


def test_bars_hold_at_their_level(hospital: sfumato.Database) -> None:
    asked = hospital.prepare(f"SELECT COUNT(*) AS n {MET}", None, RequestedPrice("1"))
    aggregates = asked.engine.run(asked.job)
    (held,) = aggregates.groups[0].held
    mechanism = asked.plan.groups[0].chosen[0].mechanism
    assert isinstance(mechanism, Meetings)
    (truth,) = mechanism.meetings([_shared(aggregates.groups[0], held).for_cell(0)], 10**6)
    receipt = hospital.ask(f"SELECT COUNT(*) AS n {MET}", epsilon="1").receipt
    misses = {"0.95": 0, "0.8": 0}
    halved = hospital.prepare(f"SELECT COUNT(*) AS n {MET.replace('<>', '<')}", None, RequestedPrice("1")).plan
    noisy = publish(halved, aggregates, HashSource(b"halved"))
    release = make_release(halved, noisy, receipt, evaluate)
    (half,), ((low, high),) = ([row["n"] for row in rows] for rows in (release.rows(), release.intervals()))
    assert low <= half <= high
    assert low <= truth // 2 <= high
    assert abs(half - truth // 2) < truth // 4
    for seed in range(200):
        noisy = publish(asked.plan, aggregates, HashSource(b"met%d" % seed))
        release = make_release(asked.plan, noisy, receipt, evaluate)
        for level in misses:
            ((low, high),) = (row["n"] for row in release.intervals(level))
            misses[level] += not low <= truth <= high
    assert misses["0.95"] <= 18
    assert 15 <= misses["0.8"] <= 58


def test_price_is_known_before_and_the_margin_with_the_answer(hospital: sfumato.Database) -> None:
    sql = f"SELECT a.dept, COUNT(*) / 2 AS n {MET} GROUP BY a.dept ORDER BY a.dept"
    quote = hospital.explain(sql, epsilon="1")
    assert str(quote.loss) == "ε = 1, δ = 0"
    assert quote.margins["n"] is None
    assert any("joins rows of different people" in note for note in quote.notes)
    with pytest.raises(UnreachableMargin):
        hospital.explain(sql, within={"n": 5})
    release = hospital.ask(sql, epsilon="1")
    assert [row["dept"] for row in release.rows()] == ["er", "icu"]
    assert all(row["n"][0] is not None and row["n"][1] is not None for row in release.intervals())
    assert all(row["n"][1] is None for row in release.intervals("0.999"))
    before = hospital.budget().spent.epsilon
    assert hospital.ask(sql, epsilon="1").rows() == release.rows()
    assert hospital.reopen(release.receipt.id).intervals() == release.intervals()
    assert hospital.budget().spent.epsilon == before
    json.dumps(release.rows())


def test_a_share_and_a_workload_may_hold_them(hospital: sfumato.Database) -> None:
    pairs = f"SELECT COUNT(*) AS n {MET}"
    assert hospital.ask(pairs, share="2%").loss.epsilon <= 2
    counted, met = hospital.ask_all(["SELECT COUNT(*) AS n FROM visits", pairs], epsilon="2")
    assert abs(counted.rows()[0]["n"] - 800) < 100
    assert met.rows()[0]["n"] > 0


def test_caps_are_tuned_for_meetings_and_refused_for_medians(hospital: sfumato.Database) -> None:
    (tried,) = tune(hospital, [f"SELECT COUNT(*) {MET}"], "1").questions
    assert 0 < tried.now < 1
    with pytest.raises(Refusal, match="not tuned"):
        tune(hospital, ["SELECT MEDIAN(day) FROM visits"], "1")
