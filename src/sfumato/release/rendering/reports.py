"""What an answer took from the budget, in plain text."""

from sfumato.ledger.budget import Budget, same_usage, used_text
from sfumato.release.release import Release


def spending_text(release: Release, before: Budget, after: Budget) -> str:
    """Say what an answer took from the budget: nothing, if it was given before or nobody is in it."""
    if release.event is None:
        return "exact and free: uses public tables only"
    if _is_repeated(release, before, after):
        return f"asked before, so free now (then {release.loss})"
    return f"cost {release.loss}"


def footer_text(release: Release, before: Budget, after: Budget) -> str:
    """Return the line below an answer in plain text, which states its price already."""
    again = "asked before, so free now; " if _is_repeated(release, before, after) else ""
    return f"{again}{used_text(after)}"


def _is_repeated(release: Release, before: Budget, after: Budget) -> bool:
    return release.event is not None and release.loss.epsilon > 0 and same_usage(before, after)
