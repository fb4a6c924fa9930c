"""How many keys that nobody declared are found, beside the best of other methods, at the same epsilon and delta?

    python benchmarks/key_selection.py SITE_PACKAGES [EPSILON] [DELTA]

SITE_PACKAGES is a folder with the packages `wordfreq` and `names-dataset`. Words: 60,000 people with 1 to 400 English
words each, drawn by their frequencies. Names: 60,000 people with 1 to 60 first names, by their ranks. URLs: 60,000
people with 1 to 60 hosts, by how many files of SITE_PACKAGES and of this interpreter mention them. Every method counts
each person in at most so many keys, chosen at random, and the best of several limits is shown for each method. Methods
of others follow their published definitions: Laplace and Gaussian thresholds and optimal selection (Google's library),
geometric noise with a threshold (Tumult Analytics), weighted Gaussian noise, and DP-SIPS with three rounds. Expected
numbers are exact sums of keep probabilities where the method has one round. The last line asks sfumato itself:
`SELECT DISTINCT` through SQL.
"""

import gzip
import pickle
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
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

PEOPLE, SEED, LIMITS = 60_000, 1, (1, 2, 5, 10, 20, 50, 100)
SHARES = (0.05, 0.15, 0.80)
ADD = Neighbours.ADD_REMOVE
_HOST = re.compile(rb"https?://([a-zA-Z0-9.-]{4,80})")

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


def _weighted_round(
    pairs: Pairs, limit: int, sigma: float, delta: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the keys of one round, and their weights above the threshold of the worst number of keys per person."""
    kept = limited(pairs, limit)
    sizes = np.arange(1, limit + 1)
    threshold = float(np.max(1 / np.sqrt(sizes) - sigma * ndtri(-np.expm1(np.log1p(-delta) / sizes))))
    keys, inverse = np.unique(kept[1], return_inverse=True)
    return keys, np.asarray(np.bincount(inverse, _weights(kept[0])) - threshold, dtype=np.float64)


def weighted_gaussian(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    sigma = gaussian_sigma(epsilon, delta / 2)
    _, over = _weighted_round(pairs, limit, sigma, delta / 2)
    return float(ndtr(over / sigma).sum())


def sips(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    """DP-SIPS [Swanberg, Desfontaines, Haney 2023]: what a round found is left out of the next one."""
    whole, random, found = gaussian_sigma(epsilon, delta / 2), np.random.default_rng(SEED), 0
    for share in SHARES:
        sigma = whole / sqrt(share)
        keys, over = _weighted_round(pairs, limit, sigma, share * delta / 2)
        new = keys[over + random.normal(0, sigma, len(keys)) >= 0]
        found += len(new)
        left = ~np.isin(pairs[1], new)
        pairs = pairs[0][left], pairs[1][left]
    return float(found)


def renyi(pairs: Pairs, limit: int, epsilon: float, delta: float) -> float:
    """What sfumato does: under Rényi losses, or the optimal selection where that shows smaller groups."""
    exact, failing = Fraction(str(epsilon)), Fraction(str(delta))
    price = Filter(exact, failing)
    if price.order is None or price.capacity is None:
        return 0.0
    loss = Fraction(price.capacity // limit * limit, RENYI_UNITS)
    selection = RenyiSelection(failing / 2, limit, (price.order,), (loss,), ADD)
    if selection.units_for("0.95") >= OptimalSelection(exact, failing, limit, ADD).units_for("0.95"):
        return optimal(pairs, limit, epsilon, delta)
    sizes, often = np.unique(counts_of(limited(pairs, limit)), return_counts=True)
    return float(sum(float(selection.keep(int(size))) * times for size, times in zip(sizes, often, strict=True)))


METHODS: dict[str, Method] = {
    "Laplace threshold (Google)": laplace_threshold,
    "geometric threshold (Tumult)": geometric_threshold,
    "Gaussian threshold (Google)": gaussian_threshold,
    "optimal selection (Google)": optimal,
    "weighted Gaussian": weighted_gaussian,
    "DP-SIPS, three rounds": sips,
    "sfumato": renyi,
}


def asked(pairs: Pairs, limit: int, epsilon: float, delta: float) -> int:
    """Return how many keys `SELECT DISTINCT` shows through the database, for the same epsilon and delta."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people, keys = limited(pairs, limit)
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
                    "rows_per_unit": limit,
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
        other = max(value for method, value in best.items() if method != "sfumato")
        print(f"  sfumato / best other = {best['sfumato'] / other:.2f}")
        print(f"  asked through SQL, limit 20: {asked(pairs, 20, epsilon, delta):,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:]))
