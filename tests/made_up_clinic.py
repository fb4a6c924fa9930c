"""One small clinic of made-up patients for all tests of a process: the tour's own, with fewer people."""

import atexit
import io
import shutil
import tempfile
from functools import cache
from pathlib import Path

from rich.console import Console

from sfumato.demo.tour import prepare_demo, tour

PATIENTS = 2000


def console(width: int = 80, encoding: str = "utf-8", color: bool = False) -> tuple[Console, io.TextIOWrapper]:
    """Return a console that writes into memory."""
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    environment = {"TERM": "xterm-256color"}
    shown = Console(file=written, width=width, force_terminal=color, highlight=False, _environ=environment)
    return shown, written


def text(written: io.TextIOWrapper) -> str:
    """Return what was written."""
    written.seek(0)
    return written.read()


def toured(folder: Path, encoding: str = "utf-8", color: bool = False) -> str:
    """Return the screen of a tour through a folder."""
    shown, written = console(encoding=encoding, color=color)
    tour(folder, shown, console()[0], PATIENTS)
    return text(written)


@cache
def clinic() -> Path:
    """Return a folder that was prepared and never asked; ask a copy of it."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    prepare_demo(folder, console()[0], PATIENTS)
    return folder


def fresh_clinic(place: Path) -> Path:
    """Return the policy of a copy whose budget is whole."""
    shutil.copytree(clinic(), place, dirs_exist_ok=True)
    return place / "clinic.toml"
