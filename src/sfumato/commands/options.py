"""Options that several commands share: policy, price, analyst and output format."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

FORMATS = ("table", "json", "csv", "arrow", "parquet", "markdown")
REPORTS = ("table", "json")

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., object])
File = click.Path(path_type=Path)


def policy_file(command: CommandFunction) -> CommandFunction:
    """Take a policy."""
    return click.argument("policy", type=File)(command)


def price_options(command: CommandFunction) -> CommandFunction:
    """Take what a question may cost, the margins that are needed, or a share of the budget."""
    for option in (
        click.option("--delta", help="The delta of Gaussian noise and key selection; by default the policy's."),
        click.option("--share", help="Instead: the share of the budget to spend, such as 2%.", metavar="SHARE"),
        click.option(
            "--within", multiple=True, metavar="COLUMN=MARGIN", help="The 95 % margin that you need: n=25 or n=5%."
        ),
        click.option("--epsilon", help="Maximum epsilon of the whole question."),
    ):
        command = option(command)
    return command


def as_analyst(command: CommandFunction) -> CommandFunction:
    """Take the name of an analyst; a shell completes those of the policy."""
    return click.option(
        "--analyst", metavar="NAME", help="Ask as this analyst of the policy.", shell_complete=_analysts
    )(command)


def _analysts(ctx: click.Context, _: click.Parameter, start: str) -> list[str]:
    """Return the analysts of the policy that was typed before; none where it cannot be read."""
    from sfumato.errors import Refusal
    from sfumato.policy.reading import read_policy

    typed = ctx.params.get("policy") or next(iter(ctx.args), None)  # click leaves words unread while an option is open
    if typed is None:
        return []
    try:
        policy = read_policy(Path(typed))
    except Refusal:
        return []
    return [analyst.name for analyst in policy.analysts if analyst.name.startswith(start)]


def every_account(command: CommandFunction) -> CommandFunction:
    """Take the option to show every account."""
    return click.option("--all", "every", is_flag=True, help="Every account: the dataset's and each analyst's.")(
        command
    )


def report_format(command: CommandFunction) -> CommandFunction:
    """Take the format of a report."""
    option = click.option("--format", "form", type=click.Choice(REPORTS), default="table", help="The output format.")
    return option(command)
