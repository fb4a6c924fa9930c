"""Nothing about people shows in status, message, attribute or shape: no data is a valid input, odd rows are absent."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.sources import HashSource
from tests.synthesis.tables import DOMAIN, made, people

import sfumato.synthesis
from sfumato.errors import BadParameter, QueryTooLarge, UnknownName
from sfumato.randomness.source import Metered
from sfumato.synthesis.synthesize import synthesize_table
from sfumato.synthesis.synthetic import Synthetic

EMPTY: dict[str, list[Any]] = {name: [] for name in DOMAIN}
ODD: dict[str, list[Any]] = {
    "age": [None, float("nan"), "old", 50, [3], float("inf")],
    "dept": ["er", "er", "er", "elsewhere", {}, None],
    "urgent": [True, None, "no", 2, True, False],
    "cost": [1, 2, 3, 4, object(), 10**400],
}
NO_NAMES: tuple[Any, ...] = (None, 5, [])
WORLDS: list[dict[str, list[Any]]] = [EMPTY, ODD, people(1), people(200), {name: [None] * 5 for name in DOMAIN}]


def shape(synthetic: Synthetic) -> tuple[object, ...]:
    marginal = synthetic.marginal(["dept", "age"])
    return (
        synthetic.columns,
        synthetic.event,
        synthetic.loss,
        synthetic.receipt,
        synthetic.marginals,
        repr(synthetic),
        marginal.counts.shape,
        marginal.margin,
        synthetic.model(["age"]).shape,
        synthetic.sample(5).schema,
        synthetic.steps,
    )


def test_every_world_looks_the_same_but_for_its_noisy_numbers() -> None:
    shapes = {shape(made(HashSource("world"), data=world)) for world in WORLDS}
    assert len(shapes) == 1


@pytest.mark.parametrize("groups", [False, True])
def test_as_many_bits_are_drawn_whatever_the_data(groups: bool) -> None:
    drawn = set()
    for world in WORLDS:
        source = Metered(HashSource("bits"))
        made(source, data=world, groups=["p"] * len(world["age"]) if groups else None)
        drawn.add(source.bits)
    assert len(drawn) == 1


def test_no_rows_give_a_table_about_nobody() -> None:
    synthetic = made(HashSource("nobody"), data=EMPTY, epsilon=20)
    assert synthetic.table().num_rows < 20
    assert abs(synthetic.sql("SELECT COUNT(*) FROM people").rows[0][0]) < 20
    for text in ("SELECT dept, AVG(cost) FROM people GROUP BY dept", "SELECT SUM(age) FROM people WHERE urgent"):
        answer = synthetic.sql(text)
        assert all(np.isfinite(margin) for row in answer.margins for margin in row if margin is not None)


def test_an_odd_row_is_absent_from_every_marginal_not_from_some() -> None:
    alone, among = people(50), people(50)
    for name, values in ODD.items():
        among[name] = among[name] + values[:4]
    first, second = (made(HashSource("absent"), data=world) for world in (alone, among))
    for names in first.marginals:
        assert (first.marginal(names).counts == second.marginal(names).counts).all()  # the same coins, the same counts


def test_what_a_caller_did_wrong_is_refused_without_a_word_about_the_data() -> None:
    data = people(10)
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"delta": 0}, BadParameter),
        ({"epsilon": 0}, BadParameter),
        ({"rows": -1}, BadParameter),
        ({"seconds": 0}, BadParameter),
        ({"groups": ["p"] * 3}, BadParameter),
        ({"domain": {"missing": [1]}}, UnknownName),
        ({"domain": {"age": list(range(10**6 + 1))}}, BadParameter),
    ]
    for bad, code in wrong:
        named: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "domain": DOMAIN} | bad
        with pytest.raises(code) as refused:
            synthesize_table(data, **named)
        assert "10" not in str(refused.value).replace("1e-6", "").replace("1,000,000", "").replace("1000000", "")


def test_unknown_columns_and_pairs_are_refused_by_name() -> None:
    synthetic = made(HashSource("names"), 50)
    for names in (["wages"], ["age", "wages"], [3]):
        with pytest.raises(UnknownName):
            synthetic.marginal(names)  # type: ignore[arg-type]
    for names in ([], ["age", "AGE"]):
        with pytest.raises(BadParameter):
            synthetic.model(names)
    with pytest.raises(UnknownName, match="not measured together"):
        synthetic.marginal(["age", "dept", "cost"])
    assert synthetic.model(["age", "dept", "cost"]).shape == (10, 4, 8)
    wide = made(HashSource("wide"), data={"a": [], "b": [], "c": []}, domain={name: list(range(120)) for name in "abc"})
    with pytest.raises(QueryTooLarge):
        wide.model(["a", "b", "c"])


def test_axes_come_in_the_order_asked_and_names_in_any_case() -> None:
    synthetic = made(HashSource("order"), 400)
    one, other = synthetic.marginal(["dept", "age"]), synthetic.marginal(["AGE", "dept"])
    assert one.counts.shape == (4, 10)
    assert (other.counts == one.counts.T).all()
    assert (synthetic.model(["age", "dept"]) == synthetic.model(["dept", "age"]).T).all()
    assert synthetic.marginal("age").counts.shape == (10,)


def test_the_public_names_can_be_imported_in_any_order_and_called() -> None:
    from sfumato.synthesis import Range, synthesize, synthesize_table
    from sfumato.synthesis.synthesize import synthesize as function

    assert callable(synthesize)
    assert callable(function)
    assert Range.__name__ == "Range"
    assert synthesize_table is sfumato.synthesis.synthesize_table
    for called in (synthesize, function):
        with pytest.raises(BadParameter, match="cannot be measured"):
            called(None, "visits", columns=["age"], epsilon=1, delta="1e-6")  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [None, 5, "abc", {"age": 5, "dept": 5, "urgent": 5, "cost": 5}], ids=repr)
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises((BadParameter, UnknownName)):
        synthesize_table(data, DOMAIN, epsilon="1", delta="1e-6")


def test_what_names_no_columns_is_refused() -> None:
    synthetic = synthesize_table(people(50), DOMAIN, epsilon="1", delta="1e-6", seconds=5)
    for ask in (synthetic.marginal, synthetic.model):
        for names in NO_NAMES:
            with pytest.raises(BadParameter):
                ask(names)


def test_an_arrow_table_is_a_table_and_a_synthetic_one_can_be_kept() -> None:
    synthetic = synthesize_table(pa.table(people(50)), DOMAIN, epsilon="1", delta="1e-6", seconds=5)
    kept = pickle.loads(pickle.dumps(synthetic))
    assert kept.table().equals(synthetic.table())
    assert kept.columns == synthetic.columns


def test_a_domain_that_lacks_a_column_is_refused() -> None:
    """Else the column would silently be missing from the synthetic table."""
    data = {**people(20), "more": [1] * 20}
    for table in (data, pa.table(data), pa.table(data).to_pandas()):
        with pytest.raises(UnknownName, match="more"):
            synthesize_table(table, DOMAIN, epsilon="1", delta="1e-6")
