"""What the owner of a dataset does with its policy: `check` and `refresh`."""

from pathlib import Path

import click

from sfumato.verbs.opening import opened, watched
from sfumato.verbs.options import policy_file, report_format


@click.command()
@policy_file
@report_format
@click.option("--confirm", metavar="HASH", help="Record a policy whose tables changed after something was spent.")
def check(policy: Path, form: str, confirm: str | None) -> None:
    """Check a policy; say what it lets analysts learn.

    The data of POLICY is registered, which takes a while the first time; nobody is charged. What is said of the data
    itself is exact, and for its owner alone.
    """
    with opened(policy, confirm=confirm) as database:
        from sfumato.terminal import checks

        checked = checks.check(database)
        if form == "json":
            click.echo(checks.checked_json(checked))
            return
        click.echo(checks.checked_text(checked))
        if for_the_owner := checks.owners_text(database):
            click.echo(f"\n{for_the_owner}")


@click.command()
@policy_file
@click.option("--confirm", metavar="HASH", help="Record a policy whose tables changed after something was spent.")
def refresh(policy: Path, confirm: str | None) -> None:
    """Read the data again: take a new snapshot of it.

    Until it is complete, and if it cannot be taken, answers come from the one before. Questions that were answered
    about that one cost again.
    """
    from sfumato.database import refreshed

    with watched(lambda progress: refreshed(policy, progress=progress, confirm=confirm)):
        click.echo("Took a new snapshot of the source. From now on answers come from it.")
