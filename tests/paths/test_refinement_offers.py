"""Beside each answer stands what a finer one costs more; taking the offer up costs exactly that, in every interface."""

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.made_up_clinic import console, text
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.cli import main
from sfumato.ledger.history import source_texts
from sfumato.planning.quote import AnswerSource
from sfumato.planning.refinement_offer import explain_with_offer
from sfumato.release.rendering.account_reports import history_text
from sfumato.release.rendering.documents import quote_document
from sfumato.server.remote_json import charge_document, charge_of, quote_of
from sfumato.terminal.prompt import Session

SQL = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
PURE = {"epsilon": 10, "delta": 0}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget=PURE)) as database:
        yield database


@pytest.mark.parametrize("budget", [PURE, {"epsilon": 10, "delta": 1e-6}], ids=["pure", "delta"])
@pytest.mark.parametrize("price", [{"epsilon": "0.5"}, {"within": {"n": 40}}, {"share": "1%"}], ids=str)
def test_an_offer_costs_what_it_says_and_buys_its_margins(
    tmp_path: Path, budget: dict[str, object], price: dict[str, Any]
) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget=budget)) as own:
        assert explain_with_offer(own.explain, SQL, **price)[1] is None  # nothing is known yet
        first = own.ask(SQL, **price)
        quote, offer = explain_with_offer(own.explain, SQL, **price)
        assert quote.answered
        assert offer is not None
        assert offer.quote.source in (AnswerSource.REFINED, AnswerSource.COMBINED)
        used = own.budget().used
        second = own.ask(SQL, **offer.price)
        assert own.budget().used - used == offer.quote.share
        assert second.receipt.refines == first.receipt.id or second.receipt.rests_on == (first.receipt.id,)
        margin, before = offer.quote.margins["n"], quote.margins["n"]
        assert margin is not None
        assert before is not None
        assert margin < 0.7 * before
        assert all(row["n"][1] - row["n"][0] <= 2 * margin for row in second.intervals())


def test_what_is_known_is_refined_by_half_of_its_margin(own: sfumato.Database) -> None:
    own.ask(SQL, epsilon="0.5")
    quote, offer = explain_with_offer(own.explain, SQL, epsilon=0)
    assert offer is not None
    margin = quote.margins["n"]
    assert margin is not None
    assert (offer.margin, offer.options) == (("n", f"{margin / 2:g}"), f"--within n={margin / 2:g}")
    assert own.ask(SQL, **offer.price).loss.epsilon == offer.quote.loss.epsilon > 0


def test_no_offer_is_made_that_the_budget_cannot_pay(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 1, "delta": 0})) as own:
        own.ask(SQL, epsilon="0.75")
        assert explain_with_offer(own.explain, SQL, epsilon="0.75")[1] is None


def test_a_quote_says_the_day_of_the_answer_that_it_comes_from(own: sfumato.Database) -> None:
    own.ask(SQL, epsilon="0.5")
    day = f"{own.history()[0].time.day} {own.history()[0].time:%B %Y}"
    for sql, epsilon in ((SQL, "0.5"), (SQL, "0.25"), (SQL, 1), ("SELECT COUNT(*) AS n FROM visits", 0)):
        quote = own.explain(sql, epsilon=epsilon)
        assert quote.answered == day
        assert quote_of(quote_document(quote)).answered == day
    assert (
        own.explain(
            "SELECT COUNT(*) AS n FROM visits WHERE dept = 'er' AND day > DATE '2024-02-03'", epsilon=1
        ).answered
        == ""
    )


def test_the_history_shows_which_answer_is_made_from_which(own: sfumato.Database) -> None:
    own.ask("SELECT dept, day, COUNT(*) AS n FROM visits GROUP BY dept, day", epsilon="0.1")
    for epsilon in ("0.5", "1", "3"):
        own.ask(SQL, epsilon=epsilon)
    entries = own.history()
    assert [entry.sequence for entry in entries] == sorted((entry.sequence for entry in entries), reverse=True)
    numbers = [f"#{entry.sequence}" for entry in entries]
    assert source_texts(entries) == [f"refines {numbers[1]}", f"refines {numbers[2]}", "", ""]
    assert source_texts(entries[:1]) == [f"refines {entries[1].receipt[:12]}"]
    shown = history_text(entries)
    assert "made from" in shown.splitlines()[0]
    assert "made from" not in history_text(entries[2:])
    assert [charge_of(charge_document(entry)).made_from for entry in entries] == [entry.made_from for entry in entries]


def test_the_history_shows_what_a_measurement_was_combined_with(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10, "delta": 1e-6})) as own:
        first = own.ask(SQL, epsilon="0.5")
        own.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
        second, kept = own.history()
        assert second.rests_on == (first.receipt.id,)
        assert source_texts((second, kept)) == [f"combined with #{kept.sequence}", ""]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "visits.csv").write_text(
        "person,dept\n" + "".join(f"{n},{'er' if n % 3 else 'icu'}\n" for n in range(90))
    )
    made = tmp_path / "clinic.toml"
    made.write_text(
        'name = "clinic"\nsource = "csv:visits.csv"\n[budget]\nepsilon = 4\ndelta = 0\n'
        '[tables.visits]\nunit = "person"\nrows_per_unit = 1\n[tables.visits.columns]\nperson = { type = "integer" }\n'
        'dept = { type = "text", values = ["er", "icu"] }\n'
    )
    return str(made)


def _said(*words: str) -> str:
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    return found.output


def test_the_commands_say_the_offer_and_what_it_says_works(file: str) -> None:
    first = _said("ask", file, SQL, "--epsilon", "0.5").splitlines()
    assert first[-1] == "Refine for 0.5 more (n ±3 at 95 %): ask again with --epsilon 1"
    again = _said("ask", file, SQL, "--epsilon", "0.5").splitlines()
    assert re.match(r"free: from your answer of \d+ \w+ \d{4}; ", again[-2])
    assert again[-1] == first[-1]
    explained = _said("explain", file, SQL, "--epsilon", "0.5").splitlines()
    assert explained[1].startswith("source: known (your answer of ")
    assert explained[-1] == first[-1]
    options = first[-1].partition("again with ")[2].split()
    assert "cost: ε = 0.5, δ = 0" in _said("ask", file, SQL, *options)
    with sfumato.open(file) as database:
        assert database.budget().spent.epsilon == 1
    listed = _said("history", file)
    assert "made from" in listed
    assert re.search(r"refines #\d+", listed)
    assert '"refines"' in _said("history", file, "--format", "json")


def test_the_prompt_refines_the_last_question(file: str) -> None:
    with sfumato.open(file) as database:
        shown, written = console()
        refused: list[sfumato.Refusal] = []
        lines = iter([r"\refine", r"\epsilon 0.5", f"{SQL};", r"\refine", r"\refine", r"\history", "exit"])
        Session(database, shown, console()[0], refused.append).run(lambda _: next(lines))
        said = text(written)
        assert [refusal.code for refusal in refused] == ["unknown_name"]
        assert re.findall(r"Refine for ([\d.]+) more", said) == ["0.5", "1", "2"]
        assert [entry.loss.epsilon for entry in database.history()] == [1, Fraction(1, 2), Fraction(1, 2)]
        assert database.budget().spent.epsilon == 2
        assert "refines #" in said
