"""The command `requests`: analysts file, owners decide."""

from pathlib import Path

import click

from sfumato.commands.opening import open_database
from sfumato.commands.options import as_analyst, policy_file, report_format
from sfumato.errors import BadParameter

_MAX_ID_DIGITS = 18
ACTIONS = ("file", "ask", "review", "reply", "approve", "decline", "withdraw")


@click.command()
@policy_file
@click.argument("action", type=click.Choice(ACTIONS), metavar="[ACTION]", required=False)
@click.argument("about", metavar="[TARGET]", required=False)
@click.option("--reason", metavar="TEXT", help="Why the question is needed: for `file`.")
@click.option(
    "--note", default="", metavar="TEXT", help="What the other side reads: for `reply`, `approve`, `decline`."
)
@click.option("--epsilon", help="Maximum epsilon of the whole question: for `file`.")
@click.option("--within", multiple=True, metavar="COLUMN=MARGIN", help="The 95 % margin that you need: n=25.")
@click.option("--delta", help="The delta of Gaussian noise and key selection; by default the policy's.")
@as_analyst
@report_format
def requests(
    policy: Path,
    action: str | None,
    about: str | None,
    reason: str | None,
    note: str,
    epsilon: str | None,
    within: tuple[str, ...],
    delta: str | None,
    analyst: str | None,
    form: str,
) -> None:
    """List, file and decide requests for budget or rights.

    An analyst files a question with its price and a reason. The owner reviews, replies, approves or declines. An
    approval pays once, for this question at this price, from the dataset's budget. ACTION is file, ask, review, reply,
    approve, decline or withdraw; TARGET is the question to file, or the id of a request.
    """
    from sfumato.planning.accuracy_target import read_margins
    from sfumato.release.rendering.documents import quote_document
    from sfumato.release.rendering.escaping import escape_unprintable, to_json
    from sfumato.server.remote_requests import request_document

    if action is not None and about is None:
        raise BadParameter(
            f"`{action}` needs the {'question' if action == 'file' else 'id of a request'}.",
            "The list of requests shows their ids.",
            f"Write sfumato requests POLICY {action} {'SQL --reason TEXT' if action == 'file' else 'ID'}.",
        )
    with open_database(policy, analyst, charge=action == "ask") as database:
        found = database.requests
        if action == "ask":
            click.echo(found.ask(_id(about)).to_text(None))
            return
        if action == "review":
            quote = found.review(_id(about))
            click.echo(to_json(quote_document(quote)) if form == "json" else str(quote))
            return
        if action is None:
            listed = found.list()
        elif action == "file":
            margins = read_margins(within)
            listed = [found.file(about or "", reason=reason or "", epsilon=epsilon, within=margins, delta=delta)]
        elif action == "withdraw":
            listed = [found.withdraw(_id(about))]
        else:
            decide = {"reply": found.reply, "approve": found.approve, "decline": found.decline}[action]
            listed = [decide(_id(about), note)]
    if form == "json":
        click.echo(to_json([request_document(request) for request in listed]))
        return
    lines = [escape_unprintable(line) for request in listed for line in str(request).splitlines()]
    click.echo("\n".join(lines) or "There are no requests.")


def _id(text: str | None) -> int:
    if text is not None and text.isascii() and text.isdigit() and len(text) < _MAX_ID_DIGITS:
        return int(text)
    raise BadParameter(
        "This is not the id of a request.", "It is a number.", "List the requests: sfumato requests POLICY."
    )
