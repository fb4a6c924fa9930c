"""Commands about spending: `budget`, `history` and `verify`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.commands.options import as_analyst, every_account, policy_file, report_format
from sfumato.errors import BadParameter

if TYPE_CHECKING:
    from sfumato.policy.policy import Policy


@click.command()
@policy_file
@as_analyst
@every_account
@click.option("--cohort", metavar="NAME", help="The budget of this cohort of people, where charges named it.")
@report_format
def budget(policy: Path, analyst: str | None, every: bool, cohort: str | None, form: str) -> None:
    """Show what may be spent, what was, and what is left.

    The data may be away: this reads the ledger alone.
    """
    from sfumato.accounts import accounts
    from sfumato.ledger.budget import budget_of_cohort
    from sfumato.policy.reading import read_policy
    from sfumato.release.rendering.account_documents import budget_document
    from sfumato.release.rendering.account_reports import WAITING, budget_text, budgets_text
    from sfumato.release.rendering.escaping import to_json

    read = read_policy(policy)
    account = _account(read, analyst, every)
    changed = _source_changed(read) if analyst is None else None
    with accounts(policy) as opened:
        if every:
            budgets = opened.budgets()
            documents = [
                {"account": name, **budget_document(account_budget)} for name, account_budget in budgets.items()
            ]
            click.echo(to_json(documents) if form == "json" else budgets_text(budgets))
        else:
            account_budget = opened.budget(account)
            account_budget = account_budget if cohort is None else budget_of_cohort(account_budget, cohort)
            document = budget_document(account_budget, None if changed is None else bool(changed))
            click.echo(to_json(document) if form == "json" else budget_text(account_budget))
            if form == "table" and sys.stdout.isatty():
                from sfumato.terminal.answers import draw_gauge
                from sfumato.terminal.screen import screen

                draw_gauge(screen(), account_budget)
        if form == "table":
            for note in (changed, WAITING if opened.waiting is not None and analyst is None else None):
                if note:
                    click.echo(note)


def _account(policy: "Policy", analyst: str | None, every: bool) -> str:
    from sfumato.policy.accounts import account_of

    if every and analyst is not None:
        raise BadParameter(
            "--all and --analyst exclude each other.",
            "--all shows every account, --analyst shows one.",
            "Leave one out.",
        )
    return "" if analyst is None else account_of(policy, analyst)


def _source_changed(policy: "Policy") -> str:
    """Return a note that the source changed; empty where it did not."""
    from sfumato.engines.snapshot_status import has_changed
    from sfumato.release.rendering.account_reports import AWAY, CHANGED

    if policy.sealed is not None or policy.source.path is None:
        return ""
    if not policy.source.path.exists():
        return AWAY
    return CHANGED if has_changed(policy) else ""


@click.command()
@policy_file
@as_analyst
@every_account
@report_format
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many entries to list.")
@click.option("--before", type=click.IntRange(1), metavar="SEQUENCE", help="List entries older than this one.")
def history(policy: Path, analyst: str | None, every: bool, form: str, limit: int, before: int | None) -> None:
    """List what was asked and charged, newest first.

    The data may be away: this reads the ledger alone.
    """
    from sfumato.accounts import accounts
    from sfumato.policy.reading import read_policy
    from sfumato.release.rendering.account_documents import entry_document
    from sfumato.release.rendering.account_reports import history_text
    from sfumato.release.rendering.escaping import to_json

    account = _account(read_policy(policy), analyst, every)
    with accounts(policy) as opened:
        entries = opened.history(None if every else account, limit, before)
        listed = [entry_document(entry) for entry in entries]
        click.echo(to_json(listed) if form == "json" else history_text(entries, whose=every))


@click.command()
@policy_file
@report_format
@click.option("--accept-clock", is_flag=True, help="Accept a clock that is behind the last entry; this is recorded.")
@click.option("--receipt", multiple=True, metavar="SEQUENCE:HEAD", help="A receipt that the ledger must contain.")
@click.option("--audit", is_flag=True, help="Check the hash chain of the server's audit log instead.")
def verify(policy: Path, form: str, accept_clock: bool, receipt: tuple[str, ...], audit: bool) -> None:
    """Check the ledger with a second reader.

    Every hash and every sum is computed again. The data may be away.
    """
    from sfumato.accounts import accounts
    from sfumato.release.rendering.account_documents import verified_document
    from sfumato.release.rendering.account_reports import verified_text
    from sfumato.release.rendering.escaping import to_json

    if audit:
        _verify_audit(policy, form)
        return
    if accept_clock:
        from sfumato.ledger import opening
        from sfumato.policy.reading import read_policy

        behind = opening.accept_clock(read_policy(policy))
        note = f"Recorded: the clock is right, {behind} behind the last entry." if behind else ""
        click.echo(note or "The clock is not behind the last entry: nothing was recorded.", err=True)
    with accounts(policy) as opened:
        opened.require(receipt)
        verified = opened.verify()
        if verified is None:
            click.echo("null" if form == "json" else "There is no ledger yet: nothing was asked.")
        else:
            click.echo(to_json(verified_document(verified)) if form == "json" else verified_text(verified))


def _verify_audit(policy: Path, form: str) -> None:
    from sfumato.policy.reading import read_policy
    from sfumato.release.rendering.escaping import to_json
    from sfumato.server.audit_chain import verify_audit
    from sfumato.server.file_paths import sidecar_path

    verified = verify_audit(sidecar_path(read_policy(policy), "audit", policy))
    document = {"lines": verified.lines, "head": verified.head}
    text = f"The audit log holds: {verified.lines} lines, every hash computed again.\nhead   {verified.head}"
    click.echo(to_json(document) if form == "json" else text)
