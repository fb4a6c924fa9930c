"""Reports come in by every door and are counted once; tallies are summed by any engine; shares are made consistent."""

import io
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources import HashSource

from sfumato.errors import Refusal
from sfumato.local.choosing import ORACLES, choose
from sfumato.local.collector import MAX_MESSAGE_BYTES, Collector, read_tally, tally_table
from sfumato.local.consistent import most_likely, norm_sub
from sfumato.local.hadamard import HadamardResponse
from sfumato.local.sketch import CountMeanSketch, HadamardSketch
from sfumato.local.tally import Tally

ORACLE = choose(1, 20)
VALUES = np.arange(3000) % 20
REPORTS = ORACLE.release(VALUES, HashSource(1))


def post(collector: Collector, body: bytes, method: str = "POST", length: str | None = None) -> tuple[str, bytes]:
    environment: dict[str, Any] = {}
    setup_testing_defaults(environment)
    stated = str(len(body)) if length is None else length
    environment |= {"REQUEST_METHOD": method, "CONTENT_LENGTH": stated, "wsgi.input": io.BytesIO(body)}
    said: list[str] = []

    def start(status: str, headers: object, problem: object = None) -> Callable[[bytes], object]:
        said.append(status)
        return io.BytesIO().write

    application = collector.application if length is not None else validator(collector.application)
    environment["QUERY_STRING"] = ""
    parts = application(environment, start)
    answer = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    return said[0], answer


def test_messages_files_and_requests_are_counted_once(tmp_path: Path) -> None:
    collector = Collector(ORACLE)
    assert collector.take(ORACLE.encode(REPORTS[:1000])) == 1000
    (tmp_path / "reports").write_bytes(ORACLE.encode(REPORTS[1000:1500]))
    assert collector.take_file(tmp_path / "reports") == 500
    assert post(collector, ORACLE.encode(REPORTS[1500:2000])) == ("204 No Content", b"")
    rows = pa.FixedSizeListArray.from_arrays(REPORTS[2000:2500].reshape(-1), REPORTS.shape[1])
    assert collector.take_arrow(pa.table({"report": rows})) == 500
    messages = pa.table({"message": [ORACLE.encode(REPORTS[[place]]) for place in range(2500, 3000)]})
    assert collector.take_arrow(messages.to_reader()) == 500
    assert collector.tally == ORACLE.tally(REPORTS)


def test_integers_come_as_a_plain_column() -> None:
    oracle = choose(1, 1024)
    reports = oracle.release(np.arange(1024), HashSource(2))
    collector = Collector(oracle)
    assert collector.take_arrow(pa.RecordBatch.from_pydict({"report": reports})) == 1024
    assert collector.tally == oracle.tally(reports)


def test_what_is_refused_counts_nothing() -> None:
    collector = Collector(ORACLE)
    status, text = post(collector, b"nonsense")
    assert status == "400 Bad Request"
    assert b"message" in text
    assert post(collector, b"", method="GET")[0] == "405 Method Not Allowed"
    assert post(collector, b"", length="")[0] == "411 Length Required"
    assert post(collector, b"", length="-3")[0] == "411 Length Required"
    assert post(collector, b"", length=str(MAX_MESSAGE_BYTES + 1))[0] == "413 Content Too Large"
    half = pa.table({"message": [ORACLE.encode(REPORTS[:3]), b"nonsense"]})
    bad: list[Callable[[], object]] = [
        lambda: collector.take_arrow(half),
        lambda: collector.take_arrow(pa.table({"other": [1]})),
        lambda: collector.take_arrow(pa.table({"report": [1, None]})),
        lambda: collector.take_arrow(pa.table({"report": [0.5]})),
        lambda: collector.take_arrow(pa.table({"report": [[1], [1, 2]]})),
        lambda: collector.take_arrow([1, 2]),
        lambda: collector.take_file("no such file"),
        lambda: collector.merge(choose(2, 20).tally([])),
        lambda: Collector("oracle"),  # type: ignore[arg-type]
    ]
    for refused in bad:
        with pytest.raises(Refusal):
            refused()
    assert collector.tally.reports == 0


def test_threads_may_share_a_collector() -> None:
    collector = Collector(ORACLE)

    def send(start: int) -> None:
        for place in range(start, 3000, 4):
            collector.take(ORACLE.encode(REPORTS[[place]]))

    threads = [Thread(target=send, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert collector.tally == ORACLE.tally(REPORTS)


def test_machines_merge() -> None:
    one, other = Collector(ORACLE), Collector(ORACLE)
    one.take(ORACLE.encode(REPORTS[:800]))
    other.take(ORACLE.encode(REPORTS[800:]))
    one.merge(other.tally)
    assert one.tally == ORACLE.tally(REPORTS)


@pytest.mark.parametrize(
    "mechanism",
    [*(kind(1, 12) for kind in ORACLES), CountMeanSketch(1, 3, 8), HadamardSketch(1, 3, 8)],  # type: ignore[arg-type]
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_duckdb_sums_the_tallies_of_machines(mechanism: Any, tmp_path: Path) -> None:
    reports = mechanism.release(np.arange(600) % 12, HashSource(4))
    for machine in range(3):
        pq.write_table(tally_table(mechanism.tally(reports[machine::3])), tmp_path / f"{machine}.parquet")
    question = f"SELECT mechanism, place, SUM(support) AS support FROM '{tmp_path}/*.parquet' GROUP BY ALL"  # noqa: S608
    summed: Any = duckdb.sql(question)
    assert read_tally(mechanism, summed.to_arrow_table()) == mechanism.tally(reports)


def test_a_table_of_another_mechanism_is_refused() -> None:
    table = tally_table(ORACLE.tally(REPORTS))
    other = table.set_column(2, "support", [["x"] * table.num_rows])
    for mechanism, bad in (
        (choose(2, 20), table),
        (ORACLE, table.slice(1)),
        (ORACLE, table.drop_columns(["place"])),
        (ORACLE, other),
        (ORACLE, "table"),
    ):
        with pytest.raises(Refusal):
            read_tally(mechanism, bad)
    assert read_tally(ORACLE, table) == ORACLE.tally(REPORTS)


# --- consistent shares ---


def nearest(shares: Any) -> Any:
    """The nearest point of the simplex, by many small steps: another way than sorting."""
    shift = np.linspace(shares.min() - 1, shares.max(), 20_001)
    sums = np.array([np.maximum(shares - step, 0).sum() for step in shift])
    return np.maximum(shares - shift[np.argmin(np.abs(sums - 1))], 0)


def test_norm_sub_is_the_nearest_list_of_shares() -> None:
    random = np.random.default_rng(2)
    for shares in (random.normal(0.1, 0.3, 9), np.array([5.0, -1.0]), np.zeros(4), np.full(3, -2.0)):
        found = norm_sub(shares)
        assert found.by == "norm-sub"
        assert found.shares.sum() == pytest.approx(1)
        assert found.shares.min() >= 0
        assert found.shares == pytest.approx(nearest(shares), abs=1e-3)


@pytest.mark.parametrize("kind", ORACLES, ids=lambda kind: kind.__name__)
def test_the_likeliest_shares_cannot_be_bettered(kind: Any) -> None:
    """At a maximum over lists of shares the slopes of all positive ones are equal, and no other is steeper."""
    oracle = kind(1, 15)
    tally = oracle.tally(oracle.release(np.arange(900) ** 2 % 15, HashSource(3)))
    found = most_likely(oracle, tally)
    assert found.by == "likelihood"
    assert found.shares.sum() == pytest.approx(1)
    chance = oracle.false + found.shares * (oracle.hit - oracle.false)
    slopes = (tally.support / tally.reports - chance) / (chance * (1 - chance))
    positive = found.shares > 1e-9
    assert np.ptp(slopes[positive]) < 1e-6
    assert slopes[~positive].max(initial=-9) <= slopes[positive].max() + 1e-6


def test_consistent_shares_err_less_on_few_reports() -> None:
    oracle, truth = choose(1, 64), np.zeros(64)
    values = np.arange(2000) % 4
    truth[:4] = 0.25
    for seed in range(3):
        tally = oracle.tally(oracle.release(values, HashSource(seed)))
        plain = ((oracle.estimate(tally) - truth) ** 2).sum()
        for found in (norm_sub(oracle.estimate(tally)), most_likely(oracle, tally)):
            assert ((found.shares - truth) ** 2).sum() < plain


def test_what_is_no_list_of_shares_is_refused() -> None:
    bad: list[Callable[[], object]] = [
        lambda: norm_sub([]),
        lambda: norm_sub([float("nan")]),
        lambda: norm_sub([[0.5]]),
        lambda: norm_sub(["a"]),
        lambda: most_likely(ORACLE, ORACLE.tally([])),
        lambda: most_likely(HadamardResponse(1, 20), ORACLE.tally(REPORTS)),  # type: ignore[arg-type]
        lambda: Tally(ORACLE, np.zeros(20, dtype=np.int64), 2**62) + ORACLE.tally(REPORTS),
    ]
    for refused in bad:
        with pytest.raises(Refusal):
            refused()
