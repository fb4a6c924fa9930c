"""Open the database of a policy; on a terminal, show the phase of its copy."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.commands.startup import load_before_engine

if TYPE_CHECKING:
    from sfumato.database import Database
    from sfumato.engines.engine import Progress


@contextmanager
def open_database(
    policy: Path, analyst: str | None = None, confirm: str | None = None, *, charge: bool = True
) -> "Iterator[Database]":
    """Open a database, without any charge unless `charge`; on a terminal, show in which phase the bounded copy is."""
    load_before_engine()
    from sfumato.opening import open, open_without_charge

    chosen = open if charge else open_without_charge
    with open_with_progress(
        lambda progress: chosen(policy, analyst=analyst, progress=progress, confirm=confirm)
    ) as database:
        yield database


@contextmanager
def open_rehearsal(policy: Path, analyst: str | None = None) -> "Iterator[Database]":
    """Open synthetic rows in the shape of a policy: neither its source nor its ledger is opened."""
    load_before_engine()
    from sfumato.opening import open

    with open_with_progress(
        lambda progress: open(policy, analyst=analyst, progress=progress, rehearsal=True)
    ) as database:
        yield database


@contextmanager
def open_with_progress(opening: "Callable[[Progress | None], Database]") -> "Iterator[Database]":
    """Open a database with its phases on the terminal; close it in the end."""
    if sys.stderr.isatty():
        from sfumato.terminal.screen import phases, screen

        with phases(screen(stderr=True)) as progress:
            database = opening(progress)
    else:
        database = opening(None)
    with database:
        yield database


@contextmanager
def patient_progress() -> "Iterator[Progress | None]":
    """Give what shows the phase of a question on a terminal, once it takes long; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from sfumato.terminal.screen import PROGRESS_DELAY_SECONDS, phases, screen

    with phases(screen(stderr=True), PROGRESS_DELAY_SECONDS) as progress:
        yield progress


@contextmanager
def progress_line() -> "Iterator[Callable[[str], None]]":
    """Give what shows the current step on a terminal, in one line that is removed in the end."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from sfumato.terminal.screen import screen

    with screen(stderr=True).status("") as status:
        yield status.update
