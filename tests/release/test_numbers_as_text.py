"""A noisy number that a question casts to text is still that number: it keeps its error bar."""

from collections.abc import Iterator

import pytest
from tests.made_up_clinic import fresh_clinic

import sfumato
from sfumato.release.rendering.table import format_value

TEXTS = (
    "SELECT CAST(COUNT(*) AS VARCHAR) AS t, COUNT(*) AS n, SUM(cost)::text AS ts, SUM(cost) AS s, "
    "AVG(cost)::text AS ta, AVG(cost) AS a, (COUNT(*) + 1)::text AS t1, dept::text || '' AS d, "
    "'n: ' || COUNT(*) AS words FROM visits GROUP BY dept"
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Release]:
    """Return an answer in which every number is there twice."""
    with sfumato.open(fresh_clinic(tmp_path_factory.mktemp("clinic"))) as database:
        yield database.ask(TEXTS, epsilon="2")


def test_a_number_as_text_has_the_interval_of_the_number(release: sfumato.Release) -> None:
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        assert row["t"] == str(row["n"])
        assert ends["t"] == ends["n"]
        assert float(row["ts"]) == row["s"]
        assert ends["ts"] == pytest.approx(ends["s"])
        assert ends["ta"] == pytest.approx(ends["a"])
        assert ends["t1"] == (ends["n"][0] + 1, ends["n"][1] + 1)
        assert (ends["d"], ends["words"]) == (row["d"], row["words"])


def test_its_ends_are_numbers_in_every_table(release: sfumato.Release) -> None:
    table = release.to_arrow(intervals=True)
    assert table.column("t_low").to_pylist() == table.column("n_low").to_pylist()
    assert table.column("ta_high").type == "double"
    assert "words_low" not in table.column_names
    assert f"{release.rows()[0]['t']} ± " in repr(release)


def test_a_text_with_ends_is_shown_like_the_number() -> None:
    assert format_value("4814", (4770, 4858)) == "4814 ± 44"
    assert format_value("12.25", (11.0, 13.5)) == "12.25 ± 1.2"
    assert format_value("660", (0, 100)) == "660 (0 to 100)"
    assert format_value("er", None) == "er"
