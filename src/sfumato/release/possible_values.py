"""What counts and sums can be, whatever their noise says."""

from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.release.decode import Value
from sfumato.release.intervals.confidence import EvaluatedAnswer


def possible_ranges(answered: EvaluatedAnswer) -> tuple[tuple[int | None, int | None], ...]:
    """Return what plain counts and sums can be: not below 0, or on the side of 0 where all their values lie.

    Of different values there are no more than public ones.
    """
    limits: list[tuple[int | None, int | None]] = []
    for index, plain in enumerate(map(answered.aggregate, answered.traced.items)):
        match None if plain is None or index in answered.shown_ends else plain:
            case (group, CountColumn(count=count)):
                limits.append((0, group.most_distinct(count)))
            case (_, SumColumn(low=low, high=high)):
                limits.append((0 if low >= 0 else None, 0 if high <= 0 else None))
            case _:
                limits.append((None, None))
    return tuple(limits)


def clamp_value(value: Value, limits: tuple[int | None, int | None]) -> Value:
    """Return the possible value that is nearest to one."""
    if not isinstance(value, int | float):
        return value
    least, most = limits
    if least is not None and value < least:
        return type(value)(least)
    return type(value)(most) if most is not None and value > most else value
