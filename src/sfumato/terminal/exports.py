"""Files for answers and pictures: which format a name means, what may be written over, and the writing."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from sfumato.errors import BadParameter, quote_value
from sfumato.policy.policy import Policy

ENDINGS = {
    ".json": "json",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
    ".md": "markdown",
    ".txt": "table",
}
PICTURES = (".svg", ".png", ".pdf", ".html", ".json")


def format_of(output: Path | None, form: str | None) -> str:
    """Return the format that was asked for, or the one that the name of the file means."""
    if form is not None:
        return form
    if output is None:
        return "table"
    if output.suffix.lower() in ENDINGS:
        return ENDINGS[output.suffix.lower()]
    raise BadParameter(
        f"{quote_value(output.name)} does not say its format.",
        "The format is read from the end of the name.",
        f"End it in one of {', '.join(ENDINGS)}, or add --format.",
    )


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, before anything is charged; only answers are written over."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise _not_written(path)
    if path.exists() and path.suffix.lower() not in (*ENDINGS, *PICTURES):
        raise _not_our_file(path)


def check_apart(path: Path, policy: Policy) -> None:
    """Refuse to write among the data, where an answer could take the place of a table or become one."""
    source = policy.source.path
    if source is not None and path.resolve().is_relative_to(source.resolve()):
        raise _not_our_file(path)


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is charged."""
    if path.suffix.lower() not in PICTURES:
        raise BadParameter(
            f"{quote_value(path.name)} is not a picture format.",
            "The kind is read from the end of the name.",
            f"End it in one of {', '.join(PICTURES)}.",
        )
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise BadParameter("No picture can be drawn.", "Altair is not installed.", "Run: pip install 'sfumato[plot]'.")
    check_writable(path)


class Drawable(Protocol):
    """Anything that can be drawn: a release, or the result of an extension."""

    def plot(self) -> Any:
        """Return a chart."""


def write_plot(answer: Drawable, path: Path) -> None:
    """Draw the answer into a file. It was shown before: whatever goes wrong here does not lose it."""
    chart = answer.plot()
    failure = _not_drawn(path)
    try:
        chart.save(str(path))
        return
    except (KeyboardInterrupt, SystemExit):
        raise
    except OSError:
        failure = _not_written(path)
    except BaseException:  # noqa: S110 - the converter is written in Rust: its panics are no Exceptions
        pass
    raise failure


def write_file(content: bytes, path: Path) -> None:
    """Write an answer into a file."""
    try:
        path.write_bytes(content)
    except OSError:
        raise _not_written(path) from None


def _not_our_file(path: Path) -> BadParameter:
    return BadParameter(
        f"{quote_value(str(path))} cannot hold an answer.",
        "It is a data file, or a file that is not an answer; neither is overwritten.",
        "Name another file.",
    )


def _not_written(path: Path) -> BadParameter:
    return BadParameter(
        f"{quote_value(str(path))} cannot be written.",
        "The folder is missing, or may not be written to.",
        "Name a file in a folder of yours; asking the same again is free.",
    )


def _not_drawn(path: Path) -> BadParameter:
    return BadParameter(
        f"{quote_value(str(path))} could not be drawn.",
        "The library that draws pictures failed.",
        "The answer itself is kept: ask the same again at no cost, with --format or another kind of picture.",
    )
