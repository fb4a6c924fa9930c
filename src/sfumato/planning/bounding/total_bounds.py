"""Sums that cut off the total of each person, where the policy says so and that errs less than rows and bounds.

Theorem: one person moves such a sum by at most the total, over all cells together.
Proof: proofs/chosen_caps.md, 1
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.language.scalar import columns_read
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.bounding.candidates import ContributionBound
from sfumato.planning.bounding.selectable import is_plain, total_of
from sfumato.planning.bounding.selection import sensitivity_at_bound
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import Plan
from sfumato.planning.shared_marginals import ContingencyTable
from sfumato.query.functions import Aggregation


def with_total_bounds(
    needs: Sequence[MeasurementSet], tables: Sequence[ContingencyTable], neighbours: Neighbours
) -> tuple[MeasurementSet, ...]:
    """Return the needs with sums cut off at their people's totals, wherever one person then moves them less.

    Margins of one table stay as they are: which of a person's rows are cut depends on what a question reads.
    """
    margins = {(margin.label, margin.name) for table in tables for margin in table.margins}
    return tuple(
        replace(
            need,
            measurements=tuple(_clipped(measurement, need, margins, neighbours) for measurement in need.measurements),
        )
        for need in needs
    )


def _clipped(
    one: Measurement, need: MeasurementSet, margins: set[tuple[str, str]], neighbours: Neighbours
) -> Measurement:
    group = need.group
    most = _total(one, need)
    if most is None or (group.label, one.name) in margins:
        return one
    cells = max(1, group.cells) if group.public_keys else None
    moved = sensitivity_at_bound(one.quantity, group.contribution, cells, most, False, neighbours)
    now = one.sensitivity
    if moved.l1 >= now.l1 or moved.l2_squared >= now.l2_squared:
        return one
    reach = group.contribution.rows * one.quantity.arguments[0].facts.high
    return replace(one, sensitivity=moved, side=None, bound=ContributionBound((most,), one.quantity, reach))


def _total(one: Measurement, need: MeasurementSet) -> int | None:
    """Return the total that bounds a sum; an average keeps its rows, and so does what cannot be cut at all."""
    quantity = one.quantity
    made = [made for made in need.derived if one.name in made.measured]
    if quantity.function is not Aggregation.SUM or quantity.distinct:
        return None
    if one.candidates is not None or need.top is not None:
        return None
    if not is_plain(need.group) or not all(isinstance(made_of, SumColumn) for made_of in made):
        return None
    return None if quantity.arguments[0].facts.low < 0 else total_of(quantity.arguments[0], need.group)


def total_notes(plan: Plan) -> Iterator[Note]:
    """Say of each sum whose column has a total how people are bounded, and why so."""
    for group in plan.groups:
        summed = {name for made in group.derived if isinstance(made, SumColumn) for name in made.measured}
        for measurement in group.measured:
            is_sum = measurement.quantity.function is Aggregation.SUM and measurement.name in summed
            most = total_of(measurement.quantity.arguments[0], group.group) if is_sum else None
            if most is None:
                continue
            (argument,) = measurement.quantity.arguments
            step, rows = argument.facts.step, group.group.contribution.rows
            ((_, name),) = columns_read(argument)
            total = _number(most * step)
            each = f"{rows:,} row{'s' * (rows != 1)} of up to {_number(argument.facts.high * step)} each"
            if measurement.bound is not None and not measurement.bound.is_selected:
                text = (
                    f"Each person adds at most {total} to the sum of `{name}`, which needs less noise than {each}. "
                    "Amounts beyond it are dropped, and margins do not cover this."
                )
                yield Note(NoteRank.LACK, text)
            else:
                text = (
                    f"Each person adds at most {each} to the sum of `{name}`. The total of {total} is not used: it "
                    "would need as much noise, or it cannot be applied."
                )
                yield Note(NoteRank.HINT, text)


def _number(amount: Fraction) -> str:
    return f"{float(amount):,.12g}"
