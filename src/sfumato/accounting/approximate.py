"""Every event is a core that happens except with probability delta; this takes the two apart."""

from fractions import Fraction

from sfumato.accounting.event import (
    EVENTS,
    Approximate,
    BestOfNegativeBinomial,
    BestOfPoisson,
    Composed,
    Event,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Repeated,
    TreeAggregation,
    TruncatedPoissonSampled,
)
from sfumato.errors import UnsupportedEvent


def separate(event: Event, accountant: str = "privacy") -> tuple[Event, Fraction]:
    """Return the event without any `Approximate`, and a delta: the release is the core except with that probability.

    Deltas add up in a composition, the largest counts in parallel, and a sample of rate q meets the bad case with
    probability q·delta. The delta may exceed 1: then there is no guarantee. Proof: proofs/composition.md, Lemma 1.
    """
    match event:
        case Approximate(inner, delta):
            core, within = separate(inner, accountant)
            return core, within + delta
        case Repeated(inner, times):
            core, within = separate(inner, accountant)
            return (event if core is inner else Repeated(core, times)), times * within
        case PoissonSampled(rate, inner):
            core, within = separate(inner, accountant)
            return PoissonSampled(rate, core), rate * within
        case TreeAggregation():
            return separate(event.path, accountant)
        case TruncatedPoissonSampled(event=inner) | BestOfPoisson(event=inner) | BestOfNegativeBinomial(event=inner):
            if separate(inner, accountant)[1]:
                raise UnsupportedEvent(
                    event,
                    accountant=accountant,
                    why="A failure probability inside it grows in a way that no theorem here bounds.",
                    remedy="State the delta of the whole release: Approximate around it.",
                )
            return event, Fraction(0)
        case Composed(events):
            parts = [separate(part, accountant) for part in events]
            if _as_they_are(events, parts):
                return event, Fraction(0)
            return Composed(tuple(core for core, _ in parts)), sum((delta for _, delta in parts), Fraction(0))
        case Parallel(events):
            parts = [separate(part, accountant) for part in events]
            if _as_they_are(events, parts):
                return event, Fraction(0)
            return Parallel(tuple(core for core, _ in parts)), max((delta for _, delta in parts), default=Fraction(0))
        case _ if isinstance(event, EVENTS):
            return event, Fraction(0)
        case _:
            raise UnsupportedEvent(event, accountant=accountant)


def _as_they_are(events: tuple[Event, ...], parts: list[tuple[Event, Fraction]]) -> bool:
    """Whether all parts of an event are cores themselves: then it is its own core, and no new event is made."""
    return all(core is part and not delta for part, (core, delta) in zip(events, parts, strict=True))


def core_target(target: Fraction, failures: Fraction) -> Fraction:
    """Return the delta that is left for the core: δ_core with δ + (1 - δ)·δ_core = target; at most 0 if nothing is.

    Proof: proofs/composition.md, Lemma 1
    """
    return (target - failures) / (1 - failures) if failures < 1 else target - failures


def nonprivate(event: Event) -> bool:
    """Tell whether a release without any guarantee occurs in a core event."""
    match event:
        case NonPrivate():
            return True
        case Repeated(event=inner) | PoissonSampled(event=inner) | TreeAggregation(event=inner):
            return nonprivate(inner)
        case TruncatedPoissonSampled(event=inner) | BestOfPoisson(event=inner) | BestOfNegativeBinomial(event=inner):
            return nonprivate(inner)
        case Composed(events) | Parallel(events):
            return any(nonprivate(part) for part in events)
        case _:
            return False
