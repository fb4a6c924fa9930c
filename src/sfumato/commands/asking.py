"""Questions: `ask`, `explain`, `sql`, the prompt, and `rehearse`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.commands.opening import open_database, open_rehearsal, patient_progress
from sfumato.commands.options import FORMATS, File, as_analyst, policy_file, price_options, report_format
from sfumato.commands.refusing import REFUSED_EXIT_CODE, print_refusal
from sfumato.errors import BadParameter, Interface, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.database import Database
    from sfumato.engines.engine import PlannedStatement
    from sfumato.ledger.ledger import Budget
    from sfumato.release.release import Release


@click.command()
@policy_file
@click.argument("sql")
@price_options
@as_analyst
@click.option("--format", "form", type=click.Choice(FORMATS), help="The output format; a table by default.")
@click.option("--output", "-o", type=File, help="Write the answer to this file; its extension sets the format.")
@click.option("--plot", type=File, metavar="FILE", help="Draw the answer into this file: .svg, .png, .pdf, .html.")
@click.option("--notes", "all_notes", is_flag=True, help="Print all notes with the answer, not only three.")
@click.option("--weights", metavar="LIST", help="How much each question's error counts with --together: 1,1,4.")
@click.option("--together", is_flag=True, help="Charge several questions as one; shared measurements are made once.")
def ask(
    policy: Path,
    sql: str,
    epsilon: str | None,
    within: tuple[str, ...],
    share: str | None,
    delta: str | None,
    analyst: str | None,
    form: str | None,
    output: Path | None,
    plot: Path | None,
    all_notes: bool,
    weights: str | None,
    together: bool,
) -> None:
    """Ask a question and charge its answer.

    SQL is the question, or - to read it from stdin. The same question again is free. Several questions are separated
    by semicolons; each is answered, and charged, by itself, or all of them as one with --together.
    """
    from sfumato.planning.accuracy_target import read_margins
    from sfumato.release.rendering.encoding import encoded
    from sfumato.terminal import exports
    from sfumato.terminal.statements import split_statements

    kind = exports.format_of(output, form)
    if output is not None:
        exports.check_writable(output)
    if plot is not None:
        exports.check_plot(plot)
    if kind in ("arrow", "parquet") and output is None and sys.stdout.isatty():
        raise BadParameter(
            f"{kind.title()} output cannot be shown on a terminal.", "It is binary.", "Add --output FILE, or a pipe."
        )
    ended, rest = split_statements(_question(sql))
    questions = [*ended, *([rest] if rest or not ended else [])]
    if len(questions) > 1 and (output is not None or plot is not None or kind != "table"):
        raise BadParameter(
            "Several questions are shown as tables only.",
            "A file, a picture or a document holds one answer.",
            "Ask them one after the other.",
        )
    with open_database(policy, analyst) as database:
        for path in filter(None, (output, plot)):
            exports.check_apart(path, database.policy)
        if weights is not None and not together:
            raise BadParameter(
                "--weights needs --together.",
                "Weights split one price between questions that are charged as one.",
                "Add --together, or leave --weights out.",
            )
        if together:
            each = None if weights is None else weights.split(",")
            _ask_together(database, questions, epsilon, within, share, delta, each, all_notes)
            return
        for question in questions:
            before = database.budget()
            with patient_progress() as progress:
                release = database.ask(
                    question,
                    epsilon=epsilon,
                    within=read_margins(within),
                    share=share,
                    delta=delta,
                    progress=progress,
                )
            try:
                if output is not None:
                    exports.write_file(encoded(release, kind), output)
                    click.echo(f"Wrote {output}.", err=True)
                elif kind == "table":
                    price = {"epsilon": epsilon, "within": read_margins(within), "share": share, "delta": delta}
                    _print_table(database, release, before, all_notes, _offer(database, question, price))
                else:
                    sys.stdout.buffer.write(encoded(release, kind))
            except Refusal:
                _print_table(database, release, before, all_notes)  # it was charged: it is shown in any case
                raise
            sys.stdout.flush()  # before a picture is drawn by a program that is not ours
            if plot is not None:
                exports.write_plot(release, plot)
                click.echo(f"Drew {plot}.", err=True)


def _ask_together(
    database: "Database",
    questions: list[str],
    epsilon: str | None,
    within: tuple[str, ...],
    share: str | None,
    delta: str | None,
    weights: list[str] | None,
    all_notes: bool,
) -> None:
    """Ask several questions as one charge, and show their answers one below the other."""
    if within:
        raise BadParameter(
            "Questions asked together cannot have separate margins.",
            "One price is split between them to minimize the total error.",
            "Set one price for all: --epsilon or --share.",
        )
    before = database.budget()
    with patient_progress() as progress:
        price = {"epsilon": epsilon, "share": share, "delta": delta}
        releases = database.ask_all(questions, **price, weights=weights, progress=progress)
    for release in releases[:-1]:
        click.echo(f"{release.to_text(None if all_notes else '--notes')}\n")
    _print_table(database, releases[-1], before, all_notes)


def _question(sql: str) -> str:
    return sys.stdin.read() if sql == "-" else sql


def _offer(database: "Database", sql: str, price: "Mapping[str, object]") -> str:
    """Return what a finer answer costs more, in one sentence; nothing where that is its full price."""
    from sfumato.planning.refinement_offer import explain_with_offer
    from sfumato.release.rendering.escaping import escape_unprintable

    try:
        offer = explain_with_offer(database.explain, sql, **price)[1]
    except Refusal:
        return ""
    return "" if offer is None else escape_unprintable(offer.sentence(f"ask again with {offer.options}"))


def _print_table(database: "Database", release: "Release", before: "Budget", all_notes: bool, offer: str = "") -> None:
    from sfumato.release.rendering.reports import footer_text
    from sfumato.views import free_text

    after, more_notes, free = database.budget(), None if all_notes else "--notes", free_text(release, database.entry)
    if not sys.stdout.isatty():
        click.echo(f"{release.to_text(more_notes)}\n{footer_text(release, before, after, free)}")
        if offer:
            click.echo(offer)
        return
    from sfumato.terminal.answers import print_release
    from sfumato.terminal.screen import screen

    print_release(screen(), release, before, after, more_notes, free=free, offer=offer)


@click.command()
@policy_file
@click.argument("sql")
@price_options
@as_analyst
@report_format
@click.option("--household", type=int, metavar="N", help="Also show the loss of N people together.")
@click.option("--statements", is_flag=True, help="For the owner: print the engine's SQL statements instead.")
def explain(
    policy: Path,
    sql: str,
    epsilon: str | None,
    within: tuple[str, ...],
    share: str | None,
    delta: str | None,
    analyst: str | None,
    form: str,
    household: int | None,
    statements: bool,
) -> None:
    """Say what a question would cost, and how exact.

    It is free, and reads no private data.
    """
    from sfumato.planning.accuracy_target import read_margins
    from sfumato.release.rendering.documents import quote_document
    from sfumato.release.rendering.escaping import to_json

    with open_database(policy, analyst, charge=False) as database:
        price: dict[str, object] = {"epsilon": epsilon, "within": read_margins(within), "share": share, "delta": delta}
        if statements:
            _print_statements(database.statements(_question(sql), **price), form)
            return
        question = _question(sql)
        quote = database.explain(question, **price, household=household)
        click.echo(to_json(quote_document(quote)) if form == "json" else str(quote))
        if form != "json" and quote.loss_if_new is not None and (offer := _offer(database, question, price)):
            click.echo(offer)


def _print_statements(statements: "Sequence[PlannedStatement]", form: str) -> None:
    from sfumato.release.rendering.escaping import to_json

    if form == "json":
        documents = [
            {"label": statement.label, "purpose": statement.purpose, "sql": statement.sql} for statement in statements
        ]
        click.echo(to_json({"statements": documents}))
        return
    click.echo(
        "\n\n".join(str(statement) for statement in statements) or "No statement: this question reads no private table."
    )


@click.command()
@policy_file
@as_analyst
@click.option("--epsilon", help="Epsilon of each question, until changed at the prompt.")
def sql(policy: Path, analyst: str | None, epsilon: str | None) -> None:
    r"""Ask at a prompt; the budget is in it.

    Questions end with a semicolon; EXPLAIN SELECT … says a price; help lists what else there is, exit leaves.
    """
    with open_database(policy, analyst) as database:
        _prompt(database, epsilon)


@click.command()
@policy_file
@click.argument("sql", required=False)
@price_options
@as_analyst
def rehearse(
    policy: Path,
    sql: str | None,
    epsilon: str | None,
    within: tuple[str, ...],
    share: str | None,
    delta: str | None,
    analyst: str | None,
) -> None:
    """Ask synthetic rows that follow the policy alone.

    For writing questions before any budget is spent. Neither the source nor the ledger of POLICY is opened, and every
    answer is marked. Without SQL, a prompt opens.
    """
    from sfumato.planning.accuracy_target import read_margins

    with open_rehearsal(policy, analyst) as database:
        if sql is None:
            _prompt(database, epsilon)
            return
        before = database.budget()
        release = database.ask(_question(sql), epsilon=epsilon, within=read_margins(within), share=share, delta=delta)
        _print_table(database, release, before, False)


def _prompt(database: "Database", epsilon: str | None) -> None:
    from sfumato.terminal.prompt import Session, coloured_input, save_history, with_readline
    from sfumato.terminal.screen import screen

    price: dict[str, object] = {} if epsilon is None else {"epsilon": epsilon}
    session = Session(
        database, screen(), screen(stderr=True), lambda refusal: print_refusal(refusal, Interface.PROMPT), price
    )
    if not sys.stdin.isatty():
        session.run(_next_line)
        sys.exit(REFUSED_EXIT_CODE if session.refused else 0)
    click.echo("End a question with ; set its price with \\epsilon 0.1, type help for more and exit to leave.")
    readline = with_readline(database)
    try:
        session.run(coloured_input(screen()))
    finally:
        save_history(readline)


def _next_line(_prompt: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
