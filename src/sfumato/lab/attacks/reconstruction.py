"""Reconstruction: enough answers, each a little wrong, are the database [Dinur, Nissim 2003].

The curve shows the share of rows recovered over the noise; beside it stands what the same attack, with the same number
of questions, gets out of sfumato, and what no attack can exceed.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt

from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks import exhaustive, membership
from sfumato.lab.attacks.bounds import most_recovered, recovered_share
from sfumato.lab.attacks.historical import BoundedNoise, share_equal
from sfumato.lab.attacks.least_squares import LeastSquares, ask_all_masks, linear_programme
from sfumato.lab.attacks.protected import Protected
from sfumato.lab.generators.seeded import coins, subsets
from sfumato.randomness.source import Source

QUERIES_PER_ROW = 4
"""Questions for each row."""
LINEAR_ROWS = 100
"""How many rows the linear programme is given: it takes a second where least squares takes a hundredth."""
LOSSES = (
    PrivacyLoss(Fraction(1, 10)),
    PrivacyLoss(Fraction(1)),
    PrivacyLoss(Fraction(1), Fraction(1, 10**6)),
    PrivacyLoss(Fraction(3), Fraction(1, 10**6)),
)
FAILURE_PROBABILITY = 1e-6
"""How often a pure guarantee may let more rows be recovered than `Guarded.most` says."""


@dataclass(frozen=True, slots=True)
class Point:
    """One system with noise bounded by `bound`."""

    bound: int
    recovered: Fraction


@dataclass(frozen=True, slots=True)
class GuardedAttack:
    """The same attack on sfumato: how much it recovered, and how much any attack may hope for."""

    loss: PrivacyLoss
    rows: int
    recovered: Fraction

    @property
    def expected(self) -> float:
        """The largest share that can be expected."""
        return recovered_share(self.loss)

    @property
    def most(self) -> Fraction | None:
        """The largest share there will be, except with probability `FAILURE_PROBABILITY`; None where a delta leaves it
        open.
        """
        if self.loss.delta:
            return None
        return Fraction(most_recovered(self.rows, self.loss.epsilon, FAILURE_PROBABILITY), self.rows)


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """All that the attack found."""

    rows: int
    questions: int
    curve: tuple[Point, ...]
    guarded: tuple[GuardedAttack, ...]
    small: exhaustive.Exhaustive
    linear: Point
    single: membership.Membership

    @property
    def tenth_root(self) -> int:
        """√n / 10, rounded up: the noise at which more than 95 % of the rows must fall."""
        return ceil(sqrt(self.rows) / 10)

    def at(self, bound: int) -> Fraction:
        """Return the share recovered at a noise of the curve."""
        return next(point.recovered for point in self.curve if point.bound == bound)

    def report(self) -> str:
        """Return what was recovered, line by line."""
        n = self.rows
        lines = [
            f"Reconstruction: {n:,} secret bits from {self.questions:,} noisy counts of random subsets (least squares)",
            "",
            "  noise at most   rows recovered",
            *(f"  {point.bound:13,}   {float(point.recovered):14.1%}{self._mark(point.bound)}" for point in self.curve),
            "",
            (
                f"At noise n/400 = {n / 400:g} the theorem alone promises 99 % to anyone who can ask all subsets; "
                "above √n ="
            ),
            f"{sqrt(n):.0f} the answers begin to hide the rows. A coin would get 50 %.",
            "",
            "The same attack on sfumato, as many questions, one budget for all of them",
            "",
            "  total loss                rows recovered   any attack, expected   any attack, at most",
            *(
                f"  {guarded.loss!s:24}  {float(guarded.recovered):14.1%}   {guarded.expected:20.1%}   "
                + (f"{float(guarded.most):19.1%}" if guarded.most is not None else f"{'-':>19}")
                for guarded in self.guarded
            ),
            "",
            f"Exhaustive: {self.small.report()}.",
            f"Linear programming: {LINEAR_ROWS} rows at noise {self.linear.bound}: "
            f"{float(self.linear.recovered):.1%} recovered.",
            f"The bound is attained: {self.single.report()}.",
        ]
        return "\n".join(lines)

    def _mark(self, bound: int) -> str:
        marks = {self.tenth_root: "   √n/10, rounded up", self.rows // 400: "   n/400, rounded down"}
        return marks.get(bound, "")


def run(rows: int, source: Source) -> Reconstruction:
    """Attack made-up bits behind more and more noise, and behind sfumato."""
    secret = coins(rows, source)
    questions = subsets(QUERIES_PER_ROW * rows, rows, source)
    decoder = LeastSquares(questions)
    bounds = sorted({1 << power for power in range((rows // 2).bit_length())} | {ceil(sqrt(rows) / 10)})
    return Reconstruction(
        rows=rows,
        questions=len(questions),
        curve=tuple(
            Point(
                bound,
                share_equal(decoder.decode(ask_all_masks(BoundedNoise(secret, bound, source), questions)), secret),
            )
            for bound in bounds
        ),
        guarded=tuple(
            GuardedAttack(
                loss,
                rows,
                share_equal(
                    decoder.decode(ask_all_masks(Protected(secret, loss, len(questions), source), questions)), secret
                ),
            )
            for loss in LOSSES
        ),
        small=exhaustive.run(10, 1, source),
        linear=_linear_point(LINEAR_ROWS, source),
        single=membership.run(Fraction(1), 20_000, source),
    )


def _linear_point(rows: int, source: Source) -> Point:
    secret, questions = coins(rows, source), subsets(QUERIES_PER_ROW * rows, rows, source)
    bound = ceil(sqrt(rows) / 10)
    answers = ask_all_masks(BoundedNoise(secret, bound, source), questions)
    return Point(bound, share_equal(linear_programme(questions, answers), secret))
