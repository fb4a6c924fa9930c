"""Does DP-Auditorium reject a mechanism of sfumato at the privacy that it promises, and at half the noise?

    python benchmarks/outside/dp_auditorium_audit.py CHECKOUT [--samples 4000000]

CHECKOUT is a checkout of google/differential-privacy; its histogram tester needs NumPy and etils, and is loaded without
the testers beside it, which need TensorFlow. It is given samples of a mechanism on two neighbours, and rejects with a
failure probability of 0.05. A mechanism with half the noise has to be rejected at the same promise.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.prepare import RequestedPrice
from sfumato.randomness.selection import exponential, permute_and_flip
from sfumato.randomness.source import system_source
from sfumato.release.publish import publish

EPSILON, DELTA = Fraction(1), 1e-3
FAILURE_PROBABILITY = 0.05
Draw = Callable[[bool, Fraction, int], Any]
"""Samples of a mechanism: on the neighbour or not, with this part of its noise, so many."""
SCORES = ((1, 0, 0, 0), (0, 1, 1, 1))
"""Integer scores of neighbours, which differ by at most 1."""


def laplace(neighbour: bool, part: Fraction, count: int) -> Any:
    """Return noisy counts of 0 or 1 people."""
    values = np.full(count, int(neighbour))
    return Laplace(1, part / EPSILON, Neighbours.ADD_REMOVE).release(values, system_source()).astype(float)


def gaussian(neighbour: bool, part: Fraction, count: int) -> Any:
    """Return counts with Gaussian noise that is (1, 1e-3)-DP: a standard deviation of 2.61."""
    values = np.full(count, int(neighbour))
    mechanism = Gaussian(1, part**2 * Fraction(261, 100) ** 2, Neighbours.ADD_REMOVE)
    return mechanism.release(values, system_source()).astype(float)


def exponential_choice(neighbour: bool, part: Fraction, count: int) -> Any:
    """Return choices of the exponential mechanism."""
    scores, source = SCORES[neighbour], system_source()
    return np.array([exponential(scores, EPSILON / 2 / part, source) for _ in range(count)])


def flipped_choice(neighbour: bool, part: Fraction, count: int) -> Any:
    """Return choices by permute-and-flip."""
    scores, source = SCORES[neighbour], system_source()
    return np.array([permute_and_flip(scores, EPSILON / 2 / part, source) for _ in range(count)])


def noisy_maximum(neighbour: bool, part: Fraction, count: int) -> Any:
    """Return the index of the largest of four scores with Laplace noise of scale 2."""
    scores = np.broadcast_to(np.array(SCORES[neighbour]), (count, 4))
    return np.argmax(Laplace(2, 2 * part / EPSILON, Neighbours.ADD_REMOVE).release(scores, system_source()), axis=1)


def asked_count(neighbour: bool, part: Fraction, count: int) -> Any:
    """Return what `ask` publishes for a COUNT over a table of 3 or 4 people, drawn again behind one charge's plan."""
    rows = pa.table({"person": list(range(3 + neighbour))})
    with tempfile.TemporaryDirectory() as folder:
        policy: dict[str, Any] = {
            "name": "audited",
            "source": {"people": rows},
            "ledger": f"sqlite:{folder}/ledger",
            "budget": {"epsilon": 10, "delta": 0},
            "tables": {"people": {"unit": "person", "rows_per_unit": 1, "columns": {"person": {"type": "integer"}}}},
        }
        with sfumato.open(policy) as database:
            asked = database.prepare("SELECT COUNT(*) FROM people", None, RequestedPrice(EPSILON / part))
            exact = asked.engine.run(asked.job)
            found = [publish(asked.plan, exact, database.payer.source).groups[0] for _ in range(count)]
    return np.array([group.columns[0][1][0] for group in found], dtype=float)


MECHANISMS: dict[str, tuple[Draw, float, int | None, int]] = {
    "Laplace": (laplace, 0.0, None, 1),
    "Gaussian": (gaussian, DELTA, None, 1),
    "exponential": (exponential_choice, 0.0, 4, 20),
    "permute-and-flip": (flipped_choice, 0.0, 4, 20),
    "noisy maximum": (noisy_maximum, 0.0, 4, 4),
    "`ask` of a COUNT": (asked_count, 0.0, None, 40),
}
"""The draw, its delta, how many outcomes a choice has (None for a number), and by how much samples are fewer."""


def main() -> None:
    """Print which mechanisms are rejected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--samples", type=int, default=4_000_000)
    given = parser.parse_args()
    for name in ("dp_auditorium", "dp_auditorium.testers"):  # packages without what their __init__ imports
        package = ModuleType(name)
        package.__path__ = [str(given.checkout / "python" / "dp_auditorium" / name.replace(".", "/"))]
        sys.modules[name] = package
    privacy_property = import_module("dp_auditorium.configs.privacy_property")
    property_tester_config = import_module("dp_auditorium.configs.property_tester_config")
    histogram_tester = import_module("dp_auditorium.testers.histogram_tester")

    def rejects(name: str, part: Fraction) -> bool:
        draw, delta, outcomes, fewer = MECHANISMS[name]
        promise = privacy_property.ApproximateDp(epsilon=float(EPSILON), delta=max(delta, 1e-9))
        config = property_tester_config.HistogramPropertyTesterConfig(
            approximate_dp=promise,
            test_discrete_mechanism=outcomes is not None,
            histogram_size=outcomes or 24,
            min_value=-12.0,
            max_value=12.0,
        )
        tester, count = histogram_tester.HistogramTester(config), given.samples // fewer
        first, second = (draw(neighbour, part, count) for neighbour in (False, True))
        # what a mechanism promises holds in both directions
        bounds = [
            tester.estimate_lower_bound(*pair, FAILURE_PROBABILITY / 2) for pair in ((first, second), (second, first))
        ]
        return any(tester.reject_property(bound) for bound in bounds)

    print("| mechanism | as it is | with half the noise |")
    print("|---|---|---|")
    for name in MECHANISMS:
        verdicts = ("rejected" if rejects(name, part) else "not rejected" for part in (Fraction(1), Fraction(1, 2)))
        print(f"| {name} | {' | '.join(verdicts)} |", flush=True)


if __name__ == "__main__":
    main()
