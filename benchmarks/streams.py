"""How far above the best known error is a stream that is released after every step? (T = 10³ … 10⁶, one run)

Also in the same run: the error against the binary tree and the proven lower bound, what an unknown horizon costs, the
time of a durable step over 2,000 cells beside numpy's running sum with float noise, and of planning.
"""

import os
import sys
import tempfile
import time
from fractions import Fraction
from math import pi
from pathlib import Path

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.streams.plans import GaussianSums, TreeSums, UnboundedSums
from sfumato.streams.stream import Stream
from sfumato.streams.toeplitz import square_root

ADD = Neighbours.ADD_REMOVE
HALF = Fraction(1, 2)
"""At this rho an error is its own unit constant."""
CELLS = 2000
LONGEST = {"quick": 10**4}.get(sys.argv[1] if len(sys.argv) > 1 else "", 10**6)


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


def ideal(steps: int) -> float:
    """The square-root factorisation with real coefficients [FHU23]: √(Σf² · mean of the running Σf²)."""
    lengths = np.cumsum((square_root(steps, 2**30) / 2**30) ** 2)
    return float((lengths[-1] * lengths.mean()) ** 0.5)


def lower_bound(steps: int) -> float:
    places = np.arange(1, steps + 1)
    return float((1 / (2 * np.sin((2 * places - 1) * pi / (4 * steps + 2)))).sum() / steps)


def gaussian_tree(steps: int) -> float:
    """The binary tree under the same rho: bit_length nodes, popcount of them in a sum."""
    return float((steps.bit_length() * np.bitwise_count(np.arange(1, steps + 1)).mean()) ** 0.5)


def errors() -> float:
    print(
        f"{'T':>9} {'ours':>8} {'buffers':>8} {'ideal':>8} {'bound':>8} {'tree':>8} {'tree/ours':>9} {'planned in':>10}"
    )
    worst = 0.0
    steps = 1000
    while steps <= LONGEST:
        began = time.perf_counter()
        plain = GaussianSums.by_rho(HALF, steps, ADD).rmse[0]
        planned = time.perf_counter() - began
        buffered = GaussianSums.by_rho(HALF, steps, ADD, buffers=8).rmse[0]
        best, bound, tree = ideal(steps), lower_bound(steps), gaussian_tree(steps)
        require(bound <= min(plain, buffered), "an error below the proven bound is a bug")
        worst = max(worst, plain / best, buffered / best)
        print(
            f"{steps:>9,} {plain:8.4f} {buffered:8.4f} {best:8.4f} {bound:8.4f} {tree:8.4f} {tree / plain:9.2f} "
            f"{planned:8.2f} s"
        )
        steps *= 10
    return worst


def unknown_horizon() -> None:
    known = np.cumsum((square_root(LONGEST, 2**20) / 2**20) ** 2)
    ratio = np.sqrt(UnboundedSums(HALF, ADD).variance_until(LONGEST)) / known
    print(
        f"unknown / known horizon: {ratio[:65_808].max():.3f}x until 65,808 steps, {ratio.max():.3f}x until {LONGEST:,}"
    )
    require(ratio[:65_808].max() <= 1.75 and ratio.max() <= 1.83, "an unknown horizon costs more than was promised")


def plain_steps(steps: int) -> list[float]:
    """Return the times of numpy's running sum with float noise: not private, and lost when the machine stops."""
    generator, sums, taken = np.random.default_rng(1), np.zeros(CELLS), []
    values = generator.integers(0, 1000, size=CELLS)
    for _ in range(steps):
        began = time.perf_counter()
        sums += values
        sums + generator.normal(scale=10.0, size=CELLS)
        taken.append(time.perf_counter() - began)
    return taken


def durable_steps(plan: GaussianSums | TreeSums, steps: int, folder: Path) -> list[float]:
    values = np.random.default_rng(1).integers(0, 1000, size=CELLS)
    taken = []
    with Stream.create(folder / f"{type(plan).__name__}{getattr(plan, 'buffers', 0)}", plan) as stream:
        for _ in range(steps):
            began = time.perf_counter()
            stream.observe(values)
            taken.append(time.perf_counter() - began)
    return taken


def disk_writes(steps: int, folder: Path) -> list[float]:
    """Return the times of what the disk does at each step: a record and 128 bytes, each made durable."""
    taken = []
    with (folder / "plain").open("wb", buffering=0) as stream:
        stream.write(bytes(128))
        for _ in range(steps):
            began = time.perf_counter()
            stream.seek(0, os.SEEK_END)
            stream.write(bytes(24 * CELLS))
            os.fdatasync(stream.fileno())
            stream.seek(0)
            stream.write(bytes(128))
            os.fdatasync(stream.fileno())
            taken.append(time.perf_counter() - began)
    return taken


def steps_in_time() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for plan, steps in (
            (GaussianSums.by_rho(HALF, 365, ADD, cells=CELLS), 365),
            (GaussianSums.by_rho(HALF, 1000, ADD, cells=CELLS, buffers=8), 200),
            (TreeSums(1000, Fraction(10), ADD, cells=CELLS), 200),
        ):
            taken, plain = durable_steps(plan, steps, Path(folder)), float(np.median(plain_steps(2000)))
            step, disk = float(np.median(taken)), float(np.median(disk_writes(100, Path(folder))))
            name = f"{type(plan).__name__}{' with 8 buffers' if getattr(plan, 'buffers', 0) else ''}"
            print(
                f"{name}: {1e3 * step:.1f} ms a durable step over {CELLS:,} cells, {step / plain:.0f}x numpy's running "
                f"sum; the disk alone takes {1e3 * disk:.1f} ms"
            )


if __name__ == "__main__":
    worst = errors()
    unknown_horizon()
    steps_in_time()
    print(f"error / square root, worst of all T = {worst:.4f}x")
