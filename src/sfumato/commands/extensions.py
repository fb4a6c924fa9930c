"""Commands of the extension packages, imported by name when they are run."""

from collections.abc import Callable
from importlib import import_module
from math import isfinite
from pathlib import Path

import click

from sfumato.commands.opening import open_database
from sfumato.commands.options import File, as_analyst, policy_file
from sfumato.errors import BadParameter, UnknownName, quote_value, suggestion

LAB, LOCAL, STREAMS = "sfumato.lab.commands", "sfumato.local.commands", "sfumato.streams.commands"
SYNTHESIS = "sfumato.synthesis.commands"


def _attacks(_ctx: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    return [name for name in import_module(LAB).ATTACKS if name.startswith(start)]


@click.command()
@click.argument("name", required=False, shell_complete=_attacks)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the synthetic data.")
@click.option("--plot", type=File, metavar="FILE", help="Draw the result into this file.")
def attack(name: str | None, seed: int, plot: Path | None) -> None:
    """Watch an attack on answers without such noise.

    Without a NAME, the attacks are listed. Each runs on made-up data, in seconds.
    """
    attacks = import_module(LAB).ATTACKS
    if name is None:
        listing = click.HelpFormatter(width=80)
        listing.write_dl([(known, run.description) for known, run in attacks.items()])
        click.echo(listing.getvalue(), nl=False)
    elif name in attacks:
        click.echo(attacks[name](seed, plot))
    else:
        raise UnknownName(
            f"There is no attack {quote_value(name)}.",
            "Attacks are called by name.",
            f"{suggestion(name, attacks)}There are: {', '.join(attacks)}.",
        )


@click.command()
@policy_file
@click.option("--seconds", type=click.FloatRange(min=1), default=60, show_default=True, help="How long to search.")
def audit(policy: Path, seconds: float) -> None:
    """Search for a breach of a policy's promises.

    Random questions are asked about made-up people under POLICY, and about the same people without one of them. Its
    data and its ledger are not touched.
    """
    if not isfinite(seconds):  # no range of click's leaves these out
        raise BadParameter(
            f"seconds = {seconds} is not a positive time.", "An audit needs a time limit.", "Give a number, such as 60."
        )
    run: Callable[[Path, float], str] = import_module(LAB).AUDIT
    click.echo(run(policy, seconds))


@click.command()
@click.option("--days", type=int, default=365, show_default=True, help="Number of days to count.")
@click.option("--epsilon", default="1", show_default=True, help="Epsilon of all days together.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the synthetic visits; the noise has no seed."
)
@click.option("--plot", type=File, metavar="FILE", help="Draw it into this file.")
def stream(days: int, epsilon: str, seed: int, plot: Path | None) -> None:
    """Watch counts that are released every day.

    The visits are made up; the noise, its price and the file that survives a restart are real.
    """
    show: Callable[[int, str, int, Path | None], str] = import_module(STREAMS).SHOW
    click.echo(show(days, epsilon, seed, plot))


@click.command()
@click.option("--people", type=int, default=100_000, show_default=True, help="Number of synthetic people.")
@click.option("--epsilon", default="1", show_default=True, help="Epsilon of one report, for the person who sends it.")
@click.option("--plot", type=File, metavar="FILE", help="Draw shares and error bars into this file.")
def survey(people: int, epsilon: str, plot: Path | None) -> None:
    """Ask made-up people whose own devices add the noise.

    Shares of emoji, a mean and the most common names, each beside the truth; and what it costs.
    """
    run: Callable[[int, str, Path | None], str] = import_module(LOCAL).survey
    click.echo(run(people, epsilon, plot))


@click.command()
@policy_file
@click.argument("table")
@click.option("--columns", help="Columns, separated by commas; by default all with declared values or bounds.")
@click.option("--epsilon", required=True, help="Epsilon of the whole table, charged once.")
@click.option("--delta", help="The delta of its Gaussian noise; by default the policy's.")
@click.option("--rows", type=int, help="Number of rows; by default the noisy count.")
@click.option("--bins", type=int, default=16, show_default=True, help="Number of cells per range.")
@click.option("--output", "-o", type=File, required=True, help="The file of rows: .parquet, .csv or .arrow.")
@click.option("--report", type=File, metavar="FILE", help="The page about it; by default beside the rows, .html.")
@click.option("--nulls", metavar="A,B", help="Columns in which NULL is a value, separated by commas.")
@click.option("--ids", metavar="A,B", help="Columns that get a fresh id for each row, separated by commas.")
@click.option("--positions", metavar="A,B", help="Numbers and dates whose place inside their cells is measured, too.")
@as_analyst
def synthesize(
    policy: Path,
    table: str,
    columns: str | None,
    epsilon: str,
    delta: str | None,
    rows: int | None,
    bins: int,
    output: Path,
    report: Path | None,
    nulls: str | None,
    ids: str | None,
    positions: str | None,
    analyst: str | None,
) -> None:
    """Write synthetic rows and how far off they are.

    TABLE is measured once, as counts with noise. The same again is free, and what is made of it costs nothing more.
    """
    write: Callable[..., str] = import_module(SYNTHESIS).WRITE
    lists = (columns, nulls, ids, positions)
    listed = [[name.strip() for name in said.split(",")] if said else [] for said in lists]
    with open_database(policy, analyst) as database:
        click.echo(write(database, table, listed[0], epsilon, delta, rows, bins, output, report, *listed[1:]))
