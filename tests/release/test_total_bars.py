"""After the charge nothing raises: whatever is divided by whatever, and whatever is made of the quotient.

A bar that cannot be computed is open and warns of a bug, which is an error here. Intervals with what bounds removed lie
around those without it.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world, policy, write
from tests.release.bars_clinic import Ends, is_around, losses_known, opened, released

import sfumato
from sfumato.errors import EngineFailed, Refusal
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.planning.bounding.truncation import TruncationBounds
from sfumato.query.types import Type
from sfumato.release.intervals import confidence
from sfumato.release.intervals.extension import boxed
from sfumato.release.intervals.forms import Exact
from sfumato.release.intervals.propagation import Layers
from sfumato.release.intervals.unforeseen import OpenBar
from sfumato.release.release import Release

OVER = ("COUNT(*)", "SUM(z)", "AVG(y)", "STDDEV(z)", "1", "x")
UNDER = (
    *("0", "2", "0.5", "x", "LENGTH(t)", "x - 1", "x * x", "SQRT(x)", "LN(x)", "MOD(x, 2)", "COUNT(*)", "SUM(z)"),
    *("AVG(z)", "COUNT(*) - SUM(y)", "MEDIAN(y)", "COUNT(*) FILTER (WHERE y > 9)", "STDDEV(y)", "CORR(y, z)"),
)
GUARDED = (
    *("{}", "NULLIF({}, 0)", "COALESCE({}, 0)", "COALESCE(NULLIF({}, 0), 1)", "CASE WHEN x > 1 THEN {} ELSE 0 END"),
    *("CASE WHEN COUNT(*) > 20 THEN {} END", "GREATEST({}, 0)", "LEAST({}, 1)", "ABS({})", "NULLIF(ABS({}), 0)"),
    *("NULLIF({}, 1)", "-({})", "NULLIF({}, x)", "NULLIF({}, COUNT(*))", "NULLIF({}, LN(COUNT(*) + 2))"),
)
DIVIDED = ("{} / {}", "MOD({}, {})", "DIV(CAST({} AS INTEGER), CAST({} AS INTEGER))")
AROUND = (
    *("ABS({})", "SIGN({})", "FLOOR({})", "CEIL({})", "ROUND({}, 1)", "TRUNC({}, 2)", "SQRT({})", "EXP({})", "LN({})"),
    *("LOG({})", "LOG2({})", "POWER({}, 2)", "POWER(2, {})", "GREATEST({}, x)", "LEAST({}, NULL)", "NULLIF({}, 0)"),
    *("COALESCE({}, x)", "CASE WHEN {} > 1 THEN 1 ELSE x END", "({}) IS NULL", "WIDTH_BUCKET({}, 0, 10, 5)"),
    *("CAST({} AS INTEGER)", "CAST({} AS VARCHAR)", "({}) BETWEEN x AND 3", "({}) IN (1, x)", "1 / ({})"),
    *("COUNT(*) / NULLIF({}, 0)", "SUM(z) + ({})", "SUM({}) OVER ()", "LAG({}) OVER (ORDER BY x, t)"),
    *("RANK() OVER (ORDER BY {})", "CASE WHEN ({}) IS DISTINCT FROM 1 THEN COUNT(*) END"),
)
AT_ONCE = 24
"""So many columns are asked for in one question."""


def quotients() -> list[str]:
    """Return every divisor in every guard once, in turn over and below everything, and then inside every function."""
    plain = [guard.format(under) for under in UNDER for guard in GUARDED]
    made = [
        DIVIDED[place % len(DIVIDED)].format(OVER[place // 2 % len(OVER)], under) for place, under in enumerate(plain)
    ]
    return made + [around.format(made[(place * 37) % len(made)]) for place, around in enumerate(AROUND * 3)]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    draw = np.random.default_rng(3)
    keys = [None if place % 17 == 0 else int(key) for place, key in enumerate(draw.integers(-1, 4, 300))]
    rows = {
        "p": np.arange(300),
        "x": pyarrow.array(keys, pyarrow.int64()),
        "t": draw.choice(["", "a", "bb"], 300),
        "y": draw.integers(0, 11, 300),
        "z": draw.normal(0, 3, 300).round(1),
    }
    columns = {
        "x": {"type": "integer", "bounds": [-1, 3]},
        "t": {"type": "text", "values": ["", "a", "bb"]},
        "y": {"type": "integer", "bounds": [0, 10]},
        "z": {"type": "decimal", "bounds": [-10, 10], "step": "0.1"},
    }
    table = {"rows_per_unit": 1, "columns": columns}
    with opened(tmp_path_factory.mktemp("total"), rows, table, truncation=1) as database:
        yield database


@pytest.fixture(scope="module")
def losses(clinic: sfumato.Database) -> TruncationBounds:
    return losses_known(clinic)


def _check(release: Release) -> None:
    for plain, biased in zip(release.intervals(), release.intervals(bias=True), strict=True):
        for name, ends in plain.items():
            if isinstance(ends, tuple):
                assert not any(isinstance(end, float) and np.isnan(end) for end in (*ends, *biased[name]))
                assert is_around(biased[name], ends), name


@pytest.mark.parametrize("place", range(-(-len(quotients()) // AT_ONCE)))
def test_whatever_is_divided_by_whatever_has_a_value_and_a_bar(
    clinic: sfumato.Database, losses: TruncationBounds, place: int
) -> None:
    asked = quotients()[place * AT_ONCE : (place + 1) * AT_ONCE]
    items = ", ".join(f"{one} AS c{at}" for at, one in enumerate(asked))
    sql = f"SELECT x, t, {items} FROM v GROUP BY x, t"  # noqa: S608
    for release in released(clinic, sql, 1, "20", losses):
        assert len(release) == 15
        _check(release)


BEYOND = (
    *("COUNT(*) * EXP(709)", "SUM(y) * EXP(690) * 1e10", "SUM(y) * -EXP(709) - 2 * EXP(709)", "SUM(y) * EXP(460)"),
    *("AVG(y) * EXP(709) + 2 * EXP(709)", "SUM(y) / EXP(-737)", "POWER(COUNT(*) * EXP(460), 2)", "AVG(y) * EXP(706)"),
    *("POWER(COUNT(*) * EXP(460), 2) - POWER(COUNT(*) * EXP(460), 2)", "COUNT(*) * EXP(709) - SUM(y) * EXP(709)"),
    *("SUM(COUNT(*) * EXP(709)) OVER ()", "SUM(COUNT(*) * EXP(460)) OVER ()", "STDDEV(COUNT(*) * EXP(460)) OVER ()"),
    *("1 / (COUNT(*) * EXP(709))", "COUNT(*) * EXP(709) / (SUM(y) * EXP(709))", "SUM(y) * EXP(368) / (x * EXP(368))"),
    *("SQRT(COUNT(*) * EXP(709))", "GREATEST(COUNT(*) * EXP(706), SUM(y) * EXP(709))", "COUNT(*) * EXP(705) + 1"),
)
"""Numbers near the largest float, 1.8e308, which is about EXP(709.8), and beyond."""


def test_numbers_beyond_all_floats_have_bars_without_a_warning(
    clinic: sfumato.Database, losses: TruncationBounds
) -> None:
    items = ", ".join(f"{one} AS c{at}" for at, one in enumerate(BEYOND))
    for release in released(clinic, f"SELECT x, t, {items} FROM v GROUP BY x, t", 1, "20", losses):  # noqa: S608
        _check(release)


@pytest.mark.parametrize("exponent", [2, 3])
def test_no_lower_end_is_infinitely_high(exponent: int) -> None:
    number = Facts(Type.DECIMAL, Kind.REAL)
    power = Scalar(Operator.POWER, (column("t", "x", number),), number, exponent)
    for sign in (1, -1):
        low, high = boxed(power, [Exact(np.array([sign * 1e200]))], 1).ends(Fraction(1, 20))  # type: ignore[union-attr]
        assert low[0] < np.inf
        assert high[0] > -np.inf
        assert low[0] <= high[0]


def test_intervals_with_what_bounds_removed_lie_around_the_others_for_every_shape(tmp_path: Path) -> None:
    write(tmp_path, a_world(3, people=6))
    checked = 0
    with sfumato.open(policy(tmp_path)) as database:
        for sql in SHAPES[::2]:
            try:
                release = database.ask(sql, epsilon=1)
            except EngineFailed:
                raise
            except Refusal:
                continue
            _check(release)
            checked += 1
    assert checked > 50


def test_a_key_selected_by_its_count_has_the_bar_given_selection_in_both(tmp_path: Path) -> None:
    """Twenty people a town, just below the threshold: every count that is released is too high."""
    rows = {"p": np.arange(4000), "town": np.array([f"t{place:03}" for place in range(200)])[np.arange(4000) // 20]}
    table = {"rows_per_unit": 1, "columns": {"town": {"type": "text"}}}
    with opened(tmp_path, rows, table, truncation=1) as database:
        losses, seen, narrower = losses_known(database), 0, 0
        for release in released(database, "SELECT town, COUNT(*) AS n FROM v GROUP BY town", 30, "1", losses):
            pairs: list[tuple[Ends, Ends]] = [
                (one["n"], other["n"])
                for one, other in zip(release.intervals(), release.intervals(bias=True), strict=True)
            ]
            seen += len(pairs)
            narrower += sum(not is_around(biased, plain) for plain, biased in pairs)
    assert seen > 200
    assert narrower == 0


def test_a_bar_that_cannot_be_computed_is_open_and_noted_and_the_answer_is_not_lost(
    clinic: sfumato.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a part that nobody foresaw")

    sql = "SELECT x, SUM(y) / COUNT(*) AS r, COUNT(*) AS n FROM v GROUP BY x"
    monkeypatch.setattr(Layers, "top", fails)
    with pytest.warns(OpenBar, match="KeyError"):
        (release,) = released(clinic, sql, 1, "20")
    assert all(isinstance(row["n"], int) for row in release.rows())
    assert all(row["r"] == (None, None) or row["r"] is None for row in release.intervals())
    assert {row["x"] for row in release.intervals()} == {-1, 0, 1, 2, 3}
    assert any("`r`, `n`" in note and "No interval" in note for note in release.notes)
    monkeypatch.undo()
    monkeypatch.setattr(confidence, "_bars", fails)
    (release,) = released(clinic, sql, 1, "20")
    with pytest.warns(OpenBar, match="KeyError"):
        found = release.intervals()
    assert all(row["r"] in (None, (None, None)) for row in found)
    with pytest.raises(OpenBar):  # as any warning in tests
        release.intervals("0.9")
