"""The command line: one function per verb. A verb imports what it runs when it runs, so that help comes at once."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sfumato.errors import REFUSALS, BadParameter, Refusal, UnknownName, shown

if TYPE_CHECKING:
    from sfumato.database import Database, Progress
    from sfumato.ledger.ledger import Budget
    from sfumato.release.release import Release

REFUSED = 2
"""The exit status of a refusal, and of a command line that cannot be read."""
FORMATS = ("table", "json", "csv", "arrow", "markdown")
REPORTS = ("table", "json")
LAB, LOCAL, STREAMS = "sfumato.lab.commands", "sfumato.local.commands", "sfumato.streams.commands"
"""Workshops. The house does not depend on them: they are found by name when somebody wants one."""

Verb = TypeVar("Verb", bound=Callable[..., object])
File = click.Path(path_type=Path)


class _Refusing(click.Group):
    """A group whose refusals are answers: printed without a trace, with exit status 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Refusal as refusal:
            print_refusal(refusal)
            ctx.exit(REFUSED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which people need them


def print_refusal(refusal: Refusal) -> None:
    """Print what, why and what next to stderr, a line each; what it quotes may hold anything."""
    from sfumato.release.harmless import visible

    click.echo(f"{click.style(f'Refused ({refusal.code}):', fg='red', bold=True)} {visible(refusal.what)}", err=True)
    click.echo(f"  why:  {visible(refusal.why)}", err=True)
    click.echo(f"  next: {visible(refusal.remedy)}", err=True)


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sfumato", message="sfumato %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Answers about many people that tell next to nothing about any one of them."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters is no reason to fail


def _policy(verb: Verb) -> Verb:
    return click.argument("policy", type=File)(verb)


def _priced(verb: Verb) -> Verb:
    for option in (
        click.option("--delta", help="The delta of Gaussian noise and of keys chosen privately; the policy has one."),
        click.option("--within", multiple=True, metavar="COLUMN=MARGIN", help="The 95 % margin that you need instead."),
        click.option("--epsilon", help="The most that the whole question may cost."),
    ):
        verb = option(verb)
    return verb


def _analyst(verb: Verb) -> Verb:
    return click.option("--analyst", metavar="NAME", help="Ask as this analyst of the policy.")(verb)


def _report(verb: Verb) -> Verb:
    option = click.option("--format", "form", type=click.Choice(REPORTS), default="table", help="How it is printed.")
    return option(verb)


@contextmanager
def _opened(policy: Path, analyst: str | None = None, confirm: str | None = None) -> "Iterator[Database]":
    """Open a database; where somebody watches, show in which phase the bounded copy is."""
    from sfumato.database import open

    with _watched(lambda progress: open(policy, analyst=analyst, progress=progress, confirm=confirm)) as database:
        yield database


@contextmanager
def _watched(opening: "Callable[[Progress | None], Database]") -> "Iterator[Database]":
    if sys.stderr.isatty():
        from sfumato.terminal.screen import phases, screen

        with phases(screen(stderr=True)) as progress:
            database = opening(progress)
    else:
        database = opening(None)
    with database:
        yield database


@main.command()
@click.argument("folder", type=File, default="sfumato-demo")
def demo(folder: Path) -> None:
    """Show it all on made-up patients; FOLDER stays.

    A clinic is made up in FOLDER (sfumato-demo, if none is named), registered, and asked a handful of questions.
    """
    from sfumato.demo.tour import tour
    from sfumato.terminal.screen import screen

    tour(folder, screen(), screen(stderr=True))


@main.command()
@click.argument("data", type=File)
@click.option("--unit", multiple=True, metavar="[TABLE.]COLUMN", help='Who is protected: a column, "rows", a path.')
@click.option("--rows-per-unit", multiple=True, metavar="[TABLE=]N", help="How many rows of one person count.")
@click.option("--bounds", multiple=True, metavar="COLUMN=LOW:HIGH", help="The range of values that count.")
@click.option("--step", multiple=True, metavar="COLUMN=STEP", help="The precision of a decimal.")
@click.option("--values", multiple=True, metavar="COLUMN=A,B,C", help="The public keys of a column.")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="The type of a column (CSV has none).")
@click.option("--unique", multiple=True, metavar="COLUMN", help="A key: of a person's rows with one value one counts.")
@click.option("--public", multiple=True, metavar="TABLE", help="A table that is about nobody.")
@click.option("--epsilon", help="What all answers together may cost.")
@click.option("--delta", help="The delta of the budget, far below one in the number of people.")
@click.option("--smartnoise", type=File, metavar="FILE", help="Take units and bounds from SmartNoise's YAML.")
@click.option("--look", is_flag=True, help="Take what is missing from the data itself: NOT private, your risk.")
@click.option("--output", "-o", type=File, help="The policy file; by default the data's name, ending in .toml.")
def init(
    data: Path,
    unit: tuple[str, ...],
    rows_per_unit: tuple[str, ...],
    bounds: tuple[str, ...],
    step: tuple[str, ...],
    values: tuple[str, ...],
    types: tuple[str, ...],
    unique: tuple[str, ...],
    public: tuple[str, ...],
    epsilon: str | None,
    delta: str | None,
    smartnoise: Path | None,
    look: bool,
    output: Path | None,
) -> None:
    """Draft a policy from names and types alone.

    DATA is a Parquet, CSV or DuckDB file, or a folder of files.

    A column is named COLUMN or TABLE.COLUMN; options may be repeated: --unit patients.id --unit visits.patient_id.
    Where another table names the person: --unit "lineitem=orders.o_custkey via l_orderkey = o_orderkey". Keys can be
    those of a public table: --values carrier=airlines.carrier.

    At a terminal, what is missing is asked for; elsewhere it is left in the file, commented out, to be filled in.
    """
    from dataclasses import replace

    from sfumato.drafting import options
    from sfumato.drafting.command import Stopped, Terminal, draft_policy

    said = replace(
        options.column_wishes(types, bounds, step, values),
        units=unit,
        rows_per_unit=options.rows_per_unit(rows_per_unit),
        unique=unique,
        public=public,
        epsilon=epsilon,
        delta=delta,
    )

    def ask(question: str) -> str:
        try:
            return str(click.prompt(question, "", show_default=False)).strip()
        except click.Abort:
            click.echo()
            raise Stopped from None

    def warn(words: str) -> None:
        click.echo(f"{click.style('--look:', fg='yellow', bold=True)} {words}", err=True)

    watched = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        draft_policy(data, said, smartnoise, look, output, Terminal(ask if watched else None, click.echo, warn))
    except Stopped:
        raise click.Abort from None


@main.command()
@_policy
@_report
@click.option("--confirm", metavar="HASH", help="Record a policy whose tables changed after something was spent.")
def check(policy: Path, form: str, confirm: str | None) -> None:
    """Check a policy; say what it lets analysts learn.

    The data of POLICY is registered, which takes a while the first time; nobody is charged.
    """
    with _opened(policy, confirm=confirm) as database:
        from sfumato.terminal import checks

        checked = checks.check(database)
        click.echo(checks.checked_json(checked) if form == "json" else checks.checked_text(checked))


@main.command()
@_policy
@click.option("--confirm", metavar="HASH", help="Record a policy whose tables changed after something was spent.")
def refresh(policy: Path, confirm: str | None) -> None:
    """Read the data again: take a new snapshot of it.

    Until it is complete, and if it cannot be taken, answers come from the one before. Questions that were answered
    about that one cost again.
    """
    from sfumato.database import refreshed

    with _watched(lambda progress: refreshed(policy, progress=progress, confirm=confirm)):
        click.echo("Took a new snapshot of the source. From now on answers come from it.")


@main.command()
@_policy
@click.argument("sql")
@_priced
@_analyst
@click.option("--format", "form", type=click.Choice(FORMATS), help="How it is written; by default a table.")
@click.option("--output", "-o", type=File, help="Write the answer into this file; its ending says the format.")
@click.option("--plot", type=File, metavar="FILE", help="Draw the answer into this file: .svg, .png, .pdf, .html.")
def ask(
    policy: Path,
    sql: str,
    epsilon: str | None,
    within: tuple[str, ...],
    delta: str | None,
    analyst: str | None,
    form: str | None,
    output: Path | None,
    plot: Path | None,
) -> None:
    """Ask a question and charge its answer.

    SQL is the question, or - to read it from stdin. The same question again is free.
    """
    from sfumato.terminal import exports
    from sfumato.terminal.reports import read_margins

    kind = exports.format_of(output, form)
    if output is not None:
        exports.check_writable(output)
    if plot is not None:
        exports.check_plot(plot)
    if kind == "arrow" and output is None and sys.stdout.isatty():
        raise BadParameter("Arrow is not for a terminal.", "It is bytes.", "Add --output FILE, or a pipe.")
    with _opened(policy, analyst) as database:
        for path in filter(None, (output, plot)):
            exports.check_apart(path, database.policy)
        before = database.budget()
        release = database.ask(_question(sql), epsilon=epsilon, within=read_margins(within), delta=delta)
        try:
            if output is not None:
                exports.write_file(exports.encoded(release, kind), output)
                click.echo(f"Wrote {output}.", err=True)
            elif kind == "table":
                _print_table(database, release, before)
            else:
                sys.stdout.buffer.write(exports.encoded(release, kind))
        except Refusal:
            _print_table(database, release, before)  # it was charged: it is shown in any case
            raise
        sys.stdout.flush()  # before a picture is drawn by a program that is not ours
        if plot is not None:
            exports.write_plot(release, plot)
            click.echo(f"Drew {plot}.", err=True)


def _question(sql: str) -> str:
    return sys.stdin.read() if sql == "-" else sql


def _print_table(database: "Database", release: "Release", before: "Budget") -> None:
    from sfumato.terminal.reports import footer_text

    after = database.budget()
    if not sys.stdout.isatty():
        click.echo(f"{release}\n{footer_text(release, before, after)}")
        return
    from sfumato.terminal.answers import print_release
    from sfumato.terminal.screen import screen

    print_release(screen(), release, before, after)


@main.command()
@_policy
@click.argument("sql")
@_priced
@_analyst
@_report
def explain(
    policy: Path,
    sql: str,
    epsilon: str | None,
    within: tuple[str, ...],
    delta: str | None,
    analyst: str | None,
    form: str,
) -> None:
    """Say what a question would cost, and how exact.

    It is free, and reads no private data.
    """
    from sfumato.terminal.reports import quote_json, read_margins

    with _opened(policy, analyst) as database:
        quote = database.explain(_question(sql), epsilon=epsilon, within=read_margins(within), delta=delta)
        click.echo(quote_json(quote) if form == "json" else str(quote))


@main.command()
@_policy
@_analyst
@click.option("--epsilon", help="What a question may cost, until changed at the prompt.")
def sql(policy: Path, analyst: str | None, epsilon: str | None) -> None:
    r"""Ask at a prompt; the budget is in it.

    Questions end with a semicolon; EXPLAIN SELECT … says a price; \? lists what else there is, \q leaves.
    """
    from sfumato.terminal.prompt import Session, save_history, with_readline
    from sfumato.terminal.screen import screen

    with _opened(policy, analyst) as database:
        asked: dict[str, object] = {} if epsilon is None else {"epsilon": epsilon}
        session = Session(database, screen(), screen(stderr=True), print_refusal, asked)
        if not sys.stdin.isatty():
            session.run(_next_line)
            sys.exit(REFUSED if session.refused else 0)
        click.echo(r"A question ends with ; \epsilon 0.1 says what it may cost, \? helps, \q leaves.")
        readline = with_readline(database)
        try:
            session.run(input)
        finally:
            save_history(readline)


def _next_line(_prompt: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


@main.command()
@_policy
@_analyst
@_report
def budget(policy: Path, analyst: str | None, form: str) -> None:
    """Show what may be spent, what was, and what is left."""
    from sfumato.terminal.reports import CHANGED, budget_json, budget_text

    with _opened(policy, analyst) as database:
        found = database.budget()
        changed = database.source_changed() if analyst is None else None
        click.echo(budget_json(found, changed) if form == "json" else budget_text(found))
        if changed and form == "table":
            click.echo(CHANGED)
        if form == "table" and sys.stdout.isatty():
            from sfumato.terminal.answers import draw_gauge
            from sfumato.terminal.screen import screen

            draw_gauge(screen(), found)


@main.command()
@_policy
@_analyst
@_report
def history(policy: Path, analyst: str | None, form: str) -> None:
    """List what was asked and charged, oldest first."""
    from sfumato.terminal.reports import history_json, history_text

    with _opened(policy, analyst) as database:
        entries = database.history()
        click.echo(history_json(entries) if form == "json" else history_text(entries))


@main.command()
@_policy
@_report
@click.option("--accept-clock", is_flag=True, help="Go on although the clock is behind the last entry: on record.")
def verify(policy: Path, form: str, accept_clock: bool) -> None:
    """Check the ledger with a second reader.

    Every hash and every sum is computed again.
    """
    from sfumato.terminal.reports import verified_json, verified_text

    if accept_clock:
        from sfumato.ledger import opening
        from sfumato.policy.reading import read_policy

        behind = opening.accept_clock(read_policy(policy))
        said = f"It is on record that the clock is right, {behind} behind the last entry." if behind else ""
        click.echo(said or "The clock is not behind the last entry: nothing was recorded.", err=True)
    with _opened(policy) as database:
        verified = database.verify()
        click.echo(verified_json(verified) if form == "json" else verified_text(verified))


@main.command()
@click.argument("name", required=False)
@click.option("--seed", type=int, default=1, show_default=True, help="Which made-up data.")
@click.option("--plot", type=File, metavar="FILE", help="Draw what was found into this file.")
def attack(name: str | None, seed: int, plot: Path | None) -> None:
    """Watch an attack on answers without such noise.

    Without a NAME, the attacks are listed. Each runs on made-up data, in seconds.
    """
    attacks: dict[str, Callable[[int, Path | None], str]] = import_module(LAB).ATTACKS
    if name is None:
        listing = click.HelpFormatter(width=80)
        listing.write_dl([(known, " ".join((run.__doc__ or "").split())) for known, run in attacks.items()])
        click.echo(listing.getvalue(), nl=False)
    elif name in attacks:
        click.echo(attacks[name](seed, plot))
    else:
        from sfumato.policy.entry import suggestion

        raise UnknownName(
            f"There is no attack {shown(name)}.",
            "Each has its name.",
            f"{suggestion(name, attacks)}There are: {', '.join(attacks)}.",
        )


@main.command()
@_policy
@click.option("--seconds", type=click.FloatRange(min=1), default=60, show_default=True, help="How long to look.")
def audit(policy: Path, seconds: float) -> None:
    """Search for a breach of a policy's promises.

    Random questions are asked about made-up people under POLICY, and about the same people without one of them. Its
    data and its ledger are not touched.
    """
    run: Callable[[Path, float], str] = import_module(LAB).AUDIT
    click.echo(run(policy, seconds))


@main.command()
@click.option("--days", type=int, default=365, show_default=True, help="How many days are counted up.")
@click.option("--epsilon", default="1", show_default=True, help="What all days together may cost.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which made-up visits; the noise has no seed.")
@click.option("--plot", type=File, metavar="FILE", help="Draw it into this file.")
def stream(days: int, epsilon: str, seed: int, plot: Path | None) -> None:
    """Watch counts that are released every day.

    The visits are made up; the noise, its price and the file that survives a restart are real.
    """
    show: Callable[[int, str, int, Path | None], str] = import_module(STREAMS).SHOW
    click.echo(show(days, epsilon, seed, plot))


@main.command()
@click.option("--people", type=int, default=100_000, show_default=True, help="How many are made up.")
@click.option("--epsilon", default="1", show_default=True, help="What one report costs the person who gives it.")
@click.option("--plot", type=File, metavar="FILE", help="Draw shares and error bars into this file.")
def survey(people: int, epsilon: str, plot: Path | None) -> None:
    """Ask made-up people whose own devices add the noise.

    Shares of emoji, a mean and the most common names, each beside the truth; and what it costs.
    """
    run: Callable[[int, str, Path | None], str] = import_module(LOCAL).survey
    click.echo(run(people, epsilon, plot))


@main.command()
def codes() -> None:
    """Every refusal code with its meaning."""
    listing = click.HelpFormatter(width=80)
    listing.write_dl([(kind.code, " ".join((kind.__doc__ or "").split())) for kind in REFUSALS])
    click.echo(listing.getvalue(), nl=False)
