"""`sfumato init`: a first policy."""

import sys
from pathlib import Path

import click

from sfumato.verbs.options import File


@click.command()
@click.argument("data", type=File)
@click.option("--unit", metavar="COLUMN", help='The column that names the person, or "rows".')
@click.option("--rows-per-unit", multiple=True, metavar="[TABLE=]N", help="How many rows of one person count.")
@click.option("--bounds", multiple=True, metavar="COLUMN=LOW:HIGH", help="The range of values that count.")
@click.option("--step", multiple=True, metavar="COLUMN=STEP", help="The precision of a decimal.")
@click.option("--values", multiple=True, metavar="COLUMN=A,B,C", help="The public keys of a column.")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="The type of a column (CSV has none).")
@click.option("--public", multiple=True, metavar="TABLE", help="A table that is about nobody.")
@click.option("--epsilon", help="What all answers together may cost.")
@click.option("--delta", help="The delta of the budget, far below one in the number of people.")
@click.option("--smartnoise", type=File, metavar="FILE", help="Take units and bounds from SmartNoise's YAML.")
@click.option("--look", is_flag=True, help="Take what is missing from the data itself: NOT private, your risk.")
@click.option("--output", "-o", type=File, help="The policy file; by default the data's name, ending in .toml.")
def init(
    data: Path,
    unit: str | None,
    rows_per_unit: tuple[str, ...],
    bounds: tuple[str, ...],
    step: tuple[str, ...],
    values: tuple[str, ...],
    types: tuple[str, ...],
    public: tuple[str, ...],
    epsilon: str | None,
    delta: str | None,
    smartnoise: Path | None,
    look: bool,
    output: Path | None,
) -> None:
    """Draft a policy from names and types alone.

    DATA is a Parquet, CSV or DuckDB file, or a folder of files.

    A column is named COLUMN or TABLE.COLUMN; options may be repeated. At a terminal, what is missing is asked for;
    elsewhere it is left in the file, commented out, to be filled in.
    """
    from dataclasses import replace

    from sfumato.drafting import file, options
    from sfumato.drafting.draft import make_draft
    from sfumato.drafting.interview import interview
    from sfumato.drafting.schema import see
    from sfumato.drafting.writing import purchase_words

    place = output or file.default_output(data)
    wishes = replace(
        options.column_wishes(types, bounds, step, values),
        unit=unit,
        rows_per_unit=options.rows_per_unit(rows_per_unit),
        public=public,
        epsilon=epsilon,
        delta=delta,
    )
    if smartnoise is not None:
        from sfumato.drafting.smartnoise import read_smartnoise

        wishes = options.together(wishes, read_smartnoise(smartnoise))
    seen = see(data)
    file.check_output(data, place)
    draft = make_draft(seen, wishes)
    if look:
        from sfumato.drafting import looking

        click.echo(f"{click.style('--look:', fg='yellow', bold=True)} {looking.WARNING}", err=True)
        draft = looking.look(draft, data)
    if sys.stdin.isatty() and sys.stdout.isatty():
        draft = interview(
            draft, lambda question: str(click.prompt(question, "", show_default=False)).strip(), click.echo
        )
    file.write_policy(draft, data, place)
    click.echo(f"Wrote {place}.")
    if bought := purchase_words(draft):
        click.echo(bought)
    if missing := draft.unknown():
        click.echo(f"Still to fill in: {', '.join(missing)}.")
    click.echo(f"Next: read it, then run: sfumato check {place}")
