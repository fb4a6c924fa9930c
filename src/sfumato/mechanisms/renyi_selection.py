"""Private key selection under Rényi losses: for a unit with many keys, far fewer units of a key are needed.

Whether a key is kept depends on its number of distinct units only, by a coin whose probability rises from delta per
key as fast as the Rényi losses at a few orders allow. Floats propose each probability; integers decide whether it is
private, and it is drawn exactly as it was decided. [HM26] Harrison, Manurangsi, Optimal partition selection with Rényi
differential privacy, arXiv:2603.09167.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, frexp, log, log1p

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Approximate, Neighbours, RenyiBounded, Repeated
from sfumato.caches import remembered
from sfumato.certified.binary import exp_minus_bounds, scaled_ceiling, scaled_floor
from sfumato.certified.enclosure import enclose, refine, upper
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.mechanisms.keys import key_counts, share_of_delta, touched_keys
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.source import Source, read_exactly

MAX_UNITS_FOR_CERTAINTY = 2048
"""Maximum number of units from which on a key is sure to appear: the table has this many probabilities."""
BITS = 128
"""Binary digits of a keep probability."""
_UNIT_NUMERATOR = 1 << BITS
_FRACTION_BITS = 192
_LOSS_UNITS = 1 << 32
"""Losses that a table has are rounded up to multiples of 2^-32: the last digit of a float leaves the event the same."""
_MAX_EXPONENT = 700.0
_HALVINGS = 26
_MIN_STEP = 1e-12
_FIRST_RETREAT, _MAX_RETREATS = 1e-11, 12
_MAX_ORDER, _MAX_LOSS = 4096, 1000


@dataclass(frozen=True, slots=True)
class RenyiSelection:
    """Release each key with the largest probability that its number of units and given Rényi losses allow.

    Theorem: let one unit be counted once in at most `groups_per_unit` = g keys, and let t = g (add-remove) or t = 2g
    (replace). Keeping a key of n units with probability π(n), independently per key, is `event`: except with
    probability delta, the release has at each of `orders` a Rényi loss of at most that of `losses`. For t = 1 and one
    order no rule of this loss keeps a key of two units or more with a larger probability, up to rounding.  [HM26]
    Proof: proofs/renyi_selection.md
    """

    delta: Fraction
    groups_per_unit: int
    orders: tuple[int, ...]
    losses: tuple[Fraction, ...]
    """What all keys of a unit may cost together, at each order."""
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)
        bound = RenyiBounded(Fraction(1), self.orders, self.losses, self.neighbours)  # reads and checks both
        object.__setattr__(self, "orders", bound.orders)
        object.__setattr__(self, "losses", bound.losses)
        if self.orders[-1] > _MAX_ORDER or not all(self.losses) or max(self.losses) > _MAX_LOSS:
            raise BadParameter(
                "An order is too high, or a loss is 0 or too large.",
                f"Orders are at most {_MAX_ORDER:,}, and losses lie above 0 and are at most {_MAX_LOSS}.",
                "Give smaller orders and losses, each loss above 0.",
            )
        if scaled_floor(self.delta_per_key, BITS // 2) == 0:
            raise BadParameter(
                f"delta over {self.touched} keys is too small to select keys.",
                f"Probabilities are multiples of 2^-{BITS}.",
                "Raise delta, or lower groups_per_unit.",
            )
        _ = self._table

    @property
    def touched(self) -> int:
        """Number of keys that differ between neighbours."""
        return touched_keys(self.groups_per_unit, self.neighbours)

    @property
    def delta_per_key(self) -> Fraction:
        return share_of_delta(self.delta, self.touched)

    @property
    def _table(self) -> "KeepTable":
        each = tuple(loss / self.touched for loss in self.losses)
        return keep_table(self.orders, each, self.delta_per_key)

    @property
    def decision(self) -> RenyiBounded:
        """Event of what is decided about one key, except with `delta_per_key`."""
        table = self._table
        return RenyiBounded(table.epsilon, self.orders, table.losses, self.neighbours)

    @property
    def event(self) -> Approximate:
        """Event of a release: one bounded decision for each key that a unit touches, except with `delta`."""
        decision = self.decision
        return Approximate(decision if self.touched == 1 else Repeated(decision, self.touched), self.delta)

    def keep(self, units: int) -> Fraction:
        """Return the probability that a key of this many units is released, exactly."""
        numerators = self._table.numerators
        return Fraction(numerators[min(integer(units, "units", 0), len(numerators) - 1)], _UNIT_NUMERATOR)

    def release(self, values: object, source: Source) -> npt.NDArray[np.int64]:
        """Return the indices of the kept keys, given each key's number of distinct units.

        Sort the keys before showing them: the gaps between their indices are secret.
        """
        units = key_counts(values)
        # two words per key, for every count
        words = np.frombuffer(read_exactly(source, BITS // 8 * len(units)), dtype="<u8").reshape(-1, 2)
        table = self._table
        last = len(table.numerators) - 1
        sure, places = units >= last, np.minimum(units, last - 1)
        high, low = table.words[places, 0], table.words[places, 1]
        return np.flatnonzero(sure | (words[:, 0] < high) | ((words[:, 0] == high) & (words[:, 1] < low)))

    def units_for(self, chance: object) -> int:
        """Return the smallest number of units with which a key is released with at least this probability."""
        wanted = scaled_ceiling(probability(chance, "probability"), BITS)
        return next(units for units, numerator in enumerate(self._table.numerators) if numerator >= wanted)

    def margin(self, confidence: object) -> int:
        """Return the size from which a key is released with this probability; smaller keys may be missing."""
        return self.units_for(confidence)


@dataclass(frozen=True, slots=True, eq=False)
class KeepTable:
    """The keep probabilities of 0, 1, 2, … units, and what one decision of them costs at most."""

    numerators: tuple[int, ...]
    """Probabilities in units of 2^-128; the last one is 1."""
    words: npt.NDArray[np.uint64]
    """The same but the last, as two words each."""
    epsilon: Fraction
    losses: tuple[Fraction, ...]


@remembered(64)
def keep_table(orders: tuple[int, ...], losses: tuple[Fraction, ...], delta: Fraction) -> KeepTable:
    """Return the largest keep probabilities at these Rényi losses per key, except with delta per key."""
    limits = tuple(_Limit.of(order, loss) for order, loss in zip(orders, losses, strict=True))
    failing = scaled_floor(delta, BITS)
    most, ratio = [Fraction(1)] * len(limits), Fraction(1)
    numerators = [0, failing]
    step = 1.0
    while numerators[-1] < _UNIT_NUMERATOR:
        if len(numerators) > MAX_UNITS_FOR_CERTAINTY:
            raise BadParameter(
                "The Rényi losses per key are too small to select keys.",
                f"A key would need more than {MAX_UNITS_FOR_CERTAINTY:,} units to be sure to appear.",
                "Raise epsilon, or lower groups_per_unit.",
            )
        before = numerators[-1]
        if before + failing >= _UNIT_NUMERATOR:
            numerators.append(_UNIT_NUMERATOR)
            continue
        pair, step = _best_pair(before, _UNIT_NUMERATOR - failing, limits, step)
        numerators.append(pair.kept + failing)
        if pair.kept > pair.was_kept:
            most = [max(known, pair.moment(limit.order)) for known, limit in zip(most, limits, strict=True)]
            ratio = max(ratio, pair.largest_ratio)
    found = [_loss_of(moment, limit.order) for moment, limit in zip(most, limits, strict=True)]
    halves = [divmod(numerator, 1 << BITS // 2) for numerator in numerators[:-1]]
    return KeepTable(
        tuple(numerators),
        np.array(halves, dtype=np.uint64),
        max(_rounded_up(upper(refine(lambda digits: enclose(ratio, digits).ln()))), Fraction(1, _LOSS_UNITS)),
        tuple(min(loss, known) for loss, known in zip(losses, found, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _Limit:
    """The largest moment e^((α - 1)r) of a pair at an order: as a float, and as an upper bound of its inverse."""

    order: int
    logarithm: float
    inverse: int
    bits: int
    """Binary digits of `inverse`."""

    @classmethod
    def of(cls, order: int, loss: Fraction) -> "_Limit":
        exponent = (order - 1) * loss
        bits = _FRACTION_BITS + 2 * ceil(exponent)  # so that as many digits are known of a small inverse
        return cls(order, float(exponent), exp_minus_bounds(exponent, bits)[1], bits)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two laws of a decision, in parts of `whole`: with one unit more it is kept by `kept`, before by `was_kept`."""

    kept: int
    was_kept: int
    whole: int

    @property
    def largest_ratio(self) -> Fraction:
        """The largest ratio of two probabilities."""
        dropped, was_dropped = self.whole - self.kept, self.whole - self.was_kept
        return max(Fraction(self.kept, self.was_kept), Fraction(was_dropped, dropped))

    def moment(self, order: int) -> Fraction:
        """Return an upper bound of Σ P^α Q^(1-α), the larger of both directions."""
        return Fraction(self._moment(order), self.whole << _FRACTION_BITS)

    def _moment(self, order: int) -> int:
        kept, was_kept = self.kept, self.was_kept
        dropped, was_dropped = self.whole - kept, self.whole - was_kept
        ahead = was_kept * _power_up(kept, was_kept, order) + was_dropped * _power_up(dropped, was_dropped, order)
        back = kept * _power_up(was_kept, kept, order) + dropped * _power_up(was_dropped, dropped, order)
        return max(ahead, back)

    def holds(self, limits: Sequence[_Limit]) -> bool:
        """Whether no moment exceeds its limit, decided in integers: moment · e^-((α - 1)r) <= 1."""
        if self.kept == self.was_kept:
            return True
        if not 0 < self.was_kept < self.kept < self.whole:
            return False
        return all(
            self._moment(limit.order) * limit.inverse <= self.whole << _FRACTION_BITS + limit.bits for limit in limits
        )


def _best_pair(was_kept: int, whole: int, limits: Sequence[_Limit], guess: float) -> tuple[_Pair, float]:
    """Return the pair with nearly the largest probability that holds, and its step in log-odds."""
    step = _largest_step(was_kept, whole, limits, guess)
    for proposed in _retreating(step):
        pair = _Pair(min(_moved(was_kept, whole, proposed), whole - 1), was_kept, whole)
        if pair.holds(limits):
            return pair, step
    return _Pair(was_kept, was_kept, whole), step


def _retreating(step: float) -> Iterator[float]:
    retreat = _FIRST_RETREAT
    for _ in range(_MAX_RETREATS):
        yield step * (1 - min(retreat, 0.9))
        retreat *= 8


def _largest_step(was_kept: int, whole: int, limits: Sequence[_Limit], guess: float) -> float:
    """Return about the largest step in log-odds within the limits. Proof: proofs/renyi_selection.md, step 4"""
    # seen from the rarer outcome, so that no digit of it is lost
    sign = 1 if 2 * was_kept <= whole else -1
    chance = min(was_kept, whole - was_kept) / whole

    signed = [(limit.order, sign * limit.order, -sign * (limit.order - 1), limit.logarithm) for limit in limits]

    def _fits(step: float) -> bool:
        once = _log_mean(chance, sign * step)
        for order, ahead, back, most in signed:
            if _log_mean(chance, ahead * step) - order * once > most:
                return False
            if (order - 1) * once + _log_mean(chance, back * step) > most:
                return False
        return True

    low, high = 0.0, guess
    while _fits(high) and high < _MAX_EXPONENT / 2:
        low, high = high, 2 * high
    while low == 0 and not _fits(high / 2) and high > _MIN_STEP:
        high /= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _fits(middle) else (low, middle)
    return low


def _log_mean(chance: float, exponent: float) -> float:
    """Return ln(1 - chance + chance · e^exponent)."""
    if exponent < _MAX_EXPONENT:
        return log1p(chance * expm1(exponent))
    return exponent + log(chance)


def _moved(was_kept: int, whole: int, step: float) -> int:
    """Return about the number that `step` more in log-odds makes of `was_kept`, of `whole`."""
    was_dropped = whole - was_kept
    mantissa, exponent = frexp(exp(step))
    shift = 53 - exponent
    odds = was_kept * int(mantissa * 2**53)
    total = odds + (was_dropped << shift) if shift >= 0 else odds + (was_dropped >> -shift)
    return whole * odds // total


def _power_up(above: int, below: int, order: int) -> int:
    """Return an upper bound of (above / below)^order · 2^192."""
    power, base = 1 << _FRACTION_BITS, -((-above << _FRACTION_BITS) // below)
    while True:
        if order & 1:
            power = -(-power * base >> _FRACTION_BITS)
        order >>= 1
        if not order:
            return power
        base = -(-base * base >> _FRACTION_BITS)


def _loss_of(moment: Fraction, order: int) -> Fraction:
    return _rounded_up(upper(refine(lambda digits: enclose(moment, digits).ln() / (order - 1))))


def _rounded_up(loss: Fraction | float) -> Fraction:
    return Fraction(scaled_ceiling(Fraction(loss), _LOSS_UNITS.bit_length() - 1), _LOSS_UNITS)
