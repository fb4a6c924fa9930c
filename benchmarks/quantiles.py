"""How far off are private quantiles, against OpenDP, diffprivlib and Tumult's published method? (median, nine deciles)

One run, the same data, bounds and epsilon for all, every row its own person. The error is the mean distance from the
true quantile, over many answers. The others tell no error bars; so the ratio is taken for sfumato's APPROX_QUANTILE,
which tells none either. QUANTILE_CONT spends a part of epsilon on its bars, and its errors are printed beside. Run
it in an environment that also has opendp and diffprivlib:

    python benchmarks/quantiles.py

A package that is not installed is replaced by its published method, written below; the lines say which. Tumult's
library needs a Spark session for each answer, so its method is always the one written below [tmlt.core, NoisyQuantile].
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.spacing import Spacing
from sfumato.randomness.source import system_source

Values = npt.NDArray[np.int64]
Method = Callable[[Values, int, int, Sequence[Fraction], Fraction], Sequence[float]]

EPSILON = Fraction(1)
ANSWERS = {"median": 400, "nine deciles": 40}
CANDIDATES = 1000
BRANCHES, LEAVES = 16, 4096
MEDIAN = (Fraction(1, 2),)
DECILES = tuple(Fraction(place, 10) for place in range(1, 10))
random = np.random.default_rng(20261116)


def sfumato(values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction) -> Sequence[float]:
    """Return our answers, as APPROX_QUANTILE gives them."""
    return _sfumato(values, low, high, levels, epsilon, ends=False)


def with_bars(values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction) -> Sequence[float]:
    """Return our answers where a part of epsilon is spent on bars, as QUANTILE_CONT gives them."""
    return _sfumato(values, low, high, levels, epsilon, ends=True)


def _sfumato(
    values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction, *, ends: bool
) -> Sequence[float]:
    spacing = Spacing(low, high)
    mechanism = Quantiles(tuple(levels), spacing.buckets, 1, epsilon, Neighbours.ADD_REMOVE, ends)
    places, weights = np.unique(spacing.numbers(values), return_counts=True)
    return [spacing.middle(int(place)) for _, place, _ in mechanism.release(places, weights, system_source())]


def interval_choice(values: Values, low: int, high: int, level: Fraction, rate: float) -> float:
    """Choose an interval between neighbouring values by its length and rank, and a point in it [Smith 2011]."""
    edges = np.concatenate(([low], np.sort(np.clip(values, low, high)), [high])).astype(float)
    with np.errstate(divide="ignore"):
        weights = np.log(np.diff(edges)) - rate * np.abs(np.arange(len(edges) - 1) - float(level) * len(values))
    place = int(np.argmax(weights + random.gumbel(size=len(weights))))
    return float(random.uniform(edges[place], edges[place + 1]))


def tumult(values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction) -> Sequence[float]:
    """Return Tumult's method: each level by itself, at its share of epsilon, with sensitivity max(q, 1 - q)."""
    share = float(epsilon) / len(levels)
    return [interval_choice(values, low, high, level, share / (2 * float(max(level, 1 - level)))) for level in levels]


def published_diffprivlib(
    values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction
) -> Sequence[float]:
    """Return diffprivlib's method: each level by itself, at its share of epsilon, with sensitivity 1."""
    return [interval_choice(values, low, high, level, float(epsilon) / len(levels) / 2) for level in levels]


def installed_diffprivlib(
    values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction
) -> Sequence[float]:
    """Return what diffprivlib answers."""
    from diffprivlib.tools import quantile  # type: ignore[import-not-found,import-untyped,unused-ignore]

    levels_of_floats = [float(level) for level in levels]
    found = quantile(values.astype(float), levels_of_floats, epsilon=float(epsilon), bounds=(low, high))
    return [float(value) for value in np.atleast_1d(found)]


def candidates_of(low: int, high: int) -> Values:
    """Return the points that OpenDP chooses among: all of a small range, else evenly spaced ones."""
    return np.unique(np.linspace(low, high, min(high - low + 1, CANDIDATES)).round().astype(np.int64))


def published_opendp(
    values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction
) -> Sequence[float]:
    """Return OpenDP's choice among candidates: exponential noise on scores of sensitivity max(p, q - p)."""
    points, ordered = candidates_of(low, high), np.sort(values)
    below, upto = np.searchsorted(ordered, points, "left"), np.searchsorted(ordered, points, "right")
    answers = []
    for level in levels:
        p, q, size = level.numerator, level.denominator, len(values)
        scores = -np.abs((q - p) * below - p * (size - upto))
        scale = 2 * max(p, q - p) * len(levels) / float(epsilon)
        answers.append(float(points[np.argmax(scores + random.exponential(scale, len(points)))]))
    return answers


def installed_opendp(
    values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction
) -> Sequence[float]:
    """Return what OpenDP answers: candidates scored for each level, and the least noisy score."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    points = candidates_of(low, high).tolist()
    answers = []
    for level in levels:
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
        scored = space >> dp.t.then_quantile_score_candidates(points, float(level))
        scale = dp.binary_search_param(
            lambda s, scored=scored: scored >> dp.m.then_noisy_max(dp.max_divergence(), s, negate=True),
            d_in=1,
            d_out=float(epsilon) / len(levels),
            T=float,
        )
        chosen = (scored >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True))(values.tolist())
        answers.append(float(points[chosen]))
    return answers


def tree(values: Values, low: int, high: int, levels: Sequence[Fraction], epsilon: Fraction) -> Sequence[float]:
    """Return a noisy tree of counts made consistent, as in OpenDP's b-ary tree [Hay et al. 2010]: branching 16."""
    edges = np.linspace(low, high + 1, min(high - low + 1, LEAVES) + 1)
    counts = [np.histogram(values, edges)[0].astype(float)]
    counts[0] = np.concatenate((counts[0], np.zeros(-len(counts[0]) % BRANCHES)))
    while len(counts[-1]) > BRANCHES:
        summed = counts[-1].reshape(-1, BRANCHES).sum(axis=1)
        counts.append(np.concatenate((summed, np.zeros(-len(summed) % BRANCHES))))
    noisy = [level + random.laplace(0, len(counts) / float(epsilon), len(level)) for level in counts]
    estimate, variance = noisy[0], 1.0
    above, variances = [noisy[0]], [1.0]
    for level in noisy[1:]:  # upwards: each node and the sum of its children, by their variances
        summed = above[-1].reshape(-1, BRANCHES).sum(axis=1)
        summed = np.concatenate((summed, np.zeros(len(level) - len(summed))))
        of_sum = BRANCHES * variance
        above.append((level * of_sum + summed) / (1 + of_sum))
        variance = of_sum / (1 + of_sum)
        variances.append(variance)
    estimate = above[-1]
    for level in reversed(above[:-1]):  # downwards: what is left over is shared among the children
        children = level.reshape(-1, BRANCHES)
        left = estimate[: len(children)] - children.sum(axis=1)
        estimate = (children + left[:, None] / BRANCHES).ravel()
    ranks = np.maximum.accumulate(np.cumsum(estimate[: len(edges) - 1]))
    return [float(np.interp(float(level) * ranks[-1], ranks, edges[1:])) for level in levels]


def installed(name: str) -> bool:
    """Whether a package can be imported here."""
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def data() -> dict[str, tuple[Values, int, int]]:
    """Return heavy-tailed, discrete and tiny data with their public bounds."""
    incomes = np.exp(random.normal(10, 1.5, 2000)).astype(np.int64)
    ages = np.clip(random.normal(45, 18, 2000), 0, 120).astype(np.int64)
    visits = np.minimum(random.zipf(1.6, 2000) - 1, 300).astype(np.int64)
    return {
        "heavy-tailed incomes": (incomes, 0, 10**7),
        "discrete ages": (ages, 0, 120),
        "discrete visits, many 0": (visits, 0, 300),
        "tiny, 40 incomes": (incomes[:40], 0, 10**7),
        "tiny, 40 ages": (ages[:40], 0, 120),
    }


def main() -> None:
    """Print the errors, and the worst ratio of ours to the best of the others."""
    methods: dict[str, Method] = {
        "sfumato": sfumato,
        "sfumato with bars": with_bars,
        "OpenDP" if installed("opendp") else "OpenDP's method": installed_opendp
        if installed("opendp")
        else published_opendp,
        "diffprivlib" if installed("diffprivlib") else "diffprivlib's method": installed_diffprivlib
        if installed("diffprivlib")
        else published_diffprivlib,
        "Tumult's method": tumult,
        "tree of counts": tree,
    }
    worst = 0.0
    for name, (values, low, high) in data().items():
        for asked, levels in (("median", MEDIAN), ("nine deciles", DECILES)):
            truth = np.quantile(values, [float(level) for level in levels], method="inverted_cdf")
            errors = {}
            for method, answer in methods.items():
                found = np.array([answer(values, low, high, levels, EPSILON) for _ in range(ANSWERS[asked])])
                errors[method] = float(np.abs(found - truth).mean())
            best = min(error for method, error in errors.items() if not method.startswith("sfumato"))
            ratio = errors["sfumato"] / best if best else (1.0 if not errors["sfumato"] else np.inf)
            worst = max(worst, ratio)
            listed = "  ".join(f"{method} {error:.4g}" for method, error in errors.items())
            print(f"{name}, {asked}: {listed}  ours / best {ratio:.2f}")
    print(f"ours / best of the others, at worst = {worst:.2f}x")


if __name__ == "__main__":
    main()
