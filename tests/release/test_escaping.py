"""Keys are text from people: in no format do they command anything, and where a format can keep them it does."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import sfumato
from sfumato.cli import main
from sfumato.errors import BadParameter
from sfumato.release.release import Release
from sfumato.release.rendering.encoding import _ENCODERS, FORMATS, encoded
from sfumato.release.rendering.escaping import escape_unprintable, for_csv, for_html, for_markdown, labels, to_json
from sfumato.terminal.exports import PICTURES, write_plot

KEYS = (
    "</script><script>alert(1)</script>",
    "\x1b]0;owned\x07\x1b[2J",
    "\x9b31m",
    "=cmd|'/c calc'!A0",
    "+1",
    "-2",
    "@SUM(A1)",
    " =1",
    "'=1",
    "\u202egnp.exe",
    "a|b",
    "[x](javascript:alert(1))",
    "`code` *bold* \\",
    "line\nbreak\r\ttab",
    "<img src=x onerror=alert(1)>",
    "\ufffe\U0001fffe",
    "x" * 500,
    "x" * 500 + "y",
    "größe",
)
SQL = "SELECT k.key AS key, COUNT(*) AS n FROM people p JOIN keys k ON p.key = k.key GROUP BY 1"
INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe]")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("harmless")
    (folder / "data").mkdir()
    parquet.write_table(pa.table({"key": KEYS}), folder / "data" / "keys.parquet")
    parquet.write_table(pa.table({"id": [1, 2], "key": list(KEYS[:2])}), folder / "data" / "people.parquet")
    (folder / "keys.toml").write_text(
        f"""name = "keys"
source = "parquet:{folder}/data"
[budget]
epsilon = 100
delta = 0
[tables.keys]
public = true
columns = {{ key = {{ type = "text" }} }}
[tables.people]
unit = "id"
rows_per_unit = 1
columns = {{ id = {{ type = "integer" }}, key = {{ type = "text", values = "keys.key" }} }}
"""
    )
    return folder / "keys.toml"


@pytest.fixture(scope="module")
def release(policy: Path) -> Iterator[Release]:
    with sfumato.open(policy) as database:
        found = database.ask("SELECT key, COUNT(*) AS n, COUNT(*) - 1000 AS less FROM people GROUP BY key", epsilon=1)
        assert {row["key"] for row in found.rows()} == set(KEYS)  # as they are, for programs
        yield found


def test_json_reads_back_exactly_and_holds_nothing_that_a_page_or_terminal_obeys(release: Release) -> None:
    written = encoded(release, "json").decode()
    assert [row["key"] for row in json.loads(written)["rows"]] == [row["key"] for row in release.rows()]
    assert not INVISIBLE.search(written.replace("\n", ""))
    assert "<" not in written


def test_csv_is_read_by_every_reader_and_computed_by_none(release: Release) -> None:
    written = encoded(release, "csv").decode()
    rows = list(csv.DictReader(io.StringIO(written, newline="")))
    assert len(rows) == len(KEYS) == len(written.splitlines()) - 1
    for row, kept in zip(rows, release.rows(), strict=True):
        assert row["key"].removeprefix("'") == escape_unprintable(kept["key"])
        assert not row["key"].lstrip().startswith(("=", "+", "-", "@"))
        assert int(row["n"]) == kept["n"]
        assert int(row["less"]) == kept["less"]  # a negative number stays a number
    assert any(row["less"].startswith("-") for row in rows)
    assert not INVISIBLE.search(written.replace("\n", ""))


def test_arrow_keeps_the_keys_as_they_are(release: Release) -> None:
    table = pa.ipc.open_file(encoded(release, "arrow")).read_all()
    assert table["key"].to_pylist() == [row["key"] for row in release.rows()]


def test_a_markdown_table_has_its_cells_and_no_link_code_or_tag(release: Release) -> None:
    lines = encoded(release, "markdown").decode().splitlines()[2 : 2 + len(KEYS)]
    for line in lines:
        assert line.count("|") == 4
        assert not re.search(r"[<>`\[\]*\\]", line)
        assert not INVISIBLE.search(line)


def test_the_notebook_and_the_text_view_hold_no_tag_and_no_escape(release: Release) -> None:
    page = release._repr_html_()
    ElementTree.fromstring(f"<div>{page.replace('<br>', '<br/>')}</div>")  # noqa: S314 - our own page
    assert "<script" not in page
    assert "<img" not in page
    for text in (page, str(release)):
        assert not INVISIBLE.search(text.replace("\n", ""))


@pytest.mark.parametrize("ending", PICTURES)
def test_every_kind_of_picture_is_drawn_and_harmless(release: Release, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"answer{ending}"
    write_plot(release, path)
    drawn = path.read_bytes()
    assert drawn
    if ending in (".html", ".svg", ".json"):
        assert b"alert(1)</script>" not in drawn
        assert b"<img" not in drawn
        assert b"\x1b" not in drawn
    if ending == ".svg":
        ElementTree.fromstring(drawn)  # noqa: S314 - our own picture


def test_different_keys_have_different_labels() -> None:
    named = labels([*KEYS, "\x01", "\x02", "<", "‹"])
    assert len(set(named.values())) == len(KEYS) + 4
    assert max(map(len, named.values())) <= 90


def test_an_answer_that_cannot_be_drawn_or_written_was_shown_before(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        pass

    class Chart:
        def save(self, _: str) -> None:
            raise Panic

    monkeypatch.setattr(Release, "plot", lambda _: Chart())
    asked = ["ask", str(policy), "SELECT COUNT(*) AS n FROM people", "--epsilon"]
    drawn = CliRunner().invoke(main, [*asked, "2", "--plot", str(tmp_path / "a.svg")])
    assert (drawn.exit_code, "± " in drawn.stdout) == (2, True)
    assert "could not be drawn" in drawn.stderr

    def fail(_: Release) -> bytes:
        raise ValueError

    monkeypatch.setitem(_ENCODERS, "csv", fail)
    for more in (["--format", "csv"], ["--output", str(tmp_path / "a.csv")]):
        written = CliRunner().invoke(main, [*asked, "3", *more])
        assert (written.exit_code, "± " in written.stdout) == (2, True)


def test_numbers_beyond_every_renderer_are_drawn_and_written(policy: Path, tmp_path: Path) -> None:
    with sfumato.open(policy) as database:
        release = database.ask("SELECT key, COUNT(DISTINCT id) AS n FROM people GROUP BY key", epsilon="1e-40")
    assert max(high for _, high in (row["n"] for row in release.intervals())) > 10**38
    for form in FORMATS:
        assert encoded(release, form)
    for ending in PICTURES:
        write_plot(release, tmp_path / f"answer{ending}")
    assert len(release.to_pandas()) == len(release.to_polars()) == len(KEYS)


@given(st.text())
def test_whatever_the_text_no_format_obeys_it(text: str) -> None:
    assert not INVISIBLE.search(escape_unprintable(text))
    assert "<" not in for_html(text)
    assert "<" not in labels([text])[text]
    assert not set("<>|[]`*\\") & set(for_markdown(text))
    assert not for_csv(text).lstrip().startswith(("=", "+", "-", "@"))
    assert json.loads(to_json(text)) == text
    assert not INVISIBLE.search(to_json(text))


def test_the_picture_that_was_asked_for_is_named_in_the_refusal(release: Release, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="cannot be written"):
        write_plot(release, tmp_path / "nowhere" / "a.json")
