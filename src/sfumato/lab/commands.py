"""Every attack by name, and the audit of a policy, on made-up data: each returns what a command line prints."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

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

Command = Callable[[int, Path | None], str]

FORMATS = frozenset({".svg", ".png", ".pdf", ".html", ".json"})


def reconstruct(seed: int, plot: Path | None) -> str:
    """Recover a thousand secret bits from noisy counts of random subsets."""
    draw = _drawing(plot)
    result = reconstruction.run(1000, Seeded(seed))
    return result.report() + draw("reconstruction", result)


def difference(seed: int, plot: Path | None) -> str:
    """Recover every bit as the difference of two permitted counts."""
    draw = _drawing(plot)
    result = tracker.run(400, Seeded(seed))
    return result.report() + draw("differencing", result)


def average(seed: int, plot: Path | None) -> str:
    """Wear down bounded, rounded and sticky noise by asking often."""
    draw = _drawing(plot)
    result = averaging.run(200, 64, Seeded(seed))
    return result.report() + draw("averaging", result)


def link(seed: int, plot: Path | None) -> str:
    """Give the rows of a table without names their names back."""
    draw = _drawing(plot)
    result = linkage.run(20_000, Seeded(seed))
    return result.report() + draw("linkage", result)


def read_doubles(seed: int, plot: Path | None) -> str:
    """Read the secret from the low bits of textbook noise, and from the time it takes to draw."""
    draw = _drawing(plot)
    source = Seeded(seed)
    result, watched = floating.run(4_000, source), timing.run(4_000, source)
    return f"{result.report()}\n\n{watched.report()}" + draw("floating", result)


def bend_coins(seed: int, plot: Path | None) -> str:
    """Bend the coins behind added noise a little, and see what is left of its privacy."""
    draw = _drawing(plot)
    result = biased.run(100_000, Seeded(seed))
    return result.report() + draw("biased", result)


def match_frequencies(seed: int, plot: Path | None) -> str:
    """Read encrypted columns by the frequencies of another year, and try the same on a sealed store."""
    draw = _drawing(plot)
    result = encrypted.run(5_000, Seeded(seed))
    return result.report() + draw("encrypted", result)


def watch_the_noise(seed: int, plot: Path | None) -> str:
    """Tell who is in the data by how much noise a median has, where it is scaled to local sensitivity."""
    draw = _drawing(plot)
    result = local_noise.run(400, Seeded(seed))
    return result.report() + draw("local_noise", result)


ATTACKS: dict[str, Command] = {
    "reconstruct": reconstruct,
    "difference": difference,
    "average": average,
    "link": link,
    "float": read_doubles,
    "randomness": bend_coins,
    "encrypted": match_frequencies,
    "local": watch_the_noise,
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
        charts = import_module("sfumato.lab.attacks.plots")  # an extra: whoever draws nothing does not need Altair
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
