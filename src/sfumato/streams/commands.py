"""Run `sfumato stream`: a year of synthetic visits, released day by day with real noise, and the cost."""

from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from hashlib import shake_256
from math import cos, pi
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.errors import BadParameter
from sfumato.exact import decimal_rational, integer, positive_rational
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.release.rendering.export import optional
from sfumato.release.rendering.table import text_table
from sfumato.streams.margins import gaussian_margin
from sfumato.streams.plans import GaussianSums, TreeSums
from sfumato.streams.stream import Stream
from sfumato.streams.toeplitz import Floats, Integers
from sfumato.terminal.exports import check_plot

DELTA = Fraction(1, 10**6)
LEVEL = Fraction(95, 100)
MAX_DAYS = 5000
DAYS_PER_WEEK = 7
REGULAR_DAYS = 10
FIRST_DAY = date(2026, 1, 1)
DEPARTMENTS = {"emergency": 1.0, "surgery": 0.45, "maternity": 0.2}
_BLOCKS = "▁▂▃▄▅▆▇█"
_MAX_BAR_WEEKS = 48


@dataclass(frozen=True, slots=True)
class StreamDemo:
    """One run of the demonstration: the plan, the true visits and the released sums."""

    plan: GaussianSums
    epsilon: Fraction
    visits: Integers
    """True number of visits by day and department. The people are synthetic, so it may be shown."""
    released: Floats


def demonstrate(days: int, epsilon: object, seed: int, plot: Path | None) -> str:
    """Release a year of synthetic visits day by day, and return the text that the command line prints."""
    if plot is not None:
        check_plot(plot)
    demo = run_demo(days, epsilon, seed)
    if plot is None:
        return demo_report(demo)
    try:
        demo_chart(demo).save(plot)
    except OSError:
        raise BadParameter(
            "The picture could not be written.",
            "Its folder is missing, or may not be written to.",
            "Name another file.",
        ) from None
    return f"{demo_report(demo)}\n\nDrew {plot}."


def run_demo(days: int, epsilon: object, seed: int) -> StreamDemo:
    """Feed a stream with synthetic visits; half way through, close it and open it again."""
    steps = integer(days, "days", 2)
    if steps > MAX_DAYS:
        raise BadParameter(f"days is above {MAX_DAYS}.", "This is a demonstration.", "Show fewer days.")
    price = positive_rational(decimal_rational(epsilon, "epsilon"), "epsilon")
    rho = concentrated_loss(price, DELTA) if Fraction(1, 1000) <= price <= 100 else None
    if rho is None:
        raise BadParameter("epsilon is not between 0.001 and 100.", "This is a demonstration.", "Try epsilon = 1.")
    plan = GaussianSums.by_rho(rho, steps, Neighbours.ADD_REMOVE, cells=len(DEPARTMENTS))
    visits = made_up_visits(steps, seed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "visits.stream"
        with Stream.create(path, plan) as stream:
            for today in visits[: steps // 2]:
                stream.observe(today)
        with Stream.open(path) as stream:
            for today in visits[steps // 2 :]:
                stream.observe(today)
            return StreamDemo(plan, price, visits, stream.released)


def made_up_visits(days: int, seed: int) -> Integers:
    """Return visits by day and department: busy in winter and on Mondays, and the same for the same seed."""
    octets = np.frombuffer(shake_256(b"sfumato stream/%d" % seed).digest(16 * days * len(DEPARTMENTS)), dtype=np.uint8)
    luck = np.bitwise_count(octets).reshape(days, len(DEPARTMENTS), 16).sum(axis=2)  # 64 ± 5.7
    season = np.array(
        [1 + 0.35 * cos(2 * pi * day / 365) + (0.3 if day % DAYS_PER_WEEK == 0 else 0.0) for day in range(days)]
    )
    expected = season[:, None] * np.array(list(DEPARTMENTS.values()))[None, :]
    return np.asarray(luck * expected, dtype=np.int64)


def demo_report(demo: StreamDemo) -> str:
    """Return a report of released and true totals, and of the cost."""
    plan, days = demo.plan, len(demo.visits)
    margin = plan.margin(LEVEL, days)
    return "\n".join(
        [
            f"Visits to a clinic that does not exist, counted up day by day for {days} days. The noise is real.",
            "",
            _totals_table(demo),
            "",
            _weekly_bars(demo),
            "",
            f"Cost: ε = {round_up(demo.epsilon)}, δ = {round_up(DELTA)}, charged once for all {days} days together.",
            (
                "  Each visit is protected: one person, one day, one department. People who come often are protected "
                "less."
            ),
            f"± at 95 %, running total on day {days}: ± {margin:.1f}",
            *_other_margins(demo),
            f"Half way through, the stream was closed and opened again: day {days // 2 + 1} went on from its file.",
        ]
    )


def _totals_table(demo: StreamDemo) -> str:
    days, truth = len(demo.visits), np.cumsum(demo.visits, axis=0)
    shown_days = sorted({1, 2, 3, days // 4, days // 2, 3 * days // 4, days - 1, days} & set(range(1, days + 1)))
    columns = [[f"{FIRST_DAY + timedelta(days=day - 1)}" for day in shown_days]]
    for department in range(len(DEPARTMENTS)):
        margins = [demo.plan.margin(LEVEL, day) for day in shown_days]
        columns.append(
            [
                f"{demo.released[day - 1, department]:,.0f} ± {margin:.0f} ({truth[day - 1, department]:,})"
                for day, margin in zip(shown_days, margins, strict=True)
            ]
        )
    names = ("total until", *(f"{name} (true)" for name in DEPARTMENTS))
    return text_table(names, columns, [False] + [True] * len(DEPARTMENTS))


def _weekly_bars(demo: StreamDemo) -> str:
    """Draw the visits of each week from differences of the released totals, which are free."""
    ends = np.arange(DAYS_PER_WEEK, len(demo.visits) + 1, DAYS_PER_WEEK)
    if len(ends) < 2:
        return "For a picture of the weeks, show more days."
    last = ends[-_MAX_BAR_WEEKS:]
    first = next(iter(DEPARTMENTS))
    width = demo.plan.margin(LEVEL, int(last[-1]), DAYS_PER_WEEK)
    lines = []
    for name, table in (("released", demo.released), ("true", np.cumsum(demo.visits, axis=0))):
        totals = np.concatenate([[0.0], table[:, 0].astype(np.float64)])
        weeks = totals[last] - totals[last - DAYS_PER_WEEK]
        highest = max(float(weeks.max()), 1.0)
        marks = np.clip((weeks / highest * len(_BLOCKS)).astype(int), 0, len(_BLOCKS) - 1)
        lines.append(f"  {name:<9}{''.join(_BLOCKS[mark] for mark in marks)}  {weeks[-1]:,.0f} in the last")
    return "\n".join([f"{first.capitalize()} by week (± {width:.0f}; free, from the same totals):", *lines])


def _other_margins(demo: StreamDemo) -> list[str]:
    """Return the margins of other methods at the same price."""
    plan, days = demo.plan, len(demo.visits)
    rho = plan.event.sensitivity_squared / (2 * plan.sigma_squared)
    fresh = gaussian_margin(float(days / (2 * rho)), Fraction(10**6), LEVEL)
    tree = TreeSums(days, days.bit_length() / demo.epsilon, Neighbours.ADD_REMOVE)
    worst_day = max(range(1, days + 1), key=lambda day: day.bit_count())
    repeated = GaussianSums.by_rho(rho, days, Neighbours.ADD_REMOVE, participations=REGULAR_DAYS)
    return [
        f"  with fresh noise every day, added up:                     ± {fresh:.1f}",
        f"  with a binary tree and no delta (worst day):              ± {tree.margin(LEVEL, worst_day):.1f}",
        f"  if a person is to be hidden who comes on up to {REGULAR_DAYS} days:   ± {repeated.margin(LEVEL, days):.1f}",
        f"  ours on day 1, since it grows with the logarithm of days: ± {plan.margin(LEVEL, 1):.1f}",
    ]


def demo_chart(demo: StreamDemo) -> Any:
    """Return a picture: visits within the last week, released with their band, and true."""
    altair = optional("altair", "plot")
    days = len(demo.visits)
    width = min(DAYS_PER_WEEK, days)
    margins = [demo.plan.margin(LEVEL, day, width) for day in range(1, days + 1, max(1, days // 200))]
    rows = []
    truth = np.vstack([np.zeros((1, len(DEPARTMENTS))), np.cumsum(demo.visits, axis=0)])
    sums = np.vstack([np.zeros((1, len(DEPARTMENTS))), demo.released])
    for margin, day in zip(margins, range(1, days + 1, max(1, days // 200)), strict=True):
        before = max(0, day - width)
        for department, name in enumerate(DEPARTMENTS):
            value = float(sums[day, department] - sums[before, department])
            rows.append(
                {
                    "day": str(FIRST_DAY + timedelta(days=day - 1)),
                    "department": name,
                    "value": value,
                    "low": value - margin,
                    "high": value + margin,
                    "true": float(truth[day, department] - truth[before, department]),
                }
            )
    drawn = altair.Chart(altair.Data(values=rows)).encode(
        x=altair.X("day:T", title=None), color=altair.Color("department:N", title=None)
    )
    title = f"visits within {width} days: released with 95 % bands, true ones dashed"
    band = drawn.mark_area(opacity=0.25).encode(y=altair.Y("low:Q", title="visits"), y2="high:Q")
    lines = drawn.mark_line().encode(y="value:Q") + drawn.mark_line(strokeDash=[3, 3], opacity=0.7).encode(y="true:Q")
    return (band + lines).properties(width=640, height=360, title=title)


SHOW = demonstrate
"""Looked up by name: the command line does not import this extension package."""
