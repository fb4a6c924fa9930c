"""The survey of the command line: a survey of made-up people, as text and as a picture."""

from pathlib import Path

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer
from sfumato.local.survey import run
from sfumato.terminal.exports import check_plot, write_plot

_MIN_PEOPLE, _MAX_PEOPLE = 1000, 10_000_000


def survey(people: int, epsilon: str, plot: Path | None) -> str:
    """Return the results of a survey of `people` made-up people, and draw them if a file is named."""
    count = integer(people, "people", 1)
    if not _MIN_PEOPLE <= count <= _MAX_PEOPLE:
        raise BadParameter(
            f"people = {quote_value(count)} is out of range.",
            f"From fewer than {_MIN_PEOPLE:,} nothing can be estimated, and more than {_MAX_PEOPLE:,} take too "
            "long to generate.",
            f"Give {_MIN_PEOPLE} to {_MAX_PEOPLE} people.",
        )
    if plot is not None:
        check_plot(plot)
    result = run(count, epsilon)
    if plot is None:
        return result.report()
    write_plot(result, plot)
    return f"{result.report()}\n\nThe plot is in {plot}."
