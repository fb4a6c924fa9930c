"""`sfumato synthesize` writes rows and a page about them, refuses before it charges, and writes over nothing else."""

from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv, ipc, parquet
from tests.made_up_clinic import fresh_clinic
from tests.sources import HashSource
from tests.synthesis.tables import made

import sfumato
from sfumato.cli import main
from sfumato.synthesis.report import page


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


class Reader(HTMLParser):
    """Collects the tags of a page, and refuses any that was left open."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name in ("src", "href") or name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def read_text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_rows_and_a_page_are_written_and_the_same_again_is_free(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    arguments = ("synthesize", policy, "visits", "--columns", "dept,urgent,cost", "--epsilon", "0.5", "--bins", "8")
    done = run(*arguments, "--output", tmp_path / "visits.parquet")
    assert done.exit_code == 0, done.output
    assert "Measured 6 marginals of dept, urgent, cost" in done.output
    rows = parquet.read_table(tmp_path / "visits.parquet")
    assert rows.column_names == ["dept", "urgent", "cost"]
    again = run(*arguments, "--output", tmp_path / "visits.parquet")  # its own file is written over
    assert "nothing was charged" in again.output
    assert parquet.read_table(tmp_path / "visits.parquet").equals(rows)
    html = (tmp_path / "visits.html").read_text(encoding="utf-8")
    assert {"svg", "table"} <= set(read(html).seen)
    assert "script" not in html
    for said in ("dept × urgent", "±", "measured", "not people"):
        assert said in html
    for ending in ("csv", "arrow"):
        other = run(*arguments, "--rows", 10, "--output", tmp_path / f"few.{ending}")
        assert other.exit_code == 0, other.output
        (tmp_path / "few.html").unlink()
    assert csv.read_csv(tmp_path / "few.csv").num_rows == 10
    with ipc.open_file(tmp_path / "few.arrow") as opened:
        assert opened.read_all().num_rows == 10
    named = run(*arguments, "--nulls", "cost,urgent", "--ids", "patient_id", "--output", tmp_path / "named.parquet")
    assert named.exit_code == 0, named.output
    assert parquet.read_schema(tmp_path / "named.parquet").names == ["patient_id", "dept", "urgent", "cost"]
    assert "NULL" in read_text(tmp_path / "named.html")


REFUSED: list[tuple[str, ...]] = [
    ("visits", "--epsilon", "1", "--output", "rows.txt"),
    ("visits", "--epsilon", "1", "--output", "missing/rows.parquet"),
    ("visits", "--epsilon", "1", "--output", "data/rows.parquet"),
    ("visits", "--epsilon", "1", "--output", "clinic.toml"),
    ("visits", "--epsilon", "1", "--output", "mine.parquet"),
    ("visits", "--epsilon", "1", "--output", "mine.csv"),
    ("visits", "--epsilon", "1", "--output", "rows.csv", "--report", "rows.csv"),
    ("visits", "--epsilon", "1", "--columns", "patient_id", "--output", "rows.csv"),
    ("visits", "--epsilon", "1", "--columns", "stay_hours", "--output", "rows.csv"),
    ("visits", "--epsilon", "much", "--output", "rows.csv"),
    ("visits", "--epsilon", "9", "--columns", "dept", "--output", "rows.csv"),
    ("nowhere", "--epsilon", "1", "--output", "rows.csv"),
    ("departments", "--epsilon", "1", "--output", "rows.csv"),
]


def test_what_is_refused_costs_nothing_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = fresh_clinic(tmp_path)
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"mine": [1]}), "mine.parquet")
    Path("mine.csv").write_text("mine\n1\n", encoding="utf-8")
    for options in REFUSED:
        refused = run("synthesize", policy, *options)
        assert refused.exit_code == 2, (options, refused.output)
        assert not Path("rows.csv").exists()
    assert parquet.read_table("mine.parquet").column_names == ["mine"]
    assert Path("mine.csv").read_text(encoding="utf-8") == "mine\n1\n"
    with sfumato.open(policy) as database:
        assert database.budget().spent.epsilon == 0


def test_names_and_values_cannot_break_the_page() -> None:
    nasty = '<script>alert("x")</script>\x1b[31m'
    data = {nasty: [nasty] * 20, "n": [1] * 20}
    html = page(made(HashSource("page"), data=data, domain={nasty: [nasty, "b"], "n": list(range(60))}), nasty)
    assert "<script" not in html
    assert "\x1b" not in html
    read(html)


def test_nobody_at_all_has_a_page_too() -> None:
    read(page(made(HashSource("empty"), data={"a": [], "b": []}, domain={"a": [1, 2], "b": ["x"]}, rows=0), "nobody"))
