"""Sparse vector: answer "above" or "below" to a stream of queries, paying for the first few aboves only."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.mechanisms.choice import add_score_noise, rate_of
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.selection import integer_array
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class Watch:
    """Where a stream stands: the noisy threshold, which is secret, and how many aboves are left.

    A watch may be continued once only: two continuations of the same watch would answer twice as often as was paid for.
    """

    noisy_threshold: int = field(repr=False)
    left: int
    of: "SparseVector" = field(repr=False)
    """The mechanism that drew the threshold: no other may continue, since its noise would be another."""


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Compare query + noise with threshold + noise; the threshold's noise is drawn once; stop after `aboves` aboves.

    With c = aboves, integer Laplace noise of scale sensitivity / threshold_epsilon on the threshold, and of scale
    2 * c * sensitivity / answers_epsilon, fresh, on each query (c * sensitivity / answers_epsilon if one unit moves
    all queries the same way: `monotone`).
    Theorem: if one privacy unit moves each integer query by at most `sensitivity`, then all answers together are
    (threshold_epsilon + answers_epsilon)-DP, however many queries are asked and however they depend on earlier
    answers. No noisy value is ever shown. [Dwork, Roth 2014, §3.6; Lyu, Su, Li 2017, Algorithm 1]
    Proof: proofs/sparse_vector.md
    """

    threshold: int
    aboves: int
    sensitivity: int
    threshold_epsilon: Fraction
    answers_epsilon: Fraction
    neighbours: Neighbours
    monotone: bool = False

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "threshold", integer(self.threshold, "threshold", None))

    @property
    def event(self) -> Pure:
        return Pure(self.threshold_epsilon + self.answers_epsilon, self.neighbours)

    @property
    def threshold_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.sensitivity / self.threshold_epsilon)

    @property
    def query_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.aboves / rate_of(self.answers_epsilon, self.sensitivity, self.monotone))

    def start(self, source: Source) -> Watch:
        """Draw the noisy threshold, once for the whole stream."""
        return Watch(self.threshold + int(self.threshold_noise.draw(1, source)[0]), self.aboves, self)

    def answer(self, watch: Watch, queries: object, source: Source) -> tuple[npt.NDArray[np.bool_], Watch]:
        """Answer queries (true: above) until they end or the last above is given, and return where the stream stands.

        Fewer answers than queries mean that the stream has ended. `watch` is used up by this call.
        """
        if watch.of != self:
            raise BadParameter(
                "This watch was started by another mechanism.",
                "The noise on its queries was paid for by that one.",
                "Continue it with the mechanism that started it.",
            )
        if watch.left < 1:
            raise BadParameter(
                "This watch has ended.", f"All {self.aboves} aboves were given.", "Start a new one; it costs again."
            )
        values = integer_array(queries, "queries")
        above = np.asarray(add_score_noise(values, self.query_noise.draw(len(values), source)) >= watch.noisy_threshold)
        ends = np.flatnonzero(above)[watch.left - 1 : watch.left]
        answers = above.astype(np.bool_)[: int(ends[0]) + 1 if len(ends) else None]
        return answers, Watch(watch.noisy_threshold, watch.left - int(answers.sum()), self)

    def release(self, queries: object, source: Source) -> npt.NDArray[np.bool_]:
        """Answer a list of queries; the answers end with the last paid answer above the threshold."""
        return self.answer(self.start(source), queries, source)[0]

    def margin(self, confidence: Fraction, queries: int) -> int:
        """Return t such that, with that confidence, all answers to `queries` queries are right up to t at once.

        Right up to t: "above" only if the query is at least threshold - t, "below" only if it is at most threshold + t.
        It is enough for every stream, not always the smallest (proofs/sparse_vector.md, part 2).
        """
        doubt = (1 - probability(confidence, "confidence")) / 2
        each = doubt / integer(queries, "queries", 1)
        return self.threshold_noise.margin(1 - doubt) + self.query_noise.margin(1 - each)
