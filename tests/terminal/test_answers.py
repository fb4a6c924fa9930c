"""An answer on the screen: nothing is cut off, nothing moves the cursor, and a bar is as long as its number."""

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from time import sleep

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.made_up_clinic import console, text

from sfumato.accounting.loss import PrivacyLoss, round_down
from sfumato.database import Database
from sfumato.ledger.ledger import Budget
from sfumato.opening import open
from sfumato.planning.accuracy_target import read_margins
from sfumato.release.release import Release
from sfumato.release.rendering.encoding import FORMATS, encoded
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.terminal.answers import draw_gauge, draw_release, print_release
from sfumato.terminal.screen import phases

NASTY = "a|b\x1b[2J\n"
WHOLE = Budget(PrivacyLoss(Fraction(3)), PrivacyLoss(Fraction(0)), PrivacyLoss(Fraction(3)), Fraction(0))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("nasty")
    (folder / "data").mkdir()
    keys = pa.table({"key": ["many", "few", NASTY]})
    rows = pa.table({"id": list(range(1100)), "key": ["many"] * 1000 + ["few"] * 100})
    for name, table in {"keys": keys, "rows_of_people": rows}.items():
        parquet.write_table(table, folder / "data" / f"{name}.parquet")
    policy: dict[str, object] = {
        "name": "nasty",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'nasty.ledger'}",
        "budget": {"epsilon": 1000, "delta": 0},
        "tables": {
            "keys": {"public": True},
            "rows_of_people": {
                "unit": "id",
                "rows_per_unit": 1,
                "columns": {"id": {"type": "integer"}, "key": {"type": "text", "values": "keys.key"}},
            },
        },
    }
    with open(policy) as opened:
        yield opened


@pytest.fixture(scope="module")
def release(database: Database) -> Release:
    return database.ask("SELECT key, COUNT(*) AS n FROM rows_of_people GROUP BY key", epsilon="0.5")


def test_bars_are_as_long_as_their_numbers_and_end_in_their_error_bars(release: Release) -> None:
    shown, written = console()
    assert draw_release(shown, release)
    bars = dict(re.findall(r"(?m)^(\w+) +[\d,]+ ± \d+ \*  (█*░+)", text(written)))
    assert len(bars["many"]) == 34
    assert 2 <= len(bars["few"]) <= 5  # a tenth of it: the noise is of scale 2


def test_no_key_moves_the_cursor_in_any_format(release: Release) -> None:
    shown, written = console()
    draw_release(shown, release)
    assert "\x1b" not in text(written)
    assert "\x1b" not in encoded(release, "table").decode()
    markdown = encoded(release, "markdown").decode().splitlines()[:5]
    assert all(line.count("|") == 3 for line in markdown)
    assert NASTY in {row["key"] for row in json.loads(encoded(release, "json"))["rows"]}


def test_where_numbers_would_be_cut_off_the_answer_is_plain_text(release: Release) -> None:
    shown, written = console(width=14, color=True)
    print_release(shown, release, WHOLE, WHOLE)
    for row in release:
        assert f"{row['n']:,} ±" in text(written)


def test_an_answer_without_rows_is_shown_and_exported(database: Database) -> None:
    empty = database.ask("SELECT key FROM keys WHERE key = 'none'")
    shown, written = console(color=True)
    print_release(shown, empty, WHOLE, WHOLE)
    assert "exact and free" in text(written)
    for form in FORMATS:
        assert b"key" in encoded(empty, form)


def test_numbers_that_are_all_below_zero_have_no_bars(database: Database) -> None:
    negative = database.ask("SELECT key, -5000 - COUNT(*) AS n FROM rows_of_people GROUP BY key", epsilon="0.5")
    shown, written = console()
    assert draw_release(shown, negative)
    assert "█" not in text(written)


@pytest.mark.parametrize(("left", "full"), [("3", 34), ("1.5", 17), ("0", 0)])
def test_the_gauge_is_as_full_as_the_budget(left: str, full: int) -> None:
    spent = 3 - Fraction(left)
    budget = Budget(PrivacyLoss(Fraction(3)), PrivacyLoss(spent), PrivacyLoss(Fraction(left)), spent / 3)
    shown, written = console()
    draw_gauge(shown, budget)
    assert text(written).count("█") == full
    assert f"{round_down(100 - 100 * budget.used, 3)} % left; spent at most ε = {float(spent):g}" in text(written)


@given(st.fractions(min_value=0, max_value=10**6))
def test_what_is_left_is_never_shown_as_more(value: Fraction) -> None:
    shown = Fraction(round_down(value))
    assert shown <= value
    assert value - shown <= value / 1000


@given(st.text())
def test_a_cleaned_text_stays_on_its_line(words: str) -> None:
    assert escape_unprintable(words).isprintable()
    assert len(escape_unprintable(words)) == len(words)


def test_no_margins_are_none() -> None:
    assert read_margins([]) is None
    assert read_margins(["a=b=3"]) == {"a=b": "3"}


def test_phases_are_shown_on_a_terminal_only() -> None:
    for color in (True, False):
        shown, written = console(color=color)
        with phases(shown) as progress:
            progress("bound", "visits")
        assert ("choosing each person's rows in visits" in text(written)) == color


def test_a_short_wait_is_not_shown_and_a_long_one_says_its_phase() -> None:
    shown, written = console(color=True)
    with phases(shown, patience=60) as progress:
        progress("run", "")
    assert "reading the bounded copy" not in text(written)
    shown, written = console(color=True)
    with phases(shown, patience=0.01) as progress:
        progress("plan", "")
        progress("run", "")
        sleep(0.3)
    assert "reading the bounded copy …" in text(written)
