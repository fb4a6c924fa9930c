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

_CHOOSING = "Bounds that each question chooses are better here than any fixed ones, for every question."
_TRADE = "This advice is better in total, and worse for {} of {} questions. No draft is better for all of them."


def tuned_text(tuned: Tuned) -> str:
    """Return the advice for people."""
    columns = [
        [escape_unprintable(shorten_sql(question.sql)) for question in tuned.questions],
        [_percent(question.now) for question in tuned.questions],
        [f"{_percent(question.advised)}{' (worse)' if question.worse else ''}" for question in tuned.questions],
    ]
    names = ["question (of groups: the typical one)", "now off by", "advised"]
    if any(question.chosen is not None for question in tuned.questions):
        names.append("chosen by each question")
        columns.append(["–" if question.chosen is None else _percent(question.chosen) for question in tuned.questions])
    table = text_table(names, columns, [False] + [True] * (len(names) - 1))
    parts = [DISCLOSURE, _section(f"Cut and noise together, at ε = {round_up(tuned.epsilon)} a question", table)]
    if tuned.skipped:
        lines = [escape_unprintable(f"- {shorten_sql(query.sql)}: {query.why}") for query in tuned.skipped]
        parts.append(_section("Not rehearsed", "\n".join(lines)))
    worse = sum(question.worse for question in tuned.questions)
    if tuned.choosing:
        parts.append(_section(f"{_CHOOSING}\nPaste into the policy", "\n".join(tuned.choosing)))
    elif tuned.lines:
        head = f"{_TRADE.format(worse, len(tuned.questions))}\n" if worse else ""
        parts.append(_section(f"{head}Paste into the policy", "\n".join(tuned.lines)))
    else:
        parts.append("The bounds of the policy are the best of those tried.")
    return "\n\n".join(parts)


def _section(title: str, text: str) -> str:
    return f"{title}\n" + "\n".join(f"  {line}" for line in text.splitlines())


def _percent(share: Fraction) -> str:
    return f"{float(share):.1%}" if share < MAX_RELATIVE_ERROR else f"over {MAX_RELATIVE_ERROR * 100:,}%"
