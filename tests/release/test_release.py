"""Releases over the real evaluator: values, intervals, order, exports, views."""

import pickle
import time
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.release.plans import (
    COUNTED,
    KEY,
    RECEIPT,
    SPREAD,
    SUMMED,
    laplace,
    make_plan,
    noisy_table,
    reference,
    show,
)

from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import Refusal
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, FilterNode, Item, LimitNode, ProjectNode, SortNode
from sfumato.language.scalar import Factor, Operator, Scalar, column, literal
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.release.decode import decode
from sfumato.release.noisy import NoisyGroup, NoisyResult
from sfumato.release.notes import SELECTED
from sfumato.release.release import Release, exact_release, make_release
from sfumato.release.rendering import export

COUNT, SUM, AVG, VARIANCE = Aggregation.COUNT, Aggregation.SUM, Aggregation.AVG, Aggregation.VAR_POP
NOISE = {"N": laplace(10), "T": laplace(1000)}
MARGIN = laplace(10).margin(Fraction(95, 100))
TWICE = Scalar(Operator.ADD, (reference(COUNT), reference(COUNT)), COUNTED)


def noisy(counts: list[int], totals: list[int] | None = None) -> NoisyResult:
    columns = (
        ("N", tuple(counts)),
        ("T", tuple(totals or counts)),
        ("Q", tuple(abs(count) * 10**9 for count in counts)),
    )
    return NoisyResult((NoisyGroup(tuple((cell,) for cell in range(len(counts))), columns),), 0)


def released(
    outcome: ProjectNode | None = None, counts: tuple[int, ...] = (100, -4, 300), more: tuple[Aggregation, ...] = ()
) -> Release:
    plan = make_plan([COUNT, *more], {**NOISE, "Q": laplace(10**6)}, outcome)
    return make_release(plan, noisy(list(counts)), RECEIPT, evaluate)


def test_rows_are_the_noisy_values_and_counts_have_the_exact_margin() -> None:
    release = released()
    assert release.rows() == [{"k": 0, "count": 100}, {"k": 1, "count": -4}, {"k": 2, "count": 300}]
    assert release.intervals()[0] == {"k": 0, "count": (100 - MARGIN, 100 + MARGIN)}
    assert release.intervals("0.5")[0]["count"] == release.intervals(0.5)[0]["count"] != release.intervals()[0]["count"]
    assert (len(release), release.columns, release.loss) == (3, ("k", "count"), RECEIPT.loss)


def test_an_average_without_people_is_null_and_every_other_lies_in_its_range() -> None:
    release = released(more=(AVG, VARIANCE))
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        for name, most in (("avg", 5000.0), ("var_pop", 2500.0**2)):
            if row["k"] == 1:
                assert row[name] is None
                assert ends[name] is None
            else:
                low, high = ends[name]
                assert 0 <= low <= row[name] <= high <= most


def test_what_is_computed_from_noisy_numbers_has_the_interval_that_follows() -> None:
    ends = released(show(noisy_table([COUNT]), [COUNT], Item("twice", TWICE))).intervals()
    for row in ends:
        plain, twice = row["count"], row["twice"]
        assert [end / 2 for end in twice] == pytest.approx(list(plain), abs=2)


def test_a_ratio_whose_denominator_may_be_nothing_is_bounded_by_what_it_can_be_and_by_nothing_else() -> None:
    average = Scalar(Operator.DIVIDE, (reference(SUM), reference(COUNT)), SUMMED, Factor(100, 1))
    inverse = Scalar(Operator.DIVIDE, (reference(COUNT), reference(SUM)), SUMMED, Factor(10**9, 1))
    shown = show(noisy_table([COUNT, SUM]), [], Item("average", average), Item("inverse", inverse))
    plan = make_plan([COUNT, SUM], {"N": laplace(10), "T": laplace(10**6)}, shown)
    release = make_release(plan, noisy([1000, 5], [10**6, 10**5]), RECEIPT, evaluate)
    sure, unsure = release.intervals()
    assert 0 <= sure["average"][0] < 1000 < sure["average"][1] < 500_000
    assert unsure["average"] == (0, 500_000)  # every cost lies in [0, 5000], on a grid of hundredths
    assert unsure["inverse"] == (0, None)


def chosen(count: int) -> ProjectNode:
    least = literal(50, COUNTED)
    condition = Scalar(Operator.LESS, (least, reference(COUNT)), Facts(Type.BOOLEAN, Kind.BOOLEAN))
    kept = FilterNode(noisy_table([COUNT]), condition)
    return show(LimitNode(SortNode(kept, ((reference(COUNT), True, False),)), count, 0), [COUNT], Item("twice", TWICE))


def test_rows_that_survive_having_order_and_limit_have_intervals_that_hold_together_and_the_release_says_so() -> None:
    release = released(chosen(5))
    assert [row["k"] for row in release.rows()] == [2, 0]
    wider = laplace(10).margin(1 - Fraction(5, 100) / 3)  # noise chose among three rows
    assert [row["count"] for row in release.intervals()] == [(300 - wider, 300 + wider), (100 - wider, 100 + wider)]
    assert all(row["twice"][0] < 2 * 100 or row["k"] == 2 for row in release.intervals())
    assert SELECTED in release.notes
    assert SELECTED not in released().notes
    assert len(released(chosen(1))) == 1


def test_aggregates_of_noisy_answers_have_intervals_from_whole_runs() -> None:
    total = AggregateNode(
        noisy_table([COUNT]), "f", (), (AggregateItem("s", Aggregate(SUM, (reference(COUNT),)), COUNTED),)
    )
    outcome = ProjectNode(total, "answer", (Item("s", column("f", "s", COUNTED)),))
    (row,), (ends,) = released(outcome).rows(), released(outcome).intervals()
    assert row["s"] == 396
    low, high = ends["s"]
    # three independent Laplace(10) have deviation 24.5: 95 % lie within about ±49
    assert 396 - 60 < low < 396 - 38
    assert 396 + 38 < high < 396 + 60


def test_an_empty_answer_keeps_its_columns() -> None:
    release = released(show(noisy_table([COUNT]), [COUNT], Item("twice", TWICE)), counts=())
    assert (release.rows(), release.intervals(), release.columns) == ([], [], ("k", "count", "twice"))
    assert release.to_arrow().num_rows == 0
    assert "count" in repr(release)


def test_columns_of_the_same_name_are_told_apart() -> None:
    release = exact_release(["n", "n", "n_2"], [COUNTED] * 3, [[1], [2], [3]], RECEIPT)
    assert release.rows() == [{"n": 1, "n_3": 2, "n_2": 3}]
    assert release.intervals() == [{"n": (1, 1), "n_3": (2, 2), "n_2": (3, 3)}]


def test_clamping_brings_counts_and_their_intervals_to_what_is_possible() -> None:
    release = released().clamped()
    assert [row["count"] for row in release.rows()] == [100, 0, 300]
    assert release.intervals()[1]["count"] == (0, MARGIN - 4)


def test_a_release_goes_through_a_pickle_with_its_intervals() -> None:
    for one in (released(), released(more=(AVG,)), exact_release(["n"], [COUNTED], [[1]], RECEIPT)):
        for release in (one, one.clamped()):
            again = pickle.loads(pickle.dumps(release))
            assert repr(again) == repr(release)
            assert again.intervals("0.5") == release.intervals("0.5")
            assert again.intervals(bias=True) == release.intervals(bias=True)


@pytest.mark.parametrize("level", [0, 1, -1, 2, "x", float("nan"), None, True])
def test_a_level_that_is_no_probability_is_refused(level: object) -> None:
    with pytest.raises(Refusal):
        released().intervals(level)


@pytest.mark.parametrize("column", ["nothing", "", 5, [1], {}], ids=repr)
def test_what_is_no_number_of_the_answer_is_not_drawn(column: object) -> None:
    with pytest.raises(Refusal):
        released().plot(column)  # type: ignore[arg-type]
    with pytest.raises(Refusal):
        released().truncation_of(column)  # type: ignore[arg-type]


def test_values_have_the_types_of_people() -> None:
    whole = Kind.INTEGER
    assert decode(None, COUNTED) is None
    assert decode(3, Facts(Type.DATE, whole)) == date(1970, 1, 4)
    assert decode(10**30, Facts(Type.DATE, whole)) == date.max
    assert decode(1_500_000, Facts(Type.TIMESTAMP, whole)) == datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert decode(-(10**30), Facts(Type.TIMESTAMP, whole)) == datetime.min
    assert decode(7, Facts(Type.INTEGER, whole, step=Fraction(10))) == 70
    assert decode(125, SUMMED) == 1.25
    assert decode(0.1, SPREAD) == 0.1
    assert decode(1, Facts(Type.BOOLEAN, Kind.BOOLEAN)) is True


def test_exports_hold_values_intervals_and_the_loss() -> None:
    table = released(more=(AVG,)).to_arrow(intervals=True)
    assert table.column_names == ["k", "count", "avg", "count_low", "count_high", "avg_low", "avg_high"]
    assert b"1" in table.schema.metadata[b"sfumato.loss"]
    assert table["avg"].null_count == 1
    assert released().to_pandas()["count"].tolist() == [100, -4, 300]
    assert released().to_polars()["count"].to_list() == [100, -4, 300]
    wide = exact_release(["n"], [COUNTED], [[2**80]], RECEIPT).to_arrow()
    assert int(wide["n"][0].as_py()) == 2**80


def test_a_chart_is_saved_without_a_browser(tmp_path: Path) -> None:
    released(more=(AVG,)).plot().save(str(tmp_path / "n.svg"))
    assert (tmp_path / "n.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(Refusal):
        released().plot("nothing")


def test_a_missing_extra_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(Refusal, match=r"sfumato\[plot\]"):
        released().plot()
    with pytest.raises(Refusal, match=r"sfumato\[polars\]"):
        released().to_polars()


def test_the_views_show_margins_and_escape_what_keys_hold() -> None:
    assert f"100 ± {MARGIN}" in repr(released())
    text = Facts(Type.TEXT, Kind.TEXT)
    hostile = exact_release(["<b>"], [text], [["<script>\x1b[2J"]], RECEIPT)
    assert "<script>" not in hostile._repr_html_()
    assert "\x1b" not in repr(hostile)


def test_the_same_receipt_has_the_same_error_bars() -> None:
    one, other = (released(show(noisy_table([COUNT]), [COUNT], Item("twice", TWICE))) for _ in range(2))
    assert one.intervals() == other.intervals()


MANY = 4_000
LARGE = {"N": laplace(20), "T": laplace(20 * 250_000), "Q": laplace(20 * 250_000**2)}
PRODUCT = Scalar(Operator.MULTIPLY, (reference(AVG), reference(AVG)), SPREAD)
DISTANCE = Scalar(Operator.ABS, (Scalar(Operator.NEGATE, (reference(COUNT),), COUNTED),), COUNTED)


@pytest.mark.parametrize(
    "scalar", [TWICE, DISTANCE, PRODUCT, reference(AVG), reference(VARIANCE)], ids=lambda scalar: str(scalar.operator)
)
def test_four_thousand_cells_have_their_intervals_within_a_second(scalar: Scalar) -> None:
    everything = [COUNT, SUM, AVG, VARIANCE]
    plan = make_plan(everything, LARGE, show(noisy_table(everything), [], Item("x", scalar)))
    counts = [5 + cell * 7 % 300 for cell in range(MANY)]
    release = make_release(plan, noisy(counts, [count * 1000 for count in counts]), RECEIPT, evaluate)
    start = time.process_time()
    assert len(release.intervals()) == MANY
    assert time.process_time() - start < 1  # some 0.3 s for a variance on a quiet machine, 0.05 s for the others


def test_aggregates_of_four_thousand_cells_have_their_intervals_within_a_second() -> None:
    functions = (SUM, Aggregation.MAX, Aggregation.MIN)
    measures = tuple(AggregateItem(str(one), Aggregate(one, (reference(COUNT),)), COUNTED) for one in functions)
    folded = AggregateNode(noisy_table([COUNT]), "f", (), measures)
    shown = ProjectNode(folded, "answer", tuple(Item(one.name, column("f", one.name, COUNTED)) for one in measures))
    release = released(shown, counts=(100,) * MANY)
    start = time.process_time()
    (row,) = release.intervals()
    assert time.process_time() - start < 1
    assert row["max"][0] < 100 < row["max"][1]
    assert row["min"][0] == 0  # a true count is not below it


def test_equal_rows_come_in_the_order_of_their_keys() -> None:
    order = SortNode(noisy_table([COUNT]), ((reference(COUNT), False, False),))
    assert [row["k"] for row in released(show(order, [COUNT]), counts=(7, 7, 7, 1)).rows()] == [3, 0, 1, 2]


def test_keys_are_as_they_are() -> None:
    outcome = show(noisy_table([COUNT]), [COUNT], Item("again", column("g", "k", KEY)))
    assert [row["again"] for row in released(outcome).intervals()] == [0, 1, 2]
