"""What the command line runs: a survey of made-up people, as text and as a picture."""

from pathlib import Path

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer
from sfumato.local.survey import run
from sfumato.terminal.exports import check_plot, write_plot

_LEAST, _MOST = 1000, 10_000_000


def survey(people: int, epsilon: str, plot: Path | None) -> str:
    """Return what a survey of so many made-up people tells, and draw it if a file is named."""
    count = integer(people, "people", 1)
    if not _LEAST <= count <= _MOST:
        raise BadParameter(
            f"people = {quote_value(count)} is out of reach.",
            f"From fewer than {_LEAST:,} nothing can be learned, and more than {_MOST:,} take long to make up.",
            f"Give {_LEAST} to {_MOST} people.",
        )
    if plot is not None:
        check_plot(plot)
    found = run(count, epsilon)
    if plot is None:
        return found.report()
    write_plot(found, plot)
    return f"{found.report()}\n\nThe plot is in {plot}."
