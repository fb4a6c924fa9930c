"""Format the bounds that were tried and the advice, for the owner only."""

from fractions import Fraction

from sfumato.accounting.loss import round_up
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.release.rendering.table import text_table
from sfumato.terminal.trial_runs import shorten_sql
from sfumato.terminal.tuning import MAX_RELATIVE_ERROR, Tuned

DISCLOSURE = (
    "Only for the data owner: these numbers come from the raw data, and no budget pays for them. A policy that "
    "contains them reveals something about the data, and possibly about a person who stands out. Prefer what you "
    'know from elsewhere, or let questions choose privately: rows_per_unit = { most = N, choose = "private" }, '
    'bounds = { within = [LOW, HIGH], choose = "private" }.'
)


def tuned_text(tuned: Tuned) -> str:
    """Return the advice for people."""
    rows = [[escape_unprintable(shorten_sql(question.sql)) for question in tuned.questions]]
    rows += [[_percent(share) for share in shares] for shares in zip(*_shares(tuned), strict=True)]
    names = ["question (of groups: the typical one)", "now off by", "advised"]
    table = text_table(names, rows, [False, True, True])
    head = f"Cut and noise together, at ε = {round_up(tuned.epsilon)} a question"
    advice = "\n".join(f"  {line}" for line in tuned.lines)
    ending = (
        f"Paste into the policy\n{advice}" if tuned.lines else "The bounds of the policy are the best of those tried."
    )
    return "\n\n".join([DISCLOSURE, f"{head}\n" + "\n".join(f"  {line}" for line in table.splitlines()), ending])


def _percent(share: Fraction) -> str:
    return f"{float(share):.1%}" if share < MAX_RELATIVE_ERROR else f"over {MAX_RELATIVE_ERROR * 100:,}%"


def _shares(tuned: Tuned) -> list[tuple[Fraction, Fraction]]:
    return [(question.now, question.advised) for question in tuned.questions]
