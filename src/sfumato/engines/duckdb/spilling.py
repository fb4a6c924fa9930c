"""Folders for rows that do not fit into memory: private, and removed with the process that made them."""

import os
import re
from pathlib import Path
from shutil import rmtree

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.resource_failures import failure_of
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_SPILL = re.compile(r"\.spill-(\d+)-[0-9a-f]{32}$")


def spill_folder(copy: Path, temp: Path | None = None) -> Path:
    """Make the folder for what does not fit into memory: in `temp` or beside the copy, and only its owner may enter.

    Leftovers of killed processes are removed first.
    """
    place = temp or copy.parent
    try:
        for folder in place.iterdir():
            left = _SPILL.search(folder.name)
            if left is not None and folder.is_dir() and not _alive(int(left[1])):
                rmtree(folder, ignore_errors=True)
        made = place / (f"{copy.name}.spill-{os.getpid()}-{fresh_id(system_source())}")
        made.mkdir(mode=0o700)
    except OSError as error:
        record_engine_failure(error)  # the system's words hold the path
        failure = failure_of(error, False)
    else:
        return made
    raise failure


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to another user
    return True
