"""Who may use a server: `grant`, `revoke` and `grants`."""

import os
import re
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click

from sfumato.commands.options import policy_file
from sfumato.errors import BadParameter, quote_value

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_MAX_YEARS = 10
_owner = click.option(
    "--owner", is_flag=True, help="The owner without a name, for the console's view of the whole dataset."
)
_label = click.option(
    "--name", "label", metavar="LABEL", help="What the token is for, such as laptop; without one, default."
)


@click.command()
@policy_file
@click.argument("name", required=False)
@_owner
@_label
@click.option("--expires", metavar="TIME", help="When it ends: 12h, 30d, 8w or 1y from now; by default never.")
def grant(policy: Path, name: str | None, owner: bool, label: str | None, expires: str | None) -> None:
    """Draw a token and a password for an analyst or an owner.

    They are shown once, and kept only as digests. Those of the same label count no longer, also while a server runs.
    """
    from sfumato.policy.reading import read_policy
    from sfumato.server.grant_stores.stored import DEFAULT_LABEL
    from sfumato.server.grants import Grants

    account = _account(name, owner)
    read = read_policy(policy)
    seconds = None if expires is None else _seconds(expires)
    with closing(Grants(read, policy)) as held:
        credentials = held.grant(account, label or DEFAULT_LABEL, seconds)
    click.echo(f"token: {credentials.token}")
    if read.analyst(account) is not None:
        click.echo(f"password: {credentials.password}")
    click.echo("Shown once: keep them now. The token is for HTTP and the browser, the password for psql.", err=True)


@click.command()
@policy_file
@click.argument("name", required=False)
@_owner
@_label
def revoke(policy: Path, name: str | None, owner: bool, label: str | None) -> None:
    """Take tokens, passwords and sessions back, at once."""
    from sfumato.policy.reading import read_policy
    from sfumato.server.grants import Grants

    account = _account(name, owner)
    with closing(Grants(read_policy(policy), policy)) as held:
        revoked = held.revoke(account, label)
    who = account or "the owner"
    click.echo(f"Revoked what {who} had." if revoked else f"Nothing was granted to {who}.")


@click.command("grants")
@policy_file
def list_grants(policy: Path) -> None:
    """List tokens and console sessions with their last use."""
    from sfumato.policy.reading import read_policy
    from sfumato.server.grants import Grants
    from sfumato.terminal.screen import grid, screen, show

    with closing(Grants(read_policy(policy), policy)) as held:
        granted, begun = (held.all(), held.sessions()) if held.exists() else ((), ())
    tokens = grid(["account", "token", "since", "expires", "last used"])
    for row in granted:
        expires = "never" if row.expires is None else time_text(row.expires)
        tokens.add_row(row.person or row.account or "owner", row.label, row.since[:16], expires, time_text(row.used))
    sessions = grid(["account", "console session", "since", "last used", "address"])
    for session in begun:
        began, used = time_text(session.began), time_text(session.used)
        sessions.add_row(session.person or session.account or "owner", session.key[:8], began, used, session.address)
    console = screen()
    for listing in (tokens, sessions):
        show(console, listing)


@click.command()
@click.argument("url")
def login(url: str) -> None:
    """Exchange a token of the identity provider for a password.

    The provider's token is read from the standard input, or from SFUMATO_ID_TOKEN. What is printed ends after twelve
    hours. The provider's token counts once.
    """
    from sfumato.server.client import exchange_identity_token

    typed = os.environ.get("SFUMATO_ID_TOKEN") or sys.stdin.read()
    drawn = exchange_identity_token(url, typed.strip())
    click.echo(f"token: {drawn['token']}")
    if drawn["user"]:
        click.echo(f"user: {drawn['user']}")
        click.echo(f"password: {drawn['password']}")
    click.echo("Shown once. They end after twelve hours.", err=True)


def time_text(seconds: float | None) -> str:
    """Return a time in UTC, to the minute.

    >>> time_text(0.0), time_text(None)
    ('1970-01-01T00:00', 'never')
    """
    return "never" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")[:16]


def _seconds(typed: str) -> float:
    match = re.fullmatch(r"(\d{1,6})([mhdwy])", typed.strip(), re.ASCII)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= _MAX_YEARS * _UNITS["y"]:
        raise BadParameter(
            f"{quote_value(typed)} is not a time.",
            f"It is a number with m, h, d, w or y, and at most {_MAX_YEARS} years.",
            "Write for example --expires 30d.",
        )
    return float(seconds)


def _account(name: str | None, owner: bool) -> str:
    if owner != (name is None):
        raise BadParameter(
            "No account was named." if name is None else "Two accounts were named.",
            "A token belongs to one analyst or to the owner.",
            "Pass the analyst's NAME, or --owner.",
        )
    return name or ""
