"""Publishing: keys in their own order, noise on every number, nothing exact left, exact JSON."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.release.plans import ADD, LOSS, RECEIPT, aggregates, laplace, make_plan
from tests.sources import HashSource

from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.errors import Refusal
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.query.functions import Aggregation
from sfumato.release.noisy import NoisyGroup, NoisyResult, noisy_from_json, noisy_to_json
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt, receipt_from_json, receipt_to_json

SELECTION = OptimalSelection(Fraction(1), Fraction(1, 1000), 1, ADD)
COUNTS = make_plan([Aggregation.COUNT], {"N": laplace(5)})
SELECTED = make_plan([Aggregation.COUNT], {"N": laplace(5)}, selection=SELECTION)


def test_every_number_gets_the_noise_of_its_mechanism() -> None:
    exact = [10**6] * 50
    noisy = publish(COUNTS, aggregates({"N": exact}), HashSource(1))
    drawn = laplace(5).release(exact, HashSource(1))
    assert noisy.groups[0].column("N") == tuple(drawn)
    assert noisy.groups[0].keys == tuple((cell,) for cell in range(50))


def test_selected_keys_are_shown_in_their_own_order_whatever_the_engine_s_was() -> None:
    plain = aggregates({"N": [900, 1, 700, 0, 800]}, units=[900, 1, 700, 0, 800]).groups[0]
    turned = GroupAggregates(
        plain.keys[::-1], {"N": plain.columns["N"][::-1]}, plain.units[::-1] if plain.units is not None else None
    )
    for exact in (plain, turned):
        assert publish(SELECTED, Aggregates((exact,)), HashSource(3)).groups[0].keys == ((0,), (2,), (4,))


def test_the_number_of_bits_does_not_tell_how_many_keys_the_data_holds() -> None:
    """With two sure keys among any number of others that nobody can release, the metered bits are of two cells."""
    least = []
    for empty in (0, 1000):
        units = [900, 900, *([0] * empty)]
        noisy = publish(SELECTED, aggregates({"N": units}, units=units), HashSource(5))
        assert len(noisy.groups[0].keys) == 2
        least.append(noisy.bits)
    assert max(least) < 1000


def test_more_cells_take_more_bits() -> None:
    few, many = (publish(COUNTS, aggregates({"N": [1] * cells}), HashSource(1)).bits for cells in (10, 1000))
    assert 0 < few < many


CELLS = st.one_of(st.integers(), st.text(), st.booleans())


@settings(deadline=None)
@given(st.lists(st.tuples(st.tuples(CELLS, CELLS), st.integers()), max_size=5), st.text(), st.integers(0, 2**70))
def test_a_stored_answer_reads_back_exactly(
    rows: list[tuple[tuple[int | str, int | str], int]], name: str, bits: int
) -> None:
    group = NoisyGroup(tuple(keys for keys, _ in rows), ((name, tuple(value for _, value in rows)),))
    noisy = NoisyResult((group, NoisyGroup(((),), (("m", (2**200,)),))), bits)
    read = noisy_from_json(noisy_to_json(noisy))
    assert read == noisy
    assert repr(read) == repr(noisy)  # 1 and True are equal and not the same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"bits":"1","groups":[{"columns":[["n",["1"]]],"keys":[]}]}',
        '{"bits":"1","groups":[{"columns":[["n",[1]]],"keys":[[]]}]}',
        '{"bits":"1","groups":[{"columns":[["n",["01"]]],"keys":[[]]}]}',
        '{"bits":"1","groups":[],"more":1}',
        '{"bits": "1","groups":[]}',
        "[" * 100_000,
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        noisy_from_json(text)
    with pytest.raises(Refusal):
        receipt_from_json(text)


@pytest.mark.parametrize(
    "receipt",
    [
        RECEIPT,
        Receipt("x", "p", "v", LOSS),
        Receipt('ü"', "p", "v", LOSS, 3, "h", 2**80, "padded"),
        Receipt("x", "p", "v", LOSS, source="dice", gamma=Fraction(1, 10), needed=7),
        Receipt("x", "p", "v", LOSS, gamma=Fraction(1, 10)),
    ],
)
def test_a_receipt_reads_back_exactly(receipt: Receipt) -> None:
    assert receipt_from_json(receipt_to_json(receipt)) == receipt
