"""The promise of a policy in plain words: who is protected, against whom, how far, and what sfumato cannot check."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from sfumato.accounting.event import Neighbours
from sfumato.accounting.group import group_loss
from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.certified.enclosure import Enclosure, enclose, refine, upper
from sfumato.ledger.windows import unlimited_text
from sfumato.policy.describing import column_words, table_words, units_of
from sfumato.policy.policy import Policy, RowUnit, Sharing
from sfumato.reports.document import BulletList, DataTable, Paragraph, ReportSection

HOUSEHOLD_PEOPLE = 4
"""Number of people in the household that a report speaks of."""
_MAX_STRONG_EPSILON, _MAX_MODERATE_EPSILON, _MAX_WEAK_EPSILON = 1, 3, 10
_CERTAIN_EPSILON = 64
"""From here on the chance is 100 % to every digit that is shown."""


def guess_chance(loss: PrivacyLoss) -> Fraction:
    """Return how often an attacker guesses right which of two equally likely facts about a person is true, at most.

    It is (e^ε + δ) / (1 + e^ε), rounded up: any test of two hypotheses that are (ε, δ)-indistinguishable errs at least
    as often as this leaves [KOV15, Thm 2.1 with equal weights].

    >>> float(round(guess_chance(PrivacyLoss(Fraction(1))), 4))
    0.7311
    """
    if loss.epsilon >= _CERTAIN_EPSILON or loss.delta >= 1:
        return Fraction(1)

    def _chance(digits: int) -> Enclosure:
        odds = enclose(loss.epsilon, digits).exp()
        return (odds + loss.delta) / (odds + 1)

    return min(Fraction(1), Fraction(upper(refine(_chance))))


def percent_up(share: Fraction) -> str:
    """Write a share in percent with one decimal, never below its value.

    >>> percent_up(Fraction(73106, 100000))
    '73.2 %'
    """
    return f"{ceil(1000 * share) / 10:.1f} %"


def summary_sections(policy: Policy) -> Iterator[ReportSection]:
    """Give the first page: one question of a reader who was not there per section."""
    total = PrivacyLoss(policy.budget.epsilon, policy.budget.delta)
    private = [table for table in policy.tables if not table.public]
    by_rows = [table.name for table in private if isinstance(table.unit, RowUnit)]
    whom = f"Each person in the data, with all their rows together. Who is one person: {units_of(private)}."
    if by_rows:
        whom += (
            f" In {', '.join(by_rows)} each row counts as a person of its own: people who have several rows there "
            "are protected row by row only."
        )
    yield ReportSection("Who is protected", (Paragraph(whom),))
    yield ReportSection(
        "Against whom",
        (
            Paragraph(
                "Against everyone who sees answers, also if several of them work together, if they already know "
                "everything about all other people, and whatever they compute. Not against the data owner and the "
                "operators of the machine, who hold the data itself."
            ),
        ),
    )
    yield ReportSection(
        "What is promised",
        (Paragraph(_promise(policy, total)), Paragraph(_reading(policy, total)), Paragraph(_family(total))),
    )
    yield ReportSection(
        "What can be asked",
        (
            Paragraph(
                "Counts, sums, averages and similar statistics over many people. Each answer has random noise and "
                "shows how large it is. Questions for rows of people, or for one group per person, are refused. The "
                "details list every column that questions may use."
            ),
        ),
    )
    yield ReportSection("For how long", (Paragraph(_lifetime(policy, total)),))
    yield ReportSection("What sfumato trusts and cannot check", (BulletList(tuple(_believed_promises(policy))),))


def _promise(policy: Policy, total: PrivacyLoss) -> str:
    if policy.neighbours is Neighbours.REPLACE:
        change = "replaced by those of any other person"
        public = " The number of people is public."
    else:
        change = "left out"
        public = ""
    if policy.budget.every is not None:
        return (
            f"All answers of one {policy.budget.every} would be almost the same if all rows of any one person were "
            f'{change}. "Almost" is measured by two numbers: {total}. {unlimited_text(total, policy.budget.every)}'
            f"{public}"
        )
    return (
        f"All answers together would be almost the same if all rows of any one person were {change}. "
        f'"Almost" is measured by two numbers: {total} for all answers that are ever given.{public}'
    )


def _reading(policy: Policy, total: PrivacyLoss) -> str:
    epsilon = total.epsilon
    if epsilon <= _MAX_STRONG_EPSILON:
        grade = "This is a strong promise, also in the worst case."
    elif epsilon <= _MAX_MODERATE_EPSILON:
        grade = "This is strong against realistic attackers, and moderate in the worst case."
    elif epsilon <= _MAX_WEAK_EPSILON:
        grade = "This is weak in the worst case. Realistic attackers know less than the worst case assumes."
    else:
        grade = "In the worst case this promises almost nothing."
    delta = (
        "δ is 0: the promise has no exception."
        if not total.delta
        else f"This includes δ = {round_up(total.delta)}, about 1 in {int(1 / total.delta):,}. An attacker's chance "
        "of success may be larger by δ than what ε allows."
    )
    every = policy.budget.every
    scope = "the whole budget" if every is None else f"one {every}"
    longer = "" if every is None else f" After several {every}s they may guess right more often, up to always."
    return (
        "An honest reading: suppose that an attacker has narrowed down a secret of one person to two equally likely "
        f"possibilities. Without any answer they guess right in 50.0 % of cases. With every answer of {scope} they "
        f"guess right in at most {percent_up(guess_chance(total))}. {grade} {delta}{longer}"
    )


def _family(total: PrivacyLoss) -> str:
    together = group_loss(total, HOUSEHOLD_PEOPLE)
    return (
        f"A household of {HOUSEHOLD_PEOPLE} people as a whole is protected less: {together}, which allows a right "
        f"guess about a secret that all of them share in at most {percent_up(guess_chance(together))} of cases. What "
        "answers say about groups is not hidden: if smokers are ill more often, the answers show it, and this may "
        "concern a smoker who is not in the data."
    )


def _lifetime(policy: Policy, total: PrivacyLoss) -> str:
    accounts = (
        f"{len(policy.analysts)} analyst accounts have smaller budgets inside it. "
        if len(policy.analysts) > 1
        else "One analyst account has a budget inside it. "
        if policy.analysts
        else ""
    )
    renewing = [analyst.name for analyst in policy.analysts if analyst.every is not None]
    if renewing:
        accounts += f"The budgets of {', '.join(renewing)} renew inside it. "
    if policy.budget.every is not None:
        return (
            f"Without end. The budget of {total} renews every {policy.budget.every} (UTC), and nothing is carried "
            f"over. {unlimited_text(total, policy.budget.every)} {accounts}Each question is charged before it reads "
            "data."
        )
    return (
        f"For as long as the data is asked. {total} is a budget for the lifetime of this ledger: it does not renew, "
        f"and when it is used up, new questions are refused. {accounts}Each question is charged before it reads data."
    )


def _believed_promises(policy: Policy) -> Iterator[str]:
    yield "The policy must name people correctly. Two identifiers of one person count as two people."
    if public := ", ".join(table.name for table in policy.tables if table.public):
        yield f"Public tables must contain no personal data. Their rows are shown as they are: {public}."
    yield "Declared values and bounds must not be secret, nor chosen by looking at one person."
    yield (
        "Other publications about the same people add their own loss, which this ledger does not know. The same holds "
        "for a second policy over the same data."
    )
    yield "The machine, its operating system with its random generator, and those who operate it must be trusted."
    if policy.padding is None:
        yield "Response times are not hidden, because the policy sets no padding."
    else:
        yield f"Response times are hidden only by the server, which answers at multiples of {policy.padding} seconds."
    yield "No independent party has reviewed the code of sfumato yet."


def detail_sections(policy: Policy) -> Iterator[ReportSection]:
    """Give what the policy says of tables and accounts, for readers who want the details."""
    tables = tuple((table.name, table_words(table)) for table in policy.tables)
    yield ReportSection(
        "Tables", (DataTable(("table", "whom it protects, and how much one person contributes"), tables, (False,) * 2),)
    )
    columns = tuple(
        (f"{table.name}.{column.name}", str(column.type), column_words(table, column))
        for table in policy.tables
        if not table.public
        for column in table.columns
    )
    yield ReportSection(
        "Columns that questions may use",
        (
            Paragraph("A column that is not listed does not exist for questions."),
            DataTable(("column", "type", "values"), columns, (False,) * 3),
        ),
    )
    shared = (
        "Accounts share stored answers: an answer that one account has paid for is free for the others."
        if policy.answers is Sharing.SHARED
        else "Each account sees the answers that it has paid for."
    )
    yield ReportSection("Who may see answers", (Paragraph(shared),))
