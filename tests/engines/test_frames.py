"""Frames as a source: the same rows as the same data in a file, each value read alone, nothing changed by us."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.builds import SALT, policy_of
from tests.engines.reference import keyed
from tests.engines.test_registration import quiet, rows_of

import sfumato
from sfumato.engines.duckdb.registration import register
from sfumato.errors import BadPolicy, BadSource, Refusal

COLUMNS: dict[str, Any] = {
    "who": {"type": "integer"},
    "cost": {"type": "decimal", "bounds": [-100, 100], "step": "0.01"},
    "price": {"type": "decimal", "bounds": [0, 1000], "step": "0.001"},
    "score": {"type": "decimal"},
    "big": {"type": "integer", "bounds": [-(2**62), 2**62]},
    "dept": {"type": "text", "values": ["er", "icu", "Größe"]},
    "note": {"type": "text", "length": 4},
    "day": {"type": "date"},
    "at": {"type": "timestamp"},
    "zoned": {"type": "timestamp"},
    "local": {"type": "date"},
    "ill": {"type": "boolean"},
    "empty": {"type": "integer"},
}
VISITS: dict[str, Any] = {"unit": "who", "rows_per_unit": 2, "columns": COLUMNS}
FAR = 253_402_214_400_000


def _salted(root: Path) -> None:
    (root / "small.ledger.copy.salt").touch(mode=0o600)
    (root / "small.ledger.copy.salt").write_bytes(SALT)


def _copy(root: Path, source: Any, visits: dict[str, Any] = VISITS) -> list[tuple[Any, ...]]:
    root.mkdir(exist_ok=True)
    _salted(root)
    policy = policy_of({"visits": visits}, source, ledger=f"sqlite:{root}/small.ledger")
    registered = register(policy, quiet)
    try:
        return rows_of(registered)
    finally:
        registered.use.close()


def _values(root: Path, values: Any, kind: str, **more: Any) -> list[Any]:
    """Return what becomes of the values of one column, each with a person of its own, in their order."""
    frame = pd.DataFrame({"who": range(len(values)), "v": values})
    visits = {"unit": "who", "rows_per_unit": 1, "columns": {"who": {"type": "integer"}, "v": {"type": kind, **more}}}
    people = {keyed(SALT, "unit", str(who)): who for who in range(len(values))}
    found = {people[person]: value for person, value in _copy(root, {"visits": frame}, visits)}
    return [found[who] for who in range(len(values))]


def _clinic() -> pa.Table:
    """40 people with hostile values; three rows each, of which two are kept, and three rows without a person."""
    count = 123
    cycle: Callable[[list[Any]], list[Any]] = lambda values: [values[at % len(values)] for at in range(count)]  # noqa: E731
    nan, inf = float("nan"), float("inf")
    return pa.table(
        {
            "who": pa.array([None if at >= 120 else 2**53 + at // 3 for at in range(count)], pa.int64()),
            "cost": pa.array(cycle([0.005, 0.015, -0.0, nan, inf, -inf, 1e300, None, 2.675, 99.995, 1 / 3])),
            "price": pa.array(cycle([Decimal("0.0005"), None, Decimal("999.9995"), Decimal(-1)]), pa.decimal128(20, 4)),
            "score": pa.array(cycle([0.1, nan, None, 1e-300, -0.0])),
            "big": pa.array(cycle([2**63 - 1, -(2**63), 2**53 + 1, None, 2**62 - 1]), pa.int64()),
            "dept": pa.array(cycle(["er", "icu", "ICU", None, "Größe", "er\0"])),
            "note": pa.array(cycle(["ß\0İΣ☃", "", None, "👩‍👩‍👧", "abcdefg"])),
            "day": pa.array(cycle([0, 19_727, None, -700_000, 2_932_896]), pa.date32()),
            "at": pa.array(cycle([1, None, 1_704_067_200_000, FAR, -1]), pa.timestamp("ms")),
            "zoned": pa.array(cycle([1, None, 1_704_067_200_000_000_400]), pa.timestamp("ns", "Europe/Zurich")),
            "local": pa.array(cycle([1_704_065_400_000_000, None]), pa.timestamp("us", "Europe/Zurich")),
            "ill": pa.array(cycle([True, False, None])),
            "empty": pa.nulls(count),
        }
    )


def _encoded(table: pa.Table) -> pa.Table:
    """The same values in other types of Arrow."""
    others = {
        "dept": table["dept"].dictionary_encode(),
        "note": table["note"].cast(pa.string_view()),
        "price": table["price"].cast(pa.decimal256(20, 4)),
        "big": table["big"].combine_chunks().cast(pa.int64()),
        "day": table["day"].cast(pa.date64()),
    }
    for name, values in others.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return pa.concat_tables([table.slice(0, 50), table.slice(50)])


def _polars(table: pa.Table) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    return frame.with_columns(pl.col("dept").cast(pl.Categorical), pl.col("big").cast(pl.Int128))


def _nullable(table: pa.Table) -> pd.DataFrame:
    types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.float64(): pd.Float64Dtype()}
    frame = table.to_pandas(types_mapper=types.get)
    return frame.astype({"dept": "category"}).set_index(pd.Index(range(7, 130), name="row"))


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "arrow, encoded": _encoded,
    "pandas, nullable": _nullable,
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas of objects": lambda table: pd.DataFrame(
        {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names}
    ),
    "polars": _polars,
}


@pytest.fixture(scope="module")
def as_parquet(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    root = tmp_path_factory.mktemp("parquet")
    (root / "data").mkdir()
    pq.write_table(_clinic(), root / "data" / "visits.parquet")
    return _copy(root, f"parquet:{root}/data")


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_gives_the_same_copy_as_the_same_data_in_a_parquet_file(
    tmp_path: Path, as_parquet: list[tuple[Any, ...]], kind: str
) -> None:
    assert len(as_parquet) == 80
    table = _clinic()
    if kind == "pandas of objects":  # Python's times end at microseconds
        table = table.set_column(9, "zoned", table["zoned"].cast(pa.timestamp("us", "Europe/Zurich"), safe=False))
    assert _copy(tmp_path, {"visits": FRAMES[kind](table)}) == as_parquet


def test_a_day_of_a_zoned_time_is_the_day_in_utc_whatever_the_machine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_parquet: list[tuple[Any, ...]]
) -> None:
    """Half an hour after midnight in Zurich was the day of the machine's own zone."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    (tmp_path / "data").mkdir()
    pq.write_table(_clinic(), tmp_path / "data" / "visits.parquet")
    assert _copy(tmp_path, f"parquet:{tmp_path}/data") == as_parquet
    place = sorted(COLUMNS.keys() - {"who"}).index("local") + 1
    assert {row[place] for row in as_parquet} == {19_722, None}


OBJECTS: list[Any] = [
    *(2**53 + 1, "7", " 7.0", 7.5, "x", None, float("nan"), float("inf"), Decimal("0.015"), Decimal("sNaN"), True),
    *(
        pd.NA,
        pd.NaT,
        10**30,
        b"8",
        b"\xff",
        [1],
        np.int64(2**62 + 1),
        np.float32(0.5),
        np.timedelta64(1, "ns"),
        "\ud800",
    ),
]


def test_each_object_is_read_alone_as_the_number_that_the_policy_declares(tmp_path: Path) -> None:
    bounds = [-(2**62) - 5, 2**62 + 5]
    found = _values(tmp_path / "a", pd.Series(OBJECTS, dtype=object), "integer", bounds=bounds)
    big = [2**53 + 1, 7, 7, 8, None, None, None, None, 0, None, None]
    assert found == [*big, None, None, None, 8, None, None, 2**62 + 1, 0, None, None]
    cents = _values(tmp_path / "b", pd.Series(OBJECTS, dtype=object), "decimal", bounds=[0, 50], step="0.01")
    assert cents[3] == 750
    assert cents[8] == 2  # the decimal 0.015 is half a cent, which goes to the even one
    for at in (3, 9):
        less = [value for place, value in enumerate(OBJECTS) if place != at]
        rest = _values(tmp_path / f"c{at}", pd.Series(less, dtype=object), "integer", bounds=bounds)
        assert rest == [value for place, value in enumerate(found) if place != at]


def test_each_object_is_read_alone_as_text_as_a_day_and_as_a_time(tmp_path: Path) -> None:
    east = timezone(timedelta(hours=2))
    values = ["a", 7, 7.5, True, date(2024, 1, 5), b"b", "\ud800", UUID(int=1), float("nan"), Decimal("1.50")]
    texts = ["a", "7", "7.5", "true", "2024-01-05", "b", None, str(UUID(int=1)), None, "1.50"]
    assert _values(tmp_path / "a", pd.Series(values, dtype=object), "text") == texts
    assert _values(tmp_path / "b", pd.Series(["a", "\ud800", None], dtype="string[python]"), "text") == [
        "a",
        None,
        None,
    ]
    midnight = datetime(2024, 1, 5, 1, tzinfo=east)
    values = [date(2024, 1, 5), "2024-01-05", midnight, 19_727, pd.NaT, np.datetime64("2024-01-05"), "30/2"]
    days = [19_727, 19_727, 19_726, None, None, 19_727, None]
    assert _values(tmp_path / "c", pd.Series(values, dtype=object), "date") == days
    values = [midnight, pd.Timestamp("2024-01-05"), datetime.max.replace(tzinfo=timezone(timedelta(hours=-9))), "x"]
    micros = [int(midnight.astimezone(UTC).timestamp()) * 10**6, 19_727 * 86_400 * 10**6, None, None]
    assert _values(tmp_path / "d", pd.Series(values, dtype=object), "timestamp") == micros


def test_categories_and_sparse_columns_are_read_by_their_values(tmp_path: Path) -> None:
    assert _values(tmp_path / "a", pd.Categorical([1, "x", None, 2.5]), "decimal", bounds=[0, 9], step=1) == [
        1,
        None,
        None,
        2,
    ]
    assert _values(tmp_path / "b", pd.Categorical([3, 4, None]), "integer") == [3, 4, None]
    assert _values(tmp_path / "c", pd.arrays.SparseArray([0, 5, 0]), "integer") == [0, 5, 0]


def test_what_the_engine_could_not_hold_is_absent_and_changes_nobody(tmp_path: Path) -> None:
    far = pa.array([2**62, -(2**63), 86_400_000], pa.date64())
    frame = pa.table(
        {
            "who": [1, 2, 3],
            "note": pa.array([b"\xff", "é".encode(), b"c"], pa.binary()).view(pa.string()).dictionary_encode(),
            "day": far,
            "at": pa.array([2**63 - 1, -(2**63), 5], pa.timestamp("us")),
            "zoned": pa.array([2**63 - 1, None, 5000], pa.timestamp("ns", "UTC")),
        }
    )
    columns = {name: COLUMNS[name] for name in frame.column_names}
    found = _copy(tmp_path, {"visits": frame}, {**VISITS, "columns": columns})
    assert {row[1:] for row in found} == {(None, None, None, None), (None, None, "é", None), (5, 1, "c", 5)}


def test_more_rows_than_one_batch_are_all_read(tmp_path: Path) -> None:
    count = 70_000
    visits = {"unit": "rows", "columns": {"v": {"type": "integer"}}}
    frame = pd.DataFrame({"v": pd.Series(range(count), dtype=object)})
    assert [v for (v,) in _copy(tmp_path, {"visits": frame}, visits)] == sorted(range(count), key=lambda v: repr((v,)))


def test_a_table_without_declared_columns_and_a_public_one_are_read(tmp_path: Path) -> None:
    _salted(tmp_path)
    staff = pl.DataFrame({"name": ["a", "b"], "age": [30, None], "list": [[1], [2]]})
    tables = {"visits": {"unit": "rows"}, "staff": {"public": True}, "empty": {"unit": "rows"}}
    source: Any = {"VISITS": pd.DataFrame(index=range(5)), "staff": staff, "empty": pa.table({})}
    with sfumato.open(
        {
            "source": source,
            "ledger": f"sqlite:{tmp_path}/small.ledger",
            "budget": {"epsilon": 9, "delta": 0},
            "tables": tables,
        }
    ) as database:
        assert database.ask("SELECT name, age FROM staff ORDER BY name").rows() == [
            {"name": "a", "age": 30},
            {"name": "b", "age": None},
        ]
        assert abs(database.ask("SELECT COUNT(*) AS n FROM visits", epsilon=8).rows()[0]["n"] - 5) < 10


def _policy(root: Path, source: Any) -> dict[str, Any]:
    columns = {"who": {"type": "integer"}, "v": {"type": "integer", "bounds": [0, 9]}}
    tables = {"visits": {"unit": "who", "rows_per_unit": 1, "columns": columns}}
    return {
        "source": source,
        "ledger": f"sqlite:{root}/a.ledger",
        "budget": {"epsilon": 500, "delta": 0},
        "tables": tables,
    }


def _count(database: sfumato.Database) -> int:
    return int(database.ask("SELECT COUNT(*) AS n FROM visits", epsilon=100).rows()[0]["n"])


def test_a_frame_is_a_snapshot_until_it_is_refreshed_and_is_never_changed(tmp_path: Path) -> None:
    """With epsilon 100 the noise is 0 but for a probability of 2 exp(-100)."""
    frame = pd.DataFrame({"who": [1, 2], "v": pd.Series([1, "x"], dtype=object)}, index=[5, 5])
    before = frame.copy(deep=True)
    source: dict[str, Any] = {"visits": frame}
    with sfumato.open(_policy(tmp_path, source)) as database:
        assert (_count(database), database.source_changed()) == (2, False)
        first = database.version
        pd.testing.assert_frame_equal(frame, before)
        frame.loc[9] = [3, 4]
        assert (_count(database), database.source_changed()) == (2, True)
        assert database.refresh() != first
        assert (_count(database), database.source_changed()) == (3, False)
        source["visits"] = pl.DataFrame({"who": [1], "v": [1]})
        database.refresh()
        assert _count(database) == 1
    with sfumato.open(_policy(tmp_path, {"visits": before})) as database:  # as files that change: the snapshot stays
        assert (_count(database), database.source_changed()) == (1, True)


class _Once:
    """Something that can be read only once."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        raise AssertionError


REFUSED: list[tuple[Any, str]] = [
    ({"visits": "visits.csv"}, r'source.visits is "visits.csv"'),
    ({"visits": _Once()}, r"tables.visits is not a frame in source"),
    ({"other": pd.DataFrame()}, r"tables.visits is not in source"),
    (
        {"visits": pa.table({"who": [1], "v": [[1]]})},
        r"columns.v.type is integer, and the source stores values of another",
    ),
    ({"visits": pd.DataFrame({"who": [1], "v": [1 + 2j]})}, r"columns.v.type is integer, and the source stores values"),
    ({"visits": pd.DataFrame({"who": [1], "v": ["x"]}).astype("string")}, r"and the source stores text"),
    ({"visits": pd.DataFrame({"v": [1]}, index=pd.Index([1], name="who"))}, r"reset_index\(\)"),
    ({"visits": pa.table([[1], [2], [3]], names=["who", "v", "V"])}, r"two columns of the same name"),
    ({"visits": pd.DataFrame([[1, 2]], columns=[0, "\ud800"])}, r"columns.who is not in the source"),
]


@pytest.mark.parametrize(("source", "words"), REFUSED)
def test_what_is_no_frame_of_the_policy_is_refused_with_what_to_do(tmp_path: Path, source: Any, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        sfumato.open(_policy(tmp_path, source))
    assert list(tmp_path.iterdir()) == []


def test_frames_need_a_ledger_in_a_file_and_cannot_tell_when_they_change(tmp_path: Path) -> None:
    policy = _policy(tmp_path, {"visits": pd.DataFrame({"who": [1], "v": [1]})})
    with pytest.raises(BadPolicy, match=r'Add ledger = "sqlite:PATH"'):
        sfumato.open({key: value for key, value in policy.items() if key != "ledger"})
    with pytest.raises(BadPolicy, match=r"Changes of a frame cannot be detected"):
        sfumato.open({**policy, "refresh": "on-change"})
    with pytest.raises(BadSource, match=r'ledger = "sqlite:PATH"'):
        sfumato.open({**policy, "ledger": "postgresql://nobody@localhost/nothing"})
