"""The prompt of `sfumato sql`: questions over several lines, their prices, and what is left of the budget."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sfumato.database import Database
from sfumato.errors import Refusal, UnknownName, shown
from sfumato.policy.entry import suggestion
from sfumato.query.functions import AGGREGATES, FUNCTIONS
from sfumato.terminal.answers import draw_cost, draw_gauge, draw_release
from sfumato.terminal.plain import clean, round_down
from sfumato.terminal.reports import history_text
from sfumato.terminal.screen import grid, say, show

try:
    import readline
except ImportError:  # a system without it: lines can still be typed
    readline = None  # type: ignore[assignment]
