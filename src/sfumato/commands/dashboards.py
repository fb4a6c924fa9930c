"""The command `dashboard`: questions of a file, asked together, as one page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.commands.opening import open_database, open_rehearsal
from sfumato.commands.options import File, as_analyst, policy_file

if TYPE_CHECKING:
    from sfumato.database import Database


@click.command()
@policy_file
@click.argument("file", type=File)
@as_analyst
@click.option("--output", "-o", type=File, help="Write the page to this file; by default FILE with .html.")
@click.option("--rehearsal", is_flag=True, help="Ask synthetic rows instead of the data; free.")
def dashboard(policy: Path, file: Path, analyst: str | None, output: Path | None, rehearsal: bool) -> None:
    """Ask the questions of a dashboard file as one page.

    All questions are one charge, at the price that FILE states: once for each snapshot, or once in each period. What
    was asked in this period already is shown again, free.
    """
    with (open_rehearsal if rehearsal else open_database)(policy, analyst) as database:
        write_dashboard(database, file, output)


def write_dashboard(database: "Database", file: Path, output: Path | None) -> None:
    """Ask a dashboard, write its page and say what it cost."""
    from sfumato.dashboards.answers import answer_dashboard
    from sfumato.dashboards.dashboard import read_dashboard
    from sfumato.dashboards.page import dashboard_html
    from sfumato.terminal import exports

    asked = read_dashboard(file)
    page = output or file.with_suffix(".html")
    exports.check_writable(page)
    exports.check_apart(page, database.policy)
    answered = answer_dashboard(database, asked)
    exports.write_file(dashboard_html(answered).encode(), page)
    charged = answered.charged and not database.rehearsal
    click.echo(f"Wrote {page}. {'Charged now.' if charged else 'Nothing was charged.'}")
    click.echo(answered.price_text())
