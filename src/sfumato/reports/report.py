"""The report on a dataset: the promise in plain words on one page to sign, and after it what was answered."""

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from sfumato.accounting.loss import round_down, round_up
from sfumato.accounts import accounts as open_accounts
from sfumato.ledger.accounts import Accounts
from sfumato.ledger.approvals import BudgetRequest, RequestState
from sfumato.ledger.history import Entry
from sfumato.ledger.ledger import Verified
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.policy.reading import PolicyFile, read_policy
from sfumato.release.rendering.account_reports import WAITING
from sfumato.reports.answers import (
    DATASET_ACCOUNT,
    AnsweredTotals,
    all_entries,
    by_account,
    by_month,
    by_table,
    receipts_of,
)
from sfumato.reports.document import DataTable, Paragraph, ReportBlock, ReportDocument, ReportSection, SignatureLines
from sfumato.reports.promise import detail_sections, percent_up, summary_sections

_VERSION = version("sfumato")
_GRANTED_STATES = (RequestState.APPROVED, RequestState.USED)
ROLES = ("Data owner", "Data protection officer, ethics board or works council")


def make_report(policy: PolicyFile, *, questions: bool = False, now: datetime | None = None) -> ReportDocument:
    """Return the report on a policy and its ledger; the data may be away, and nothing is charged.

    `questions` lists the text of each question, which may name facts that an analyst suspects. A ledger that does not
    verify is refused: a report on it would certify nothing.
    """
    read = read_policy(policy)
    with open_accounts(policy) as accounts:
        return _report(read, accounts, questions, now or datetime.now(UTC))


def _report(policy: Policy, accounts: Accounts, questions: bool, now: datetime) -> ReportDocument:
    entries, verified = all_entries(accounts), accounts.verify()
    so_far = ReportSection("What was used so far", (Paragraph(_so_far(accounts, entries, verified)),))
    sign = ReportSection("Signatures", (SignatureLines(ROLES),))
    details = [
        *detail_sections(policy),
        *_answered_sections(policy, accounts, entries, questions),
        _ledger(policy, accounts, verified),
    ]
    details += [_versions(policy, entries), _limits(policy)]
    if questions:
        details.append(_questions(entries))
    return ReportDocument(
        f"Privacy report: {policy.name}",
        f"Made on {now:%Y-%m-%d %H:%M} UTC by sfumato {_VERSION}. Policy {policy_hash(policy)[:16]}…",
        (*summary_sections(policy), so_far, sign),
        tuple(details),
    )


def _so_far(accounts: Accounts, entries: Sequence[Entry], verified: Verified | None) -> str:
    if not entries:
        return "Nothing was answered yet, so nothing is used."
    budget = accounts.budget()
    checked = "" if verified is None else f" The ledger was verified: all {verified.entries:,} entries are intact."
    together = "Together they revealed" if budget.every is None else f"Those of this {budget.every} revealed"
    unbounded = f" {budget.promise}" if budget.promise else ""
    return (
        f"{len(entries):,} question{'s were' if len(entries) != 1 else ' was'} charged between "
        f"{entries[0].time:%Y-%m-%d} and {entries[-1].time:%Y-%m-%d}. {together} at most "
        f"{budget.spent}. {percent_up(budget.used)} of the budget is used.{unbounded}{checked}"
    )


def _answered_sections(
    policy: Policy, accounts: Accounts, entries: Sequence[Entry], with_texts: bool
) -> Iterator[ReportSection]:
    note = Paragraph(
        "Sums of prices bound what was revealed. With a positive δ, answers together reveal less than this sum."
    )
    caps = tuple(
        (
            name or DATASET_ACCOUNT + ": the whole dataset",
            round_up(budget.total.epsilon),
            percent_up(budget.used),
            round_down(budget.remaining.epsilon),
        )
        for name, budget in accounts.budgets().items()
    )
    yield ReportSection(
        "Budgets",
        (
            Paragraph("Each charge of an analyst counts for the dataset, too."),
            DataTable(("account", "total ε", "used", "left ε"), caps, (False, True, True, True)),
        ),
    )
    parts = {"account": by_account(entries), "table": by_table(entries, policy), "month (UTC)": by_month(entries)}
    tables = [_totals_table(name, totals) for name, totals in parts.items()]
    blocks: list[ReportBlock] = [note, *tables] if entries else [Paragraph("Nothing was answered yet.")]
    states = Counter(entry.state for entry in entries)
    if failed := states["failed"]:
        blocks.append(Paragraph(f"{failed:,} of them were charged and have no answer. Nothing is refunded."))
    if not with_texts:
        blocks.append(
            Paragraph(
                "The texts of questions are left out of this report, because they may name what an analyst suspects. "
                "The data owner can see them."
            )
        )
    yield ReportSection("What was answered", tuple(blocks))
    if granted := [request for request in accounts.requests() if request.loss and request.state in _GRANTED_STATES]:
        yield _exceptions(granted)


def _exceptions(granted: Sequence[BudgetRequest]) -> ReportSection:
    rows = tuple(
        (
            f"{request.time:%Y-%m-%d}",
            request.account,
            round_up(request.loss.epsilon) if request.loss else "",
            request.state.value,
            f"beyond the role: {', '.join(request.names)}" if request.for_rights else "beyond the budget",
        )
        for request in granted
    )
    words = (
        "An analyst can ask the data owner for one question beyond their budget or their role. Each approval pays for "
        "one answer, once. The dataset's budget includes it."
    )
    headings = ("filed on", "account", "ε", "state", "what was granted")
    return ReportSection(
        "Exceptions that the owner approved",
        (Paragraph(words), DataTable(headings, rows, (False, False, True, False, False))),
    )


def _totals_table(name: str, totals: Sequence[AnsweredTotals]) -> DataTable:
    rows = tuple(
        (total.name, f"{total.questions:,}", round_up(total.loss.epsilon), round_up(total.loss.delta))
        for total in totals
    )
    return DataTable((name, "questions", "sum of ε", "sum of δ"), rows, (False, True, True, True))


def _ledger(policy: Policy, accounts: Accounts, verified: Verified | None) -> ReportSection:
    if verified is None:
        return ReportSection("The ledger", (Paragraph("There is no ledger yet: nothing was asked."),))
    rows = (
        ("entries", f"{verified.entries:,}"),
        ("head", verified.head),
        ("policy", policy_hash(policy)),
        ("check it", f"sfumato verify POLICY --receipt {verified.entries}:{verified.head}"),
    )
    words = (
        "Each charge is one entry, and each entry contains the hash of the one before it. For this report a second "
        "program computed every hash and every sum again and found them right. Keep the head: a ledger that was "
        "changed or shortened later no longer contains it."
    )
    blocks: list[ReportBlock] = [Paragraph(words), DataTable(("", ""), rows, (False, False))]
    if accounts.waiting is not None:
        blocks.append(Paragraph(WAITING))
    return ReportSection("The ledger", tuple(blocks))


def _versions(policy: Policy, entries: Sequence[Entry]) -> ReportSection:
    receipts = [receipt for _, receipt in receipts_of(entries) if receipt is not None]
    sources = sorted({receipt.source for receipt in receipts if receipt.source})
    biased = sorted({str(receipt.gamma) for receipt in receipts if receipt.gamma})
    rows = (
        ("sfumato", _VERSION),
        ("Python", platform.python_version()),
        ("source of the data", policy.source.scheme),
        ("snapshots asked", f"{len({entry.version for entry in entries}):,}"),
        ("policies in force", f"{len({entry.policy for entry in entries}):,}"),
        ("random source", ", ".join(sources) or "not used yet"),
        ("declared bias of it", ", ".join(biased) or "none"),
        ("random bits drawn", f"{sum(receipt.bits for receipt in receipts):,}"),
    )
    return ReportSection("Versions and random source", (DataTable(("", ""), rows, (False, False)),))


def _limits(policy: Policy) -> ReportSection:
    bounded = (
        "A person's rows beyond the limit of a table are dropped, and values beyond their bounds are clipped. "
        "Answers may be biased by this."
    )
    words = [
        Paragraph(
            "Differential privacy limits what answers reveal about one person. It does not make answers fair, "
            "correct or lawful, and it does not protect the data where it is stored."
        ),
        Paragraph(bounded),
    ]
    if not policy.budget.delta:
        words.append(Paragraph("All noise is Laplace noise, and all group keys are declared: δ is 0."))
    else:
        words.append(
            Paragraph("Groups that the policy does not declare appear only if enough people are in them, up to δ.")
        )
    return ReportSection("Known limits", tuple(words))


def _questions(entries: Sequence[Entry]) -> ReportSection:
    rows = tuple(
        (
            str(entry.sequence),
            f"{entry.time:%Y-%m-%d %H:%M}",
            entry.account or DATASET_ACCOUNT,
            round_up(entry.loss.epsilon),
            " ".join(entry.sql.split()),
        )
        for entry in entries
    )
    headings = ("#", "time (UTC)", "account", "ε", "question")
    return ReportSection("All questions", (DataTable(headings, rows, (True, False, False, True, False)),))
