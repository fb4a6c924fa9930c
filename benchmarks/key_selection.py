"""How many keys that nobody declared are found, beside the best of other methods, at the same epsilon and delta?

    python benchmarks/key_selection.py SITE_PACKAGES [EPSILON] [DELTA]

SITE_PACKAGES is a folder with the packages `wordfreq` and `names-dataset`. Words: 60,000 people with 1 to 400 English
words each, drawn by their frequencies. Names: 60,000 people with 1 to 60 first names, by their ranks. URLs: 60,000
people with 1 to 60 hosts, by how many files of SITE_PACKAGES and of this interpreter mention them. Every method counts
each person in at most so many keys, chosen at random, and the best of several limits is shown for each method. Methods
of others follow their published definitions: Laplace and Gaussian thresholds and optimal selection (Google's library),
geometric noise with a threshold (Tumult Analytics), weighted Gaussian noise, the same with adaptive weights
(MaxAdaptiveDegree), and both in three rounds (DP-SIPS). Expected numbers are exact sums of keep probabilities, of
methods with rounds in the last round. Three lines of sfumato show what its rounds gain: one round, one round with
weights by the number of keys, which no question uses, and two rounds, which `SELECT DISTINCT` uses. The last line asks
sfumato itself through SQL.
"""

import gzip
import pickle
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from importlib import import_module
from math import exp, log, sqrt
from pathlib import Path
from site import getsitepackages

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import ndtr, ndtri

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.accounting.filter import RENYI_UNITS, Filter
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.renyi_keys import rounds_of

PEOPLE, SEED, LIMITS = 60_000, 1, (1, 2, 5, 10, 20, 50, 100)
SHARES = (0.05, 0.15, 0.80)
ADD = Neighbours.ADD_REMOVE
_HOST = re.compile(rb"https?://([a-zA-Z0-9.-]{4,80})")

MAX_DEGREE, MARGIN = 50, 2
"""Adaptive weights: people with more keys are weighted as before, and excess begins so many σ above the threshold."""

Floats = npt.NDArray[np.float64]
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""People and keys, each pair once."""
Method = Callable[[Pairs, int, float, float], float]


def read_data(packages: Path) -> Iterator[tuple[str, Pairs]]:
    sys.path.append(str(packages))
    frequencies = np.array(list(import_module("wordfreq").get_frequency_dict("en", wordlist="large").values()))
    yield "words", _drawn(frequencies, 400)
    with gzip.open(packages / "names_dataset" / "v3" / "first_names.pkl.gz") as file:
        names = pickle.load(file)  # noqa: S301  (data of an installed package)
    ranks = np.array([rank for name in names.values() if (rank := name["rank"].get("US"))], dtype=float)
    yield "names", _drawn(1 / (ranks + 2.7), 60)
    mentions: Counter[bytes] = Counter()
    for folder in (packages, *map(Path, getsitepackages())):
        for path in folder.rglob("*"):
            if path.suffix in (".py", ".txt", ".md", ".rst", "") and path.is_file():
                mentions.update({host.lower() for host in _HOST.findall(path.read_bytes()[:1_000_000])})
    yield "URLs", _drawn(np.array(sorted(mentions.values()), dtype=float), 60)


def _drawn(weights: npt.NDArray[np.float64], most: int) -> Pairs:
    """Draw keys for people whose number of keys is uniform on a logarithmic scale."""
    random = np.random.default_rng(SEED)
    sizes = np.exp(random.uniform(0, log(most), PEOPLE)).astype(int)
    people = np.repeat(np.arange(PEOPLE), sizes)
    keys = random.choice(len(weights), size=len(people), p=weights / weights.sum())
    both = np.unique(np.stack([people, keys], axis=1), axis=0)
    return both[:, 0], both[:, 1]


def limited(pairs: Pairs, limit: int, seed: int = SEED) -> Pairs:
    """Return at most so many keys of each person, chosen at random."""
    people, keys = pairs
    order = np.lexsort((np.random.default_rng(seed).random(len(people)), people))
    people, keys = people[order], keys[order]
    starts = np.flatnonzero(np.r_[True, people[1:] != people[:-1]])
    place = np.arange(len(people)) - np.repeat(starts, np.diff(np.r_[starts, len(people)]))
    kept = place < limit
    return people[kept], keys[kept]


def counts_of(pairs: Pairs) -> npt.NDArray[np.int64]:
    return np.unique(pairs[1], return_counts=True)[1]


def per_key(delta: float, groups: int) -> float:
    return float(-np.expm1(np.log1p(-delta) / groups))


def gaussian_sigma(epsilon: float, delta: float) -> float:
    """The least σ for L2 sensitivity 1 [Balle, Wang 2018]."""
    low, high = 1e-3, 1e6
    for _ in range(200):
        sigma = sqrt(low * high)
        found = ndtr(1 / (2 * sigma) - epsilon * sigma) - exp(epsilon) * ndtr(-1 / (2 * sigma) - epsilon * sigma)
        low, high = (low, sigma) if found <= delta else (sigma, high)
    return high


def laplace_threshold(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    scale = limit / epsilon
    threshold = 1 - scale * log(2 * per_key(delta, limit))
    over = (counts_of(limited(pairs, limit)) - threshold) / scale
    return float(np.where(over >= 0, 1 - np.exp(-np.abs(over)) / 2, np.exp(-np.abs(over)) / 2).sum())


def geometric_threshold(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    ratio = exp(-epsilon / limit)
    reach = int(np.ceil(np.log(per_key(delta, limit) * (1 + ratio)) / np.log(ratio)))
    over = 1 + reach - counts_of(limited(pairs, limit))  # shown if Z >= over
    tail = ratio ** np.maximum(over, 1) / (1 + ratio)
    return float(np.where(over >= 1, tail, 1 - ratio ** (1.0 - np.minimum(over, 0)) / (1 + ratio)).sum())


def gaussian_threshold(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    sigma = gaussian_sigma(epsilon, delta / 2) * sqrt(limit)
    threshold = 1 - sigma * ndtri(per_key(delta / 2, limit))
    return float(ndtr((counts_of(limited(pairs, limit)) - threshold) / sigma).sum())


def optimal(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    each, failing, rates = epsilon / limit, per_key(delta, limit), [0.0]
    counts = np.unique(counts_of(limited(pairs, limit)), return_counts=True)
    while len(rates) <= counts[0][-1] and rates[-1] < 1:
        rates.append(min(exp(each) * rates[-1] + failing, 1 - exp(-each) * (1 - rates[-1] - failing), 1.0))
    return float(sum(np.array(rates)[np.minimum(counts[0], len(rates) - 1)] * counts[1]))


def _weights(people: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    _, inverse, sizes = np.unique(people, return_inverse=True, return_counts=True)
    return 1 / np.sqrt(sizes[inverse])


def _adaptive_weights(pairs: Pairs, enough: float) -> Floats:
    """Return the weight of each key by adaptive weights [Chen, Cohen-Addad, Epasto, Zadimoghaddam 2025].

    Of people with few keys, 1/n of each weight is adaptive: what a key has of it beyond `enough` goes back to its
    people, who give each of their keys the same part of it. The root of the sum of squares per person stays at most 1.
    """
    people, keys = pairs
    _, inverse, sizes = np.unique(people, return_inverse=True, return_counts=True)
    degree, size = sizes[inverse], keys.max() + 1
    adaptive = (degree > 1) & (degree <= MAX_DEGREE)
    initial = np.bincount(keys, np.where(adaptive, 1 / degree, 0), size)
    excess = np.divide(np.maximum(initial - enough, 0), initial, out=np.zeros(size), where=initial > 0)
    back = np.bincount(inverse, np.where(adaptive, excess[keys] / degree, 0))[inverse] / MAX_DEGREE
    fixed = 1 / np.sqrt(degree) - np.where(adaptive, 1 / degree, 0)
    return np.asarray(np.minimum(initial, enough) + np.bincount(keys, fixed + np.where(adaptive, back, 0), size))


def _weighted_round(
    pairs: Pairs, limit: int, sigma: float, delta: float, *, adaptive: bool = False
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the keys of one round, and their weights above the threshold of the worst number of keys per person."""
    kept = limited(pairs, limit)
    sizes = np.arange(1, limit + 1)
    threshold = float(np.max(1 / np.sqrt(sizes) - sigma * ndtri(-np.expm1(np.log1p(-delta) / sizes))))
    keys, inverse = np.unique(kept[1], return_inverse=True)
    enough = threshold + MARGIN * sigma
    plain = np.bincount(inverse, _weights(kept[0]))
    weights = _adaptive_weights((kept[0], inverse), enough) if adaptive else plain
    return keys, np.asarray(weights - threshold, dtype=np.float64)


def weighted_gaussian(pairs: Pairs, limit: int, epsilon: float, delta: float, *, adaptive: bool = False) -> float:
    sigma = gaussian_sigma(epsilon, delta / 2)
    _, over = _weighted_round(pairs, limit, sigma, delta / 2, adaptive=adaptive)
    return float(ndtr(over / sigma).sum())


def without(pairs: Pairs, found: npt.NDArray[np.int64]) -> Pairs:
    left = ~np.isin(pairs[1], found)
    return pairs[0][left], pairs[1][left]


def sips(pairs: Pairs, limit: int, epsilon: float, delta: float, *, adaptive: bool = False) -> float:
    """DP-SIPS [Swanberg, Desfontaines, Haney 2023]: what a round found is left out of the next one."""
    whole, random, found = gaussian_sigma(epsilon, delta / 2), np.random.default_rng(SEED), 0.0
    for share in SHARES:
        sigma = whole / sqrt(share)
        keys, over = _weighted_round(pairs, limit, sigma, share * delta / 2, adaptive=adaptive)
        if share == SHARES[-1]:
            return found + float(ndtr(over / sigma).sum())
        new = keys[over + random.normal(0, sigma, len(keys)) >= 0]
        found, pairs = found + len(new), without(pairs, new)
    return found


def _selection(limit: int, epsilon: float, delta: float) -> RenyiSelection | None:
    """Return what sfumato selects keys by in one round; None where that is the optimal selection."""
    exact, failing = Fraction(str(epsilon)), Fraction(str(delta))
    price = Filter(exact, failing)
    if price.order is None or price.capacity is None:
        return None
    loss = Fraction(price.capacity // limit * limit, RENYI_UNITS)
    selection = RenyiSelection(failing / 2, limit, (price.order,), (loss,), ADD)
    return (
        selection
        if selection.units_for("0.95") < OptimalSelection(exact, failing, limit, ADD).units_for("0.95")
        else None
    )


def _rates(selection: RenyiSelection, counts: npt.NDArray[np.int64]) -> Floats:
    table = np.array([float(selection.keep(size)) for size in range(min(counts.max(), 2048) + 1)])
    return np.asarray(table[np.minimum(counts, len(table) - 1)])


def one_round(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    """Under Rényi losses, or the optimal selection where that shows smaller groups."""
    selection = _selection(limit, epsilon, delta)
    if selection is None:
        return optimal(pairs, limit, epsilon, delta)
    return float(_rates(selection, counts_of(limited(pairs, limit))).sum())


def two_rounds(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    """What a question does where people may have more keys than they are counted in."""
    selection, random, found = _selection(limit, epsilon, delta), np.random.default_rng(SEED), 0.0
    if selection is None:
        return optimal(pairs, limit, epsilon, delta)
    *first, last = rounds_of(selection).rounds
    for place, each in enumerate(first):
        keys, counts = np.unique(limited(pairs, limit, SEED + place)[1], return_counts=True)
        new = keys[random.random(len(keys)) < _rates(each, counts)]
        found, pairs = found + len(new), without(pairs, new)
    return found + float(_rates(last, counts_of(limited(pairs, limit, SEED + len(first)))).sum())


def weighted_renyi(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    """One round in which a person with n of at most g keys counts (g/n)^¼ times in each; no question does this."""
    selection = _selection(limit, epsilon, delta)
    if selection is None:
        return optimal(pairs, limit, epsilon, delta)
    steps = _steps_of(limit)
    rates = _weighted_rates(selection, steps)
    people, keys = limited(pairs, limit)
    weights = np.bincount(keys, steps[np.bincount(people)[people]])
    return float(rates[np.minimum(weights, len(rates) - 1).astype(int)].sum())


def _steps_of(limit: int) -> npt.NDArray[np.int64]:
    """Return how many sixths of a person somebody with n keys counts, for each n."""
    sizes = np.arange(1, limit + 1)
    return np.asarray(np.r_[0, np.rint(6 * (limit / sizes) ** 0.25)], dtype=np.int64)


def _weighted_rates(selection: RenyiSelection, steps: npt.NDArray[np.int64]) -> Floats:
    """Return the largest keep probabilities by weight at which nobody's keys cost more together than they may."""
    order, least = selection.orders[0], np.unique(steps[1:], return_index=True)[1] + 1
    sizes = np.array([np.flatnonzero(steps == steps[size]).max() for size in least])  # of equal weight, the most keys
    moves, losses = steps[sizes], float(selection.losses[0]) / sizes
    failing = -np.expm1(np.log1p(-float(selection.delta)) / sizes)
    rates = [0.0]
    while rates[-1] < 1 - 1e-9:
        before = np.array([rates[len(rates) - move] if len(rates) > move else 0.0 for move in moves])
        inner = np.minimum(before / (1 - failing), 1 - 1e-15)
        most = np.where(before > 0, failing + (1 - failing) * _farthest(inner, losses, order), failing)
        rates.append(max(rates[-1], min(1.0, float(np.where(before + failing >= 1, 1.0, most).min()))))
    return np.array([*rates[:-1], 1.0])


def _farthest(chances: Floats, losses: Floats, order: int) -> Floats:
    """Return the largest probabilities whose Rényi losses beside these are small enough, both ways."""
    sign, rare = np.where(2 * chances <= 1, 1.0, -1.0), np.minimum(chances, 1 - chances)
    low, high = np.zeros(len(chances)), np.full(len(chances), 200.0)
    for _ in range(44):
        middle = (low + high) / 2
        once = _log_mean(rare, sign * middle)
        fits = (_log_mean(rare, sign * order * middle) - order * once <= (order - 1) * losses) & (
            (order - 1) * once + _log_mean(rare, -sign * (order - 1) * middle) <= (order - 1) * losses
        )
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    odds = np.exp(low)
    return np.asarray(chances * odds / (1 - chances + chances * odds))


def _log_mean(chances: Floats, exponents: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        large = exponents + np.log(chances)
    return np.asarray(np.where(exponents < 600, np.log1p(chances * np.expm1(np.minimum(exponents, 600))), large))


METHODS: dict[str, Method] = {
    "Laplace threshold (Google)": laplace_threshold,
    "geometric threshold (Tumult)": geometric_threshold,
    "Gaussian threshold (Google)": gaussian_threshold,
    "optimal selection (Google)": optimal,
    "weighted Gaussian": weighted_gaussian,
    "adaptive weights (MAD)": partial(weighted_gaussian, adaptive=True),
    "DP-SIPS, three rounds": sips,
    "three rounds, adaptive weights": partial(sips, adaptive=True),
    "sfumato, one round": one_round,
    "one round, weights (simulated)": weighted_renyi,
    "sfumato, two rounds": two_rounds,
}
OWN = ("sfumato, one round", "one round, weights (simulated)", "sfumato, two rounds")


def asked(pairs: Pairs, limit: int, epsilon: float, delta: float) -> int:
    """Return how many keys `SELECT DISTINCT` shows through the database, for the same epsilon and delta."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people, keys = pairs
        table = pa.table({"person": people, "word": pa.array([f"k{key}" for key in keys])})
        pq.write_table(table, folder / "said.parquet")
        policy: dict[str, object] = {
            "name": "keys",
            "source": f"parquet:{folder / 'said.parquet'}",
            "ledger": f"sqlite:{folder / 'keys.ledger'}",
            "budget": {"epsilon": "10", "delta": "1e-5", "query_delta": "1e-6"},
            "tables": {
                "said": {
                    "unit": "person",
                    "rows_per_unit": int(np.bincount(people).max()),
                    "groups_per_unit": limit,
                    "columns": {"person": {"type": "integer"}, "word": {"type": "text"}},
                }
            },
        }
        with sfumato.open(policy) as database:
            answer = database.ask("SELECT DISTINCT word FROM said", epsilon=str(epsilon), delta=f"{delta:.12f}")
            return len(answer.rows())


def main(packages: Path, epsilon: float = 1.0, delta: float = 1e-6) -> None:
    print(f"Expected keys at ε = {epsilon}, δ = {delta}; in brackets the best limit of keys per person")
    for name, pairs in read_data(packages):
        people, keys = (len(np.unique(side)) for side in pairs)
        print(f"\n{name}: {people:,} people, {keys:,} keys, {len(pairs[0]):,} pairs")
        best = {}
        for method, expected in METHODS.items():
            found = {limit: expected(pairs, limit, epsilon, delta) for limit in LIMITS}
            limit = max(found, key=lambda one: found[one])
            best[method] = found[limit]
            print(f"  {method:30} {found[limit]:9,.0f} ({limit})   at 20: {found[20]:9,.0f}")
        other = max(value for method, value in best.items() if method not in OWN)
        print(f"  sfumato, two rounds / best other = {best['sfumato, two rounds'] / other:.2f}")
        print(f"  asked through SQL, limit 20: {asked(pairs, 20, epsilon, delta):,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:]))
