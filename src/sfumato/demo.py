"""A tour on fictional patients: what the noise does to an answer, what it costs, and how a budget ends."""

from fractions import Fraction
from math import ceil, floor, isqrt
from textwrap import wrap

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfumato.accounting import pld, pure, rdp, zcdp
from sfumato.accounting.event import Composed, Event, GaussianNoise, LaplaceNoise, Neighbours, Repeated
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import round_up
from sfumato.errors import BudgetExhausted, UnsupportedEvent
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.noisy_max import NoisyTop
from sfumato.mechanisms.randomized_response import Warner
from sfumato.randomness.bernoulli import Bernoulli
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source, read_exactly
from sfumato.sensitivity.norms import histogram

PATIENTS = 100_000
SHARES = {
    "emergency": 24,
    "surgery": 20,
    "maternity": 17,
    "cardiology": 13,
    "paediatrics": 11,
    "oncology": 8,
    "psychiatry": 5,
    "palliative care": 2,
}
"""Percent of the fictional patients, each of them in one department."""
LEVEL = Fraction(95, 100)
DELTA = Fraction(1, 10**6)
REPEATS = 1000
_ADD_REMOVE = Neighbours.ADD_REMOVE
_BAR = 34
_WIDEST = 80


def tour(console: Console, source: Source) -> None:
    """Walk through everything that exists, on data that is made up while you watch."""
    counts = _admit(source)
    console.print()
    console.print(Text.assemble(("sfumato", "bold"), ": the picture stays, and no line can be pointed at."))
    _histogram(console, counts, source)
    _coverage(console, source)
    _ranking(console, counts, source)
    _survey(console, source)
    _prices(console)
    _budget(console)
    console.print()
    console.print(Text("Next: README.md, examples/, and `sfumato codes`.", "dim"))
    console.print()


def _admit(source: Source) -> list[int]:
    """Send each fictional patient to a department, at random by its share."""
    words = np.frombuffer(read_exactly(source, 4 * PATIENTS), dtype="<u4")
    edges = np.cumsum(list(SHARES.values())) * 2**32 // 100
    places = np.searchsorted(edges, words.astype(np.int64), side="right")
    return [int(number) for number in np.bincount(places, minlength=len(SHARES))]


def _histogram(console: Console, counts: list[int], source: Source) -> None:
    noise = _histogram_noise()
    _title(console, 1, f"A histogram of {PATIENTS:,} patients (fictional), each of them hidden")
    _say(
        console,
        f"Patients per department at ε = {_text(pure.epsilon(noise.event))}: with or without any one of them, nothing"
        " below becomes more than 1.00502 times as likely. The light end of a bar is its 95 % error bar. The true"
        " counts are shown because these patients are made up; real ones would never leave.",
    )
    released = noise.release(counts, source)
    margin = noise.margin(LEVEL)
    table = _table("department", ">released", ">±", "", ">true")
    widest = max(int(value) for value in released) + margin
    for name, noisy, true in zip(SHARES, released, counts, strict=True):
        table.add_row(name, f"{noisy:,}", str(margin), _bar(console, int(noisy), margin, widest), f"{true:,}")
    _show(console, table)


def _histogram_noise() -> Laplace:
    moved = histogram(rows_per_unit=1, groups_per_unit=1, neighbours=_ADD_REMOVE)
    return Laplace(moved.l1, Fraction(200), moved.neighbours)


def _coverage(console: Console, source: Source) -> None:
    noise = _histogram_noise()
    margin = noise.margin(LEVEL)
    _title(console, 2, f"Is “95 %” true? The same histogram, {REPEATS:,} times")
    # the error of an answer is its noise, whatever the counts: zeros stand for them
    errors = np.abs(noise.release(np.zeros((REPEATS, len(SHARES)), dtype=np.int64), source))
    inside, drawn = int((errors <= margin).sum()), errors.size
    low, high = DiscreteLaplace(noise.scale).upper_tail(margin + 1, 64)
    stated = 1 - Fraction(low + high, 2**64)  # P[|Z| <= margin], to 18 digits
    spread = 2 * isqrt(int(drawn * stated * (1 - stated)))
    _say(
        console,
        f"{inside:,} of {drawn:,} error bars held the true count: {100 * inside / drawn:.2f} %. The exact law says"
        f" {100 * float(stated):.2f} %, give or take {100 * spread / drawn:.1f} (two standard deviations) in so many."
        f" The margin ±{margin} comes from the law itself: it is the smallest integer that keeps the promise.",
    )


def _ranking(console: Console, counts: list[int], source: Source) -> None:
    top = NoisyTop(3, 1, Fraction(1, 100), _ADD_REMOVE, monotone=True)
    _title(console, 3, "The three busiest departments, without any count")
    chosen = [list(SHARES)[place] for place in top.release(counts, source)]
    _say(
        console,
        f"{', '.join(chosen)}. It costs ε = {_text(pure.epsilon(top.event))}, and with 95 % confidence each choice is"
        f" within {top.margin(LEVEL, len(SHARES))} patients of the one that belongs there.",
    )


def _survey(console: Console, source: Source) -> None:
    response = Warner(Fraction(1, 2))
    _title(console, 4, "A survey in which everybody can deny their answer")
    truth = Bernoulli(Fraction(3, 10)).draw(PATIENTS, source)
    reports = response.release(truth, source)
    yes = int(reports.sum())
    low, high = response.interval(yes, PATIENTS, LEVEL)
    _say(
        console,
        "“Do you skip prescribed medicine?” Each patient tosses a coin: heads, they answer truly; tails, a second coin"
        " answers for them. A yes is only three times as likely from those who do as from those who do not"
        f" (ε = ln 3), yet {100 * yes / PATIENTS:.1f} % of {PATIENTS:,} reports say yes, so with 95 % confidence the"
        f" true share is {100 * float(low):.1f} to {100 * float(high):.1f} % (it was {100 * truth.mean():.1f} %).",
    )


def _prices(console: Console) -> None:
    _title(console, 5, "What did it cost? Four accountants, one list of releases")
    counts = Repeated(LaplaceNoise(1, Fraction(10), _ADD_REMOVE), 100)
    sums = Repeated(GaussianNoise(1, Fraction(400), _ADD_REMOVE), 50)
    _say(console, "100 counts with Laplace noise at ε = 0.1 each, then 50 more with Gaussian noise; ε at δ = 10⁻⁶:")
    table = _table("accountant", ">100 counts", ">150 counts", "")
    for name, meaning in {
        "pure": "losses add up",
        "zCDP": "concentrated losses",
        "RDP": "Rényi losses, best order",
        "PLD": "the exact law, two bounds",
    }.items():
        table.add_row(name, *(_price(name, event) for event in (counts, Composed((counts, sums)))), meaning)
    _show(console, table)


def _price(accountant: str, event: Event) -> str:
    match accountant:
        case "zCDP":
            return round_up(Fraction(zcdp.epsilon(event, DELTA)))
        case "RDP":
            return round_up(Fraction(rdp.epsilon(event, DELTA)))
        case "PLD":
            low, high = pld.bounds(event, DELTA)
            return f"{floor(low * 10**4) / 10**4:.4f} … {ceil(high * 10**4) / 10**4:.4f}"
    try:
        return _text(pure.epsilon(event))
    except UnsupportedEvent:
        return "no finite bound"


def _budget(console: Console) -> None:
    budget = Filter(Fraction(3), DELTA)
    event = LaplaceNoise(1, Fraction(10), _ADD_REMOVE)
    _title(console, 6, "A budget that holds, whatever is asked next")
    _say(
        console,
        f"The budget is {budget.total}, a count costs ε = {_text(pure.epsilon(event))}. Adding losses up would stop at"
        " 30 counts; the filter knows a theorem that allows more, even when each question depends on earlier answers.",
    )
    console.print()
    asked = 0
    try:
        while True:
            if asked % 10 == 0:
                _gauge(console, asked, budget)
            budget = budget.charge(event)
            asked += 1
    except BudgetExhausted as refusal:
        _gauge(console, asked, budget)
        console.print()
        _say(console, f"Count {asked + 1} is refused ({refusal.code}):")
        _say(console, str(refusal), "red")


def _gauge(console: Console, asked: int, budget: Filter) -> None:
    left = budget.remaining.epsilon / budget.epsilon
    full = int(left * _BAR)
    style = "green" if left > Fraction(1, 2) else "yellow" if left > Fraction(1, 5) else "red"
    solid, empty = ("█", "░") if _draws(console) else ("#", ".")
    line = Text(f"   after {asked:2} counts  ") + Text(solid * full, style) + Text(empty * (_BAR - full), "dim")
    console.print(line + Text(f"  {float(100 * left):3.0f} % left"))


def _bar(console: Console, value: int, margin: int, widest: int) -> Text:
    """Draw a value up to the low end of its error bar, then the error bar itself."""
    low, high = (max(0, round(_BAR * end / widest)) for end in (value - margin, value + margin))
    solid, blurred = ("█", "░") if _draws(console) else ("#", "-")
    return Text(solid * low, "cyan") + Text(blurred * max(1, high - low), "cyan")


def _draws(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    return table


def _show(console: Console, table: Table) -> None:
    console.print()
    console.print(Padding(table, (0, 0, 0, 3), expand=False))


def _title(console: Console, number: int, text: str) -> None:
    console.print()
    console.print(Text(f"{number}  {text}", "bold"))


def _say(console: Console, text: str, style: str = "") -> None:
    for line in wrap(text, min(console.width, _WIDEST) - 4):
        console.print(Text(f"   {line}", style))


def _text(value: Fraction | float) -> str:
    return round_up(Fraction(value))
