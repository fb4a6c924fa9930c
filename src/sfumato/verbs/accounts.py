"""What was spent: `budget`, `history` and `verify`."""

import sys
from pathlib import Path

import click

from sfumato.verbs.opening import opened
from sfumato.verbs.options import as_analyst, policy_file, report_format


@click.command()
@policy_file
@as_analyst
@report_format
def budget(policy: Path, analyst: str | None, form: str) -> None:
    """Show what may be spent, what was, and what is left."""
    from sfumato.release.documents import budget_document
    from sfumato.release.harmless import to_json
    from sfumato.release.reports import CHANGED, budget_text

    with opened(policy, analyst) as database:
        found = database.budget()
        changed = database.source_changed() if analyst is None else None
        click.echo(to_json(budget_document(found, changed)) if form == "json" else budget_text(found))
        if changed and form == "table":
            click.echo(CHANGED)
        if form == "table" and sys.stdout.isatty():
            from sfumato.terminal.answers import draw_gauge
            from sfumato.terminal.screen import screen

            draw_gauge(screen(), found)


@click.command()
@policy_file
@as_analyst
@report_format
def history(policy: Path, analyst: str | None, form: str) -> None:
    """List what was asked and charged, oldest first."""
    from sfumato.release.documents import entry_document
    from sfumato.release.harmless import to_json
    from sfumato.release.reports import history_text

    with opened(policy, analyst) as database:
        entries = database.history()
        click.echo(to_json([entry_document(entry) for entry in entries]) if form == "json" else history_text(entries))


@click.command()
@policy_file
@report_format
@click.option("--accept-clock", is_flag=True, help="Go on although the clock is behind the last entry: on record.")
def verify(policy: Path, form: str, accept_clock: bool) -> None:
    """Check the ledger with a second reader.

    Every hash and every sum is computed again.
    """
    from sfumato.release.documents import verified_document
    from sfumato.release.harmless import to_json
    from sfumato.release.reports import verified_text

    if accept_clock:
        from sfumato.ledger import opening
        from sfumato.policy.reading import read_policy

        behind = opening.accept_clock(read_policy(policy))
        said = f"It is on record that the clock is right, {behind} behind the last entry." if behind else ""
        click.echo(said or "The clock is not behind the last entry: nothing was recorded.", err=True)
    with opened(policy) as database:
        verified = database.verify()
        click.echo(to_json(verified_document(verified)) if form == "json" else verified_text(verified))
