"""Notes on a value that a question measures first, because it compares people's rows with it."""

from collections.abc import Iterator
from fractions import Fraction

from sfumato.accounting.loss import percent_up, round_up
from sfumato.accounting.pure import epsilon_or_infinity
from sfumato.language.rel_nodes import noisy_tables
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.planning.noise import event_of
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import GroupPlan, Plan


def first_notes(plan: Plan) -> Iterator[Note]:
    """State the part of the price that is spent on first measurements."""
    labels = {given.table for first in plan.private.first for given in noisy_tables(first)}
    if not labels:
        return
    first = tuple(group for group in plan.groups if group.group.label in labels)
    text = (
        f"Rows are compared with a value that is measured first, for {_part(first, plan.groups)}. "
        "Intervals hold for the noisy value, which the answer states."
    )
    yield Note(NoteRank.MEANING, text)


def _part(groups: tuple[GroupPlan, ...], everything: tuple[GroupPlan, ...]) -> str:
    """Return what a part of a plan costs, in words."""
    first, whole = (
        None if (event := event_of(some)) is None else epsilon_or_infinity(event) for some in (groups, everything)
    )
    if isinstance(first, Fraction) and isinstance(whole, Fraction):
        return f"ε = {round_up(first)} of {round_up(whole)}"
    squares = [
        sum((_concentrated(one) for one in some), Fraction(0)) for some in (groups, everything)
    ]  # Gaussian noise: parts of its loss as zCDP counts it
    return f"{percent_up(squares[0] / squares[1])} of the price" if squares[1] else "a part of the price"


def _concentrated(group: GroupPlan) -> Fraction:
    noise = (measurement.mechanism for measurement in group.measured)
    return sum(
        (Fraction(one.sensitivity_squared) / one.sigma_squared for one in noise if isinstance(one, Gaussian)),
        Fraction(0),
    )
