"""Names that differ in a letter beyond A to Z are different names, from the policy to the engine."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato
from sfumato.errors import BadPolicy, UnknownName

KELVIN = "\N{KELVIN SIGN}"
COLUMNS = {"É": 1, "é": 2, KELVIN: 3, "k": 4, "ſ": 5, "s": 6}
PEOPLE = 2000


def _policy(folder: Path, columns: list[str]) -> dict[str, object]:
    return {
        "name": "letters",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'letters.ledger'}",
        "budget": {"epsilon": 10**6, "delta": 0},
        "tables": {
            name: {
                "unit": "id",
                "rows_per_unit": 1,
                "columns": {"id": {"type": "integer"}}
                | {column: {"type": "integer", "bounds": [0, 10]} for column in columns},
            }
            for name in ("Ö", "ö")
        },
    }


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sfumato.Database]:
    (tmp_path / "data").mkdir()
    for table, factor in (("Ö", 1), ("ö", 0)):
        values = {name: [factor * value] * PEOPLE for name, value in COLUMNS.items()}
        parquet.write_table(pa.table({"id": list(range(PEOPLE)), **values}), tmp_path / "data" / f"{table}.parquet")
    with sfumato.open(_policy(tmp_path, list(COLUMNS))) as opened:
        yield opened


@pytest.mark.parametrize("quoted", [True, False])
def test_each_name_means_its_own_column_and_table(database: sfumato.Database, quoted: bool) -> None:
    names = [f'"{name}"' if quoted else name for name in COLUMNS]
    sums = ", ".join(f"SUM({name}) AS s{place}" for place, name in enumerate(names))
    for table, factor in (("Ö", 1), ("ö", 0)):
        (row,) = database.ask(f"SELECT {sums} FROM {table}", epsilon=10**5).rows()  # noqa: S608
        for place, value in enumerate(COLUMNS.values()):
            assert row[f"s{place}"] == pytest.approx(factor * value * PEOPLE, abs=20)


def test_a_letter_that_only_unicode_calls_the_same_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for table in ("Ö", "ö"):
        parquet.write_table(pa.table({"id": [1], "é": [1], "k": [1]}), tmp_path / "data" / f"{table}.parquet")
    with sfumato.open(_policy(tmp_path, ["é", "k"])) as database:
        for name in ("É", KELVIN):
            with pytest.raises(UnknownName):
                database.explain(f"SELECT SUM({name}) FROM ö", epsilon=1)  # noqa: S608
        assert database.explain("SELECT SUM(K) FROM ö", epsilon=1)


def test_names_that_differ_in_the_case_of_a_to_z_are_refused_in_a_policy(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy):
        sfumato.open(_policy(tmp_path, ["k", "K"]))
