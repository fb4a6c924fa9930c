"""Commands for people who were not there: `report` and `record`."""

import sys
from pathlib import Path

import click

from sfumato.commands.options import File, policy_file
from sfumato.errors import BadParameter


@click.command()
@policy_file
@click.option("--format", "form", type=click.Choice(["html", "md", "pdf"]), help="The format; by default md.")
@click.option("--output", "-o", type=File, help="Write the report to this file; its extension sets the format.")
@click.option("--questions", is_flag=True, help="Also list the text of every question.")
def report(policy: Path, form: str | None, output: Path | None, questions: bool) -> None:
    """Write down what is promised and what was answered.

    One page to sign in plain words, and details after it, for lawyers, ethics boards and works councils. The ledger is
    verified for it. The data may be away, and nothing is charged.
    """
    from sfumato.policy.reading import read_policy
    from sfumato.reports.formats import FORMATS, format_of
    from sfumato.reports.report import make_report
    from sfumato.terminal import exports

    kind = format_of(output, form)
    if output is not None:
        exports.check_writable(output)
        exports.check_apart(output, read_policy(policy))
    elif kind == "pdf" and sys.stdout.isatty():
        raise BadParameter("PDF cannot be shown on a terminal.", "It is binary.", "Add --output FILE, or a pipe.")
    written = FORMATS[kind](make_report(policy, questions=questions))
    if output is None:
        sys.stdout.buffer.write(written)
        return
    exports.write_file(written, output)
    click.echo(f"Wrote {output}.", err=True)


@click.command()
@policy_file
@click.option(
    "--format", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format."
)
@click.option("--output", "-o", type=File, help="Write the record to this file.")
@click.option("--field", multiple=True, metavar="NAME=TEXT", help="A field that only the owner knows; may be repeated.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of records instead.")
def record(policy: Path, form: str, output: Path | None, field: tuple[str, ...], schema: bool) -> None:
    """Write the deployment record of a policy.

    The fields of OpenDP's deployments registry and a checklist after NIST SP 800-226. Fields that only the owner knows
    say FILL IN. The data may be away, and nothing is charged.
    """
    from sfumato.policy.reading import read_policy
    from sfumato.release.rendering.escaping import to_json
    from sfumato.reports.record import make_record, record_json, record_schema, record_yaml
    from sfumato.terminal import exports

    if schema:
        click.echo(to_json(record_schema()))
        return
    if output is not None:
        exports.check_apart(output, read_policy(policy))
    if any("=" not in entry for entry in field):
        raise BadParameter("--field has no =.", "A field is written NAME=TEXT.", "Write for example name=Visits.")
    made = make_record(policy, {entry.partition("=")[0]: entry.partition("=")[2] for entry in field})
    text = record_json(made) if form == "json" else record_yaml(made)
    if output is None:
        click.echo(text, nl=False)
        return
    exports.write_file(text.encode(), output)
    click.echo(f"Wrote {output}.", err=True)
