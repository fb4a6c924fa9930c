"""Every attack by name, and the audit of a policy, on made-up data: each returns what a command line prints."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from sfumato.errors import BadParameter, quote_value
from sfumato.lab.attacks import (
    averaging,
    biased,
    encrypted,
    floating,
    linkage,
    local_noise,
    reconstruction,
    timing,
    tracker,
)
from sfumato.lab.audits.audit import audit_policy
from sfumato.lab.generators.seeded import Seeded

FORMATS = frozenset({".svg", ".png", ".pdf", ".html", ".json"})


class AttackResult(Protocol):
    """The result of an attack."""

    def report(self) -> str:
        """Return the result, line by line."""
        ...


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack by name: its description, its results from a source, and the chart of the first of them."""

    description: str
    run: Callable[[Seeded], tuple[AttackResult, ...]]
    chart: str

    def __call__(self, seed: int, plot: Path | None) -> str:
        """Run the attack, draw its chart where one is wanted, and return the text to print."""
        draw = _drawing(plot)
        results = self.run(Seeded(seed))
        return "\n\n".join(result.report() for result in results) + draw(self.chart, results[0])


ATTACKS: dict[str, Attack] = {
    "reconstruct": Attack(
        "Recover a thousand secret bits from noisy counts of random subsets.",
        lambda source: (reconstruction.run(1000, source),),
        "reconstruction",
    ),
    "difference": Attack(
        "Recover every bit as the difference of two permitted counts.",
        lambda source: (tracker.run(400, source),),
        "differencing",
    ),
    "average": Attack(
        "Wear down bounded, rounded and sticky noise by asking often.",
        lambda source: (averaging.run(200, 64, source),),
        "averaging",
    ),
    "link": Attack(
        "Give the rows of a table without names their names back.",
        lambda source: (linkage.run(20_000, source),),
        "linkage",
    ),
    "float": Attack(
        "Read the secret from the low bits of textbook noise, and from the time it takes to draw.",
        lambda source: (floating.run(4_000, source), timing.run(4_000, source)),
        "floating",
    ),
    "randomness": Attack(
        "Bend the coins behind added noise a little, and see what is left of its privacy.",
        lambda source: (biased.run(100_000, source),),
        "biased",
    ),
    "encrypted": Attack(
        "Read encrypted columns by the frequencies of another year, and try the same on a sealed store.",
        lambda source: (encrypted.run(5_000, source),),
        "encrypted",
    ),
    "local": Attack(
        "Tell who is in the data by how much noise a median has, where it is scaled to local sensitivity.",
        lambda source: (local_noise.run(400, source),),
        "local_noise",
    ),
}

AUDIT: Callable[[Path, float], str] = audit_policy
"""Audits a policy for a number of seconds, on synthetic people, and returns the text to print."""


def _drawing(plot: Path | None) -> Callable[[str, object], str]:
    """Return a function that draws a result; refuse an impossible drawing before the attack runs."""
    if plot is None:
        return lambda picture, result: ""
    if plot.suffix not in FORMATS:
        raise BadParameter(
            f"{quote_value(plot.name)} names no kind of picture.",
            "The kind is read from the end of the name.",
            f"End it in one of {', '.join(sorted(FORMATS))}.",
        )
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise BadParameter(
            "No plot can be drawn.", "Altair is not installed.", "Install it: pip install 'sfumato[plot]'."
        )

    def _draw(picture: str, result: object) -> str:
        charts = import_module("sfumato.lab.attacks.plots")  # Altair is an extra, needed for plots only
        try:
            getattr(charts, picture)(result).save(plot)
        except OSError:
            raise BadParameter(
                f"The plot could not be written to {quote_value(str(plot))}.",
                "The folder is missing, or may not be written to.",
                "Name a file in a folder of yours.",
            ) from None
        return f"\n\nThe plot is in {plot}."

    return _draw
