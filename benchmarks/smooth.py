"""Does noise by smooth sensitivity err less than what the planner does, anywhere? (median, p90, MAX, variance; replace)

The planner chooses order statistics among buckets and derives a variance from noisy sums. The same questions are
answered by `SmoothNoise` over the smooth sensitivity of the same data, computed exactly (`OrderStatistic`,
`ScaledVariance`), and clamped to the declared range; everybody has one row, and one person is replaced by another, the
only relation under which the smooth sensitivity of a variance is known. Mean distances from the truth.
"""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.smooth_noise import SmoothNoise
from sfumato.randomness.source import system_source
from sfumato.sensitivity.order_statistics import OrderStatistic
from sfumato.sensitivity.smooth import smooth
from sfumato.sensitivity.spread import ScaledVariance

Values = npt.NDArray[np.int64]
EPSILONS, ANSWERS, REPLACE = ("0.3", "1", "5"), 60, Neighbours.REPLACE
LEVELS = {
    "APPROX_QUANTILE(x, 0.5)": Fraction(1, 2),
    "APPROX_QUANTILE(x, 0.9)": Fraction(9, 10),
    "MAX(x)": Fraction(1),
}


def data() -> dict[str, tuple[Values, int]]:
    """Return values of some hundred people, and the upper bound of their range; the lower one is 0."""
    random = np.random.default_rng(20261116)
    return {
        "ages of 300": (np.clip(random.normal(45, 18, 300), 0, 120).astype(np.int64), 120),
        "incomes of 300": (np.exp(random.normal(10, 1, 300)).astype(np.int64), 10**6),
        "even, up to the bound": (random.integers(0, 1001, 300), 1000),
        "narrow, in the middle": (random.integers(480, 520, 300), 1000),
        "a few values": (random.choice([0, 1, 2, 3, 4], 300, p=[0.1, 0.15, 0.2, 0.25, 0.3]), 4),
        "all alike": (np.full(300, 77), 1000),
        "30 ages": (np.clip(random.normal(45, 18, 30), 0, 120).astype(np.int64), 120),
    }


def planned(values: Values, high: int, written: str, epsilon: str) -> list[float]:
    """Return what the database answers."""
    policy: dict[str, Any] = {
        "name": "smooth",
        "neighbours": "replace",
        "budget": {"epsilon": 10**6, "delta": 0},
        "tables": {"t": {"unit": "rows", "columns": {"x": {"type": "integer", "bounds": [0, high]}}}},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        pq.write_table(pa.table({"x": values}), folder / "data" / "t.parquet")
        policy |= {"source": f"parquet:{folder}/data", "ledger": f"sqlite:{folder}/ledger"}
        with sfumato.open(policy) as database:
            # another epsilon each time: the same question again would be answered from the ledger
            prices = [Fraction(epsilon) + Fraction(number, 10**6) for number in range(ANSWERS)]
            sql = f"SELECT {written} AS y FROM t"  # noqa: S608 - from the table above
            found = [database.ask(sql, epsilon=price).rows()[0]["y"] for price in prices]
            return [float(value or 0) for value in found]  # NULL, where the noise leaves nobody


def smoothed(statistic: Callable[[int], int], most: int, truth: int, epsilon: str) -> list[int]:
    """Return the truth with the least noise that its smooth sensitivity allows, of both laws."""
    found = {}
    for power in (2, 4):
        mechanism = SmoothNoise(Fraction(epsilon), REPLACE, power)
        amount = smooth(statistic, mechanism.decay, most)
        found[power] = [mechanism.release(truth, amount, system_source()) for _ in range(ANSWERS)]
    return min(found.values(), key=lambda answers: float(np.median(np.abs(np.array(answers, dtype=float) - truth))))


def of_order(values: list[int], high: int, level: Fraction, epsilon: str) -> tuple[float, Values]:
    """Return the true order statistic, and answers by smooth sensitivity."""
    order = OrderStatistic(level, 0, high, REPLACE)
    truth = order.value(values)
    return truth, np.clip(smoothed(lambda far: order.at_distance(values, far), high, truth, epsilon), 0, high)


def of_variance(values: list[int], high: int, epsilon: str) -> tuple[float, npt.NDArray[np.float64]]:
    """Return the true variance, and answers by smooth sensitivity."""
    spread, square = ScaledVariance(0, high), len(values) ** 2
    exact = spread.value(values)
    found = smoothed(lambda far: spread.at_distance(values, far), spread.reach(len(values)), exact, epsilon)
    return exact / square, np.clip(np.array(found, dtype=float) / square, 0, high**2 / 4)


def main() -> None:
    """Print both errors of every question, and the ratio that is best for smooth sensitivity."""
    best = np.inf
    for name, (values, high) in data().items():
        listed = values.tolist()
        for epsilon in EPSILONS:
            for written in (*LEVELS, "VAR_POP(x)"):
                truth, noisy = (
                    of_order(listed, high, LEVELS[written], epsilon)
                    if written in LEVELS
                    else of_variance(listed, high, epsilon)
                )
                ours = float(np.abs(np.array(planned(values, high, written, epsilon)) - truth).mean())
                other = float(np.abs(noisy - truth).mean())
                ratio = other / ours if ours else (1.0 if not other else np.inf)
                best = min(best, ratio)
                print(f"{name}, {written}, epsilon {epsilon}: planned {ours:.4g}, smooth {other:.4g}, {ratio:.2f}x")
    print(f"smooth / planned, at best for smooth = {best:.2f}x")


if __name__ == "__main__":
    main()
