"""Frequencies give encrypted columns away; of a sealed store they name the tokens and nobody."""

from fractions import Fraction

from sfumato.lab.attacks import encrypted, plots
from sfumato.lab.generators.seeded import Seeded
from sfumato.sealed.padding import Padding


def test_equality_and_order_are_enough_to_read_a_column() -> None:
    """5,000 patients, a fixed seed: NKW15 found more than 80 % for ordered columns."""
    result = encrypted.run(5_000, Seeded(1))
    department, sex, age = result.columns
    assert min(department.recovered, sex.recovered, age.recovered) > 0.8
    assert max(department.guessed, sex.guessed, age.guessed) < 0.6
    assert "Tokens are named too" in result.report()
    assert plots.encrypted(result).to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_a_sealed_store_names_tokens_and_no_person() -> None:
    result = encrypted.run(5_000, Seeded(2))
    assert result.named > 0.5
    for column in result.sealed:
        assert column.recovered <= column.guessed + 0.01


def test_the_view_has_the_padding_of_a_sealed_table() -> None:
    assert Padding(encrypted.EPSILON, Fraction("1e-6"), 1).shift == encrypted.DUMMY_SHIFT
