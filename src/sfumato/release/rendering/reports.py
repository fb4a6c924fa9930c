"""What an answer took from the budget, in plain text."""

from sfumato.ledger.budget import Budget, same_usage, used_text
from sfumato.release.release import Release

ASKED_BEFORE = "asked before, so free now"
"""The text of a repeated answer where the day of the first one is not known."""


def spending_text(release: Release, before: Budget, after: Budget, free: str = ASKED_BEFORE) -> str:
    """Say what an answer took from the budget: nothing, if it was given before or no person is in it.

    `free` is what a repeated answer says.
    """
    if release.event is None:
        return "exact and free: uses public tables only"
    if _is_repeated(release, before, after):
        return f"{free} (then {release.loss})" if release.loss.epsilon else free
    return f"cost {release.loss}"


def footer_text(release: Release, before: Budget, after: Budget, free: str = ASKED_BEFORE) -> str:
    """Return the line below an answer in plain text, which states its price already."""
    again = f"{free}; " if _is_repeated(release, before, after) else ""
    return f"{again}{used_text(after)}"


def _is_repeated(release: Release, before: Budget, after: Budget) -> bool:
    return release.event is not None and (release.repeated or (release.loss.epsilon > 0 and same_usage(before, after)))
