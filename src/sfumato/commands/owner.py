"""Commands of the data owner: `check`, `tune` and `refresh`."""

from pathlib import Path

import click

from sfumato.commands.opening import open_database, open_with_progress, progress_line
from sfumato.commands.options import File, policy_file, report_format


@click.command()
@policy_file
@report_format
@click.option("--confirm", metavar="HASH", help="Record a policy whose tables changed after something was spent.")
def check(policy: Path, form: str, confirm: str | None) -> None:
    """Check a policy; say what it lets analysts learn.

    The data of POLICY is registered, which takes a while the first time; nobody is charged. What is said of the data
    itself is exact, and for its owner alone.
    """
    with open_database(policy, confirm=confirm, charge=False) as database:
        from sfumato.terminal import checks

        checked = checks.check_policy(database)
        if form == "json":
            click.echo(checks.checked_json(checked))
            return
        click.echo(checks.checked_text(checked))
        if for_the_owner := checks.owners_text(database):
            click.echo(f"\n{for_the_owner}")


@click.command()
@policy_file
@click.argument("questions", nargs=-1, metavar="[SQL]")
@click.option("--file", type=File, help="Questions that end with semicolons.")
@click.option("--history", is_flag=True, help="The questions of all accounts so far.")
@click.option("--epsilon", help="Epsilon of a question; by default a twentieth of the budget.")
def tune(policy: Path, questions: tuple[str, ...], file: Path | None, history: bool, epsilon: str | None) -> None:
    """Find caps and bounds that err least.

    Tries them on the data for your questions, or for typical ones, and prints lines to paste. It is for the owner
    alone: nothing is charged, and nothing of it is private.
    """
    from sfumato.terminal import statements, tuning, tuning_text

    queries = list(questions)
    if file is not None:
        queries += statements.read_questions(file)
    with open_database(policy, charge=False) as database:
        if history:
            queries += tuning.queries_in_ledger(database)
        with progress_line() as say:
            tuned = tuning.tune(database, queries, epsilon, say)
        click.echo(tuning_text.tuned_text(tuned))


@click.command()
@policy_file
@click.option("--confirm", metavar="HASH", help="Record a policy whose tables changed after something was spent.")
@click.option(
    "--dashboard",
    "dashboards",
    type=File,
    multiple=True,
    help="Then ask this dashboard, as the owner; may be repeated.",
)
def refresh(policy: Path, confirm: str | None, dashboards: tuple[Path, ...]) -> None:
    """Read the data again: take a new snapshot of it.

    Until it is complete, and if it cannot be taken, answers come from the one before. Questions that were answered
    about that one cost again.
    """
    from sfumato.commands.dashboards import write_dashboard
    from sfumato.dashboards.dashboard import read_dashboard
    from sfumato.opening import refreshed
    from sfumato.terminal.checks import FOR_THE_OWNER
    from sfumato.terminal.outside_bounds import count_outside, outside_text

    for file in dashboards:
        read_dashboard(file)  # refused before a snapshot is taken
    with open_with_progress(lambda progress: refreshed(policy, progress=progress, confirm=confirm)) as database:
        click.echo("Took a new snapshot of the source. New answers come from it.")
        if outside := outside_text(count_outside(database)):
            click.echo(f"\n{FOR_THE_OWNER}\n\n{outside}")
        for file in dashboards:
            write_dashboard(database, file, None)
