"""`sfumato init`: a first policy."""

import sys
from pathlib import Path

import click

from sfumato.commands.options import File


@click.command()
@click.argument("data")
@click.option("--unit", multiple=True, metavar="[TABLE.]COLUMN", help='Who is protected: a column, "rows", a path.')
@click.option("--rows-per-unit", multiple=True, metavar="[TABLE=]N", help="The maximum rows per person.")
@click.option("--bounds", multiple=True, metavar="COLUMN=LOW:HIGH", help="The bounds of a column.")
@click.option("--step", multiple=True, metavar="COLUMN=STEP", help="The precision of a decimal.")
@click.option("--values", multiple=True, metavar="COLUMN=A,B,C", help="The public keys of a column.")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="The type of a column (CSV has none).")
@click.option("--types", "read_types", is_flag=True, help="Read the types of CSV columns from all their values.")
@click.option("--format", "formats", multiple=True, metavar="COLUMN=FORM", help="How dates are written: %d/%m/%Y.")
@click.option("--csv", "form", multiple=True, metavar="KEY=VALUE", help="How CSV is written: delimiter=; null=NA …")
@click.option("--unique", multiple=True, metavar="COLUMN", help="A key: each person keeps one row per value.")
@click.option("--public", multiple=True, metavar="TABLE", help="A table without personal data.")
@click.option("--epsilon", help="Epsilon of all answers together.")
@click.option("--delta", help="The delta of the budget, far below one in the number of people.")
@click.option("--analyst", multiple=True, metavar="NAME[=EPSILON]", help="An account for an analyst.")
@click.option("--smartnoise", type=File, metavar="FILE", help="Take units and bounds from SmartNoise's YAML.")
@click.option("--croissant", type=File, metavar="FILE", help="Take types, keys and values from Croissant's JSON-LD.")
@click.option("--snowflake", type=File, metavar="FILE", help="Take units, bounds and values from Snowflake's SQL.")
@click.option("--opendp", type=File, metavar="FILE", help="Take bounds and values from OpenDP's domains as JSON.")
@click.option("--look", is_flag=True, help="Take missing entries from the data itself. This is NOT private.")
@click.option("--output", "-o", type=File, help="The policy file; by default the data's name, ending in .toml.")
def init(
    data: str,
    unit: tuple[str, ...],
    rows_per_unit: tuple[str, ...],
    bounds: tuple[str, ...],
    step: tuple[str, ...],
    values: tuple[str, ...],
    types: tuple[str, ...],
    read_types: bool,
    formats: tuple[str, ...],
    form: tuple[str, ...],
    unique: tuple[str, ...],
    public: tuple[str, ...],
    epsilon: str | None,
    delta: str | None,
    analyst: tuple[str, ...],
    smartnoise: Path | None,
    croissant: Path | None,
    snowflake: Path | None,
    opendp: Path | None,
    look: bool,
    output: Path | None,
) -> None:
    """Draft a policy from names and types alone.

    DATA is a Parquet, CSV, DuckDB or SQLite file, a folder of files, postgresql://USER@HOST/DATABASE, spark:FOLDER or
    spark:catalog.DATABASE. Of a database, the catalogue is read: names, types, keys and comments.

    A column is named COLUMN or TABLE.COLUMN; options may be repeated: --unit patients.id --unit visits.patient_id.
    Where another table names the person: --unit "lineitem=orders.o_custkey via l_orderkey = o_orderkey". Keys can be
    those of a public table: --values carrier=airlines.carrier.

    At a terminal, what is missing is asked for; elsewhere it is left in the file, commented out, to be filled in.
    """
    from dataclasses import replace
    from functools import reduce

    from sfumato.policy_draft import options
    from sfumato.policy_draft.command import InterviewAborted, Terminal, draft_policy
    from sfumato.policy_draft.croissant import read_croissant
    from sfumato.policy_draft.opendp_domains import read_opendp
    from sfumato.policy_draft.smartnoise import read_smartnoise
    from sfumato.policy_draft.snowflake import read_snowflake

    readers = (
        (smartnoise, read_smartnoise),
        (croissant, read_croissant),
        (snowflake, read_snowflake),
        (opendp, read_opendp),
    )
    described = [read(file) for file, read in readers if file is not None]
    draft_options = replace(
        options.column_options(types, bounds, step, values, formats),
        units=unit,
        rows_per_unit=options.rows_per_unit(rows_per_unit),
        unique=unique,
        csv=options.csv_options(form),
        public=public,
        epsilon=epsilon,
        delta=delta,
        analysts=options.analysts(analyst),
        read_types=read_types,
    )

    def ask(question: str) -> str:
        try:
            return str(click.prompt(question, "", show_default=False)).strip()
        except click.Abort:
            click.echo()
            raise InterviewAborted from None

    def warn(words: str) -> None:
        click.echo(f"{click.style('--look:', fg='yellow', bold=True)} {words}", err=True)

    metadata = reduce(options.merge_options, described) if described else None
    watched = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        draft_policy(data, draft_options, metadata, look, output, Terminal(ask if watched else None, click.echo, warn))
    except InterviewAborted:
        raise click.Abort from None
