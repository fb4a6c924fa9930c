"""A small survey of made-up people, whose choices are known: estimates and error bars stand beside the truth."""

import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.exact import integer
from sfumato.local.choosing import choose
from sfumato.local.mean import HybridMean
from sfumato.local.oracle import Oracle
from sfumato.local.prefixes import Found, Plan, plan
from sfumato.local.reading import Integers, Reals
from sfumato.local.shuffle import Shuffled
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import Source
from sfumato.release.decode import Value
from sfumato.release.rendering.export import optional

EMOJI = tuple(map(chr, range(0x1F600, 0x1F650)))
"""The block of emoticons: a public list."""
CONFIDENCE = "0.95"
_SHOWN_EMOJI = 8
_MINUTES = 600
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_WANTED_NAMES = 5
_DELTA = "1e-6"
_NAMES = ("maria", "james", "fatou", "linda", "ahmed", "sofia", "peter", "aisha", "david", "elena", "jonas", "chloe")


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """A simulated survey: the true values, the reports and the estimates."""

    oracle: Oracle
    people: int
    truth: Reals
    shares: Reals
    intervals: Reals
    minutes: tuple[float, float, float, float]
    plan: Plan
    found: Found
    names: tuple[str, ...]

    def report(self) -> str:
        """Return a report of estimates, true values and the cost."""
        parts = [self._heading(), self._table(), self._compare_prefixes(), self._price()]
        return "\n\n".join(parts)

    def plot(self) -> Any:
        """Draw the greatest shares with their error bars; a tick is the truth."""
        shown = np.argsort(-self.truth)[:20]
        rows: list[dict[str, Value]] = [
            {
                "key": _emoji_name(index, 24),  # not every machine can draw emoji
                "value": float(self.shares[index]),
                "low": float(self.intervals[index, 0]),
                "high": float(self.intervals[index, 1]),
                "truth": float(self.truth[index]),
            }
            for index in shown.tolist()
        ]
        altair = optional("altair", "plot")
        drawn = altair.Chart(altair.Data(values=rows)).encode(x=altair.X("key:N", title="emoji", sort=None))
        bars = drawn.mark_bar().encode(y=altair.Y("value:Q", title="share of people"))
        ends = drawn.mark_rule().encode(y=altair.Y("low:Q"), y2="high:Q")
        ticks = drawn.mark_tick(color="firebrick", thickness=2).encode(y="truth:Q")
        told = f"{self.people:,} people, epsilon {self.oracle.epsilon}: estimate, 95 % interval, truth (red)"
        return (bars + ends + ticks).properties(width=560, height=300, title=told)

    def _heading(self) -> str:
        margin = self.oracle.margin(CONFIDENCE, self.people)
        return (
            f"{self.people:,} synthetic people each choose one of {len(EMOJI)} emoji. "
            f"Their devices add the noise, epsilon {self.oracle.epsilon};\n"
            f"the collector sees only noisy reports. Oracle: {type(self.oracle).__name__}, "
            f"{self.oracle.report_bits} bits a report,\n"
            f"every share within ± {margin:.2%} at 95 %: known before the first report."
        )

    def _table(self) -> str:
        lines = [f"   {'emoji':<36}{'estimate':>9}{'95 % interval':>20}{'truth':>9}"]
        for index in np.argsort(-self.shares)[:_SHOWN_EMOJI].tolist():
            name, (low, high) = _emoji_name(index, 35), self.intervals[index]
            between = f"{low:.2%} … {high:.2%}"
            lines.append(f"{EMOJI[index]} {name:<36}{self.shares[index]:>9.2%}{between:>20}{self.truth[index]:>9.2%}")
        held = int(((self.intervals[:, 0] <= self.truth) & (self.truth <= self.intervals[:, 1])).sum())
        lines.append(
            f"{held} of {len(EMOJI)} intervals hold the true share; on average at least {0.95 * len(EMOJI):.0f} do."
        )
        return "\n".join(lines)

    def _compare_prefixes(self) -> str:
        estimate, low, high, truth = self.minutes
        found = ", ".join(_decode_name(value) for value in self.found.values.tolist())
        right = sum(_decode_name(value) in self.names[:_WANTED_NAMES] for value in self.found.values.tolist())
        return (
            f"Minutes of screen time, 0 … {_MINUTES}: on average {estimate:.1f}, between {low:.1f} and {high:.1f}; "
            f"truth {truth:.1f}.\n"
            f"First names, without a list of them.\n  {self.plan}\n"
            f"  The {_WANTED_NAMES} most common seem to be: {found} ({right} of {_WANTED_NAMES} are)."
        )

    def _price(self) -> str:
        epsilon = self.oracle.epsilon
        shuffled = Shuffled(epsilon, self.people).epsilon_at(_DELTA) if self.people > 1 else float(epsilon)
        central = Laplace(1, 1 / epsilon, Neighbours.ADD_REMOVE).margin(Fraction(CONFIDENCE))
        local = self.oracle.margin(CONFIDENCE, self.people) * self.people
        return (
            f"What it costs each person: epsilon {epsilon} per question; these three together {3 * epsilon}.\n"
            f"One question, if a trusted party shuffles the reports: epsilon {shuffled:.3g}, delta {_DELTA}.\n"
            f"One question a week for a year: epsilon {52 * epsilon}, although each report alone is the same.\n"
            f"A database that people trust counts to within ± {central} people at the same epsilon; "
            f"here it is ± {local:,.0f}."
        )


def run(people: int, epsilon: object, source: Source | None = None) -> Survey:
    """Make up people, let their devices report, and estimate."""
    count = integer(people, "people", 1)
    oracle, mean = choose(epsilon, len(EMOJI)), HybridMean(epsilon, _MINUTES)  # type: ignore[arg-type]
    chosen = _draw_survey_values(count, len(EMOJI)) * 37 % len(EMOJI)
    tally = oracle.tally(oracle.release(chosen, source))
    minutes = np.arange(count) * 7919 % 401
    sent = mean.release(minutes, source)
    low, high = mean.interval(sent, CONFIDENCE)
    proposed = plan(epsilon, count, len(_ALPHABET), len(_NAMES[0]), _WANTED_NAMES)
    letters = np.array([_encode_name(name) for name in _NAMES])
    held = letters[_draw_survey_values(count, len(_NAMES))]
    return Survey(
        oracle,
        count,
        np.bincount(chosen, minlength=len(EMOJI)) / count,
        oracle.estimate(tally),
        oracle.intervals(tally, CONFIDENCE),
        (mean.estimate(sent), low, high, float(minutes.mean())),
        proposed,
        proposed.prefixes.find(proposed.prefixes.release(held, source), _WANTED_NAMES),
        _NAMES,
    )


def _emoji_name(place: int, longest: int) -> str:
    return unicodedata.name(EMOJI[place]).lower()[:longest]


def _draw_survey_values(people: int, kinds: int) -> Integers:
    """Return one kind per person, with Zipf's shares."""
    ends = np.cumsum(1 / np.arange(1, kinds + 1))
    return np.searchsorted(ends / ends[-1], (np.arange(people) + 0.5) / people)


def _encode_name(name: str) -> int:
    value = 0
    for letter in name:
        value = value * len(_ALPHABET) + _ALPHABET.index(letter)
    return value


def _decode_name(value: int) -> str:
    letters = ""
    for _ in _NAMES[0]:
        value, letter = divmod(value, len(_ALPHABET))
        letters = _ALPHABET[letter] + letters
    return letters
