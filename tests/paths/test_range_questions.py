"""Counts and sums under overlapping ranges: measured as pieces between the ends of all of them where that errs less."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from tests.sources import HashSource

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning import workload_plans
from sfumato.prepare import Prepared, RequestedPrice
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import make_release

CELLS = 300
_random = Random(11)
RANGES = [tuple(sorted((_random.randrange(CELLS), _random.randrange(CELLS)))) for _ in range(40)]
COUNTS = [f"SELECT COUNT(*) AS n FROM visits WHERE x BETWEEN {low} AND {high}" for low, high in RANGES]  # noqa: S608
ROWS = [(who // 2, who * who % (CELLS + 9) - 4, who % 11, "fm"[who % 3 == 0]) for who in range(3000)]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("ranges")
    lines = [",".join(map(str, row)) for row in ROWS]
    (folder / "visits.csv").write_text("who,x,cost,sex\n" + "\n".join(lines) + "\n,,3,f\n", encoding="utf-8")
    columns = {
        "who": {"type": "integer"},
        "x": {"type": "integer", "bounds": [0, CELLS - 1]},
        "cost": {"type": "integer", "bounds": [0, 10]},
        "sex": {"type": "text", "values": ["f", "m"]},
    }
    policy: dict[str, object] = {
        "name": "ranges",
        "source": f"csv:{folder}/visits.csv",
        "ledger": f"sqlite:{folder}/ledger",
        "budget": {"epsilon": 10**6, "delta": "1e-6"},
        "tables": {"visits": {"unit": "who", "rows_per_unit": 2, "columns": columns}},
    }
    with sfumato.open(policy) as found:
        yield found


def _together(database: sfumato.Database, texts: list[str], price: object) -> Prepared:
    preparer = database._preparation
    return preparer.prepare_workload(
        preparer.analyse_all(texts, database.engine), RequestedPrice(price), None, database.engine
    )


def _in_pieces(asked: Prepared) -> bool:
    return any(key.name == "piece" for group in asked.plan.groups for key in group.group.keys)


def test_many_ranges_are_far_more_exact_together(database: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _together(database, COUNTS, "1")
    assert _in_pieces(asked)
    assert asked.plan.loss.epsilon == 1
    with monkeypatch.context() as before:
        before.setattr(workload_plans, "range_questions", lambda _: None)
        apart = _together(database, COUNTS, "1").plan
    margins = [one.mechanism.margin(Fraction(95, 100)) for group in apart.groups for one in group.measured]
    found = database.ask_all(COUNTS, epsilon="1")
    bars = [release.intervals(bias=False)[0]["n"] for release in found]
    assert sum(high - low for low, high in bars) < 0.5 * 2 * sum(margins)
    assert {one.loss.epsilon for one in found} == {1}
    again = database.ask_all(COUNTS, epsilon="1")
    assert [one.rows() for one in again] == [one.rows() for one in found]
    (entry, *_) = database.history()
    assert database.reopen(entry.receipt, question=3).intervals() == found[2].intervals()


def test_without_noise_each_range_has_its_rows_also_beyond_the_bounds(database: sfumato.Database) -> None:
    conditions: dict[str, Callable[[int], bool]] = {
        "x < 20": lambda x: x < 20,
        "x >= 280": lambda x: x >= 280,
        "x BETWEEN 5 AND 100": lambda x: 5 <= x <= 100,
        "x = 7": lambda x: x == 7,
        "100 > x": lambda x: x < 100,
        **{f"x <= {most}": lambda x, most=most: x <= most for most in range(30, 60)},  # type: ignore[misc]
    }
    texts = [f"SELECT COUNT(*) AS n, SUM(cost) AS c FROM visits WHERE {one} AND sex = 'f'" for one in conditions]  # noqa: S608
    asked = _together(database, texts, 10**5)
    assert _in_pieces(asked)
    exact = database.engine.run(asked.job)
    noisy = publish(asked.plan, exact, HashSource("exact"))
    for plan, text, condition in zip(asked.outcomes, texts, conditions.values(), strict=True):
        (row,) = make_release(plan, noisy, Receipt("r", "p", "v", plan.loss), evaluate).rows()
        own = [cost for _, x, cost, sex in ROWS if sex == "f" and condition(x)]
        assert (row["n"], row["c"]) == (len(own), sum(own)), text


@pytest.mark.parametrize(
    "texts",
    [
        COUNTS[:3],
        [*COUNTS, "SELECT COUNT(*) AS n FROM visits"],
        [*COUNTS, "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE x < 20"],
        [*COUNTS, "SELECT AVG(cost) AS n FROM visits WHERE x < 20"],
        [*COUNTS, "SELECT COUNT(*) AS n FROM visits WHERE x < 20 AND sex = 'f'"],
        [*COUNTS, "SELECT COUNT(*) AS n FROM visits WHERE cost < 5"],
        [*COUNTS, "SELECT SUM(x) AS n FROM visits WHERE x < 20"],
        [*COUNTS, "SELECT COUNT(*) AS n FROM visits WHERE x < 20 AND x < cost"],
        [*COUNTS, "SELECT sex, COUNT(*) AS n FROM visits WHERE x < 20 GROUP BY sex"],
    ],
    ids=["few", "no range", "people", "average", "other rows", "other column", "of itself", "compared", "grouped"],
)
def test_everything_else_is_measured_as_before(database: sfumato.Database, texts: list[str]) -> None:
    assert not _in_pieces(_together(database, texts, "1"))


def test_one_question_with_many_ranges_is_more_exact_for_the_same_share(database: sfumato.Database) -> None:
    columns = (f"COUNT(*) FILTER (WHERE x BETWEEN {low} AND {high}) AS n{at}" for at, (low, high) in enumerate(RANGES))
    asked = database.prepare(f"SELECT {', '.join(columns)} FROM visits", None, RequestedPrice(share="0.001%"))  # noqa: S608
    assert _in_pieces(asked)


def test_intervals_of_ranges_hold(database: sfumato.Database) -> None:
    """40 bars at 90 % in each of 4 draws, which depend on each other within a draw: about 16 of 160 miss."""
    asked = _together(database, COUNTS, "1")
    exact, missed = database.engine.run(asked.job), 0
    for draw in range(4):
        noisy = publish(asked.plan, exact, HashSource(f"ranges {draw}"))
        for plan, (first, last) in zip(asked.outcomes, RANGES, strict=True):
            release = make_release(plan, noisy, Receipt("r", "p", "v", plan.loss), evaluate)
            low, high = release.intervals(Fraction(9, 10))[0]["n"]
            missed += not low <= sum(first <= row[1] <= last for row in ROWS) <= high
    assert 0 < missed <= 40
