"""Reads a policy from a TOML file or a dict: everything it must say is said and possible, or it is refused.

Numbers are exact: a decimal is read as its text, so 0.1 is one tenth. Nothing but the policy file is opened.
"""

import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadPolicy
from sfumato.policy.columns import COLUMN_KEYS
from sfumato.policy.entry import Entry, check_name, choice, missing, named, number, refuse, section, shown, text
from sfumato.policy.forms import CSV_KEYS, check_csv_source, read_csv_form
from sfumato.policy.lines import key_lines
from sfumato.policy.locations import LEDGERS, file_ledger, ledger_beside, read_frames, read_location, read_source
from sfumato.policy.policy import (
    MAX_CHARGES_PER_ACCOUNT,
    Analyst,
    Budget,
    CsvFormat,
    Location,
    Policy,
    Refresh,
    Sealing,
    Sharing,
    Table,
)
from sfumato.policy.schemes import source_example, tells_changes
from sfumato.policy.sealing import SEALED_KEYS, read_sealing
from sfumato.policy.tables import MOST_TABLES, TABLE_KEYS, read_tables

LARGEST_FILE = 2**20
MOST_ANALYSTS = 10_000
_MAX_CHARGES = 10**9
NAMELESS = "dataset"
"""The name of a dict without one; a file without one is called after itself."""
TOP_KEYS = (
    "name",
    "source",
    "csv",
    "sealed",
    "ledger",
    "refresh",
    "neighbours",
    "answers",
    "padding",
    "budget",
    "tables",
    "analysts",
)
BUDGET_KEYS = ("epsilon", "delta", "query_delta", "truncation", "charges")
ANALYST_KEYS = ("epsilon", "delta")
KEYS = (
    *TOP_KEYS,
    *(f"csv.{key}" for key in CSV_KEYS),
    *(f"budget.{key}" for key in BUDGET_KEYS),
    *(f"sealed.{key}" for key in SEALED_KEYS),
    *(f"tables.TABLE.{key}" for key in TABLE_KEYS),
    *(f"tables.TABLE.columns.COLUMN.{key}" for key in COLUMN_KEYS),
    *(f"analysts.ANALYST.{key}" for key in ANALYST_KEYS),
)
"""Every key there is: docs/policy/ is checked against it."""

_REQUIRED = (
    (
        "budget",
        "The budget has no default: the owner has to choose it.",
        "Add [budget] with epsilon and delta (delta = 0 is allowed).",
    ),
    ("tables", "A policy must declare at least one table.", "Add [tables.NAME] with its unit and columns."),
)
_SYNONYMS = {"bounded": "replace", "unbounded": "add-remove", "substitute": "replace", "swap": "replace"}
_REFRESHING = {
    "never": "manual",
    "by-hand": "manual",
    "always": "on-change",
    "auto": "on-change",
    "change": "on-change",
}
_SHARING = {"common": "shared", "public": "shared", "own": "separate", "private": "separate", "per-account": "separate"}
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
"""tomllib takes time in the square of a key's depth: minutes for one line of a megabyte."""
_DURATION = re.compile(r"(\d{1,5}(?:\.\d{1,6})?) ?(ms|s)", re.ASCII)
_UNITS = {"ms": Fraction(1, 1000), "s": Fraction(1)}
_SHORTEST_PADDING, _LONGEST_PADDING = Fraction(1, 100), Fraction(60)
_QUERIES = 1000
"""A query's share of delta where the policy names none."""


def read_policy(source: str | Path | dict[str, object]) -> Policy:
    """Read a policy from a TOML file, or from a dict of the same shape; whatever is wrong is a `BadPolicy`.

    >>> policy = read_policy({
    ...     "source": "csv:visits.csv",
    ...     "budget": {"epsilon": 0.1, "delta": 0},
    ...     "tables": {"visits": {"unit": "rows"}},
    ... })
    >>> policy.budget.epsilon
    Fraction(1, 10)
    """
    if isinstance(source, dict):
        return _policy(Entry(source), None)
    if isinstance(source, str | Path):
        text_of_file = _text(source)
        return _policy(Entry(_toml(text_of_file, source), (), key_lines(text_of_file)), Path(source))
    raise BadPolicy(
        f"The policy is {shown(source)}.",
        "A policy is read from a file or from a dict.",
        "Give the path of a TOML file.",
    )


def _text(file: str | Path) -> str:
    """Read the file; a message repeats the path that its reader typed and nothing of the system's own words."""
    typed = shown(str(file))
    try:
        path = Path(file)
        if not path.is_file():  # a pipe or a device could hang
            raise BadPolicy(f"There is no policy file {typed}.", "A policy is a TOML file.", "Check the path.")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError):
        raise BadPolicy(
            f"The policy file {typed} cannot be read.",
            "It is not readable by this user.",
            "Check the path and its permissions.",
        ) from None
    if len(content) > LARGEST_FILE:
        raise BadPolicy(
            f"The policy file {typed} is larger than {LARGEST_FILE} bytes.",
            "Longer policy files are not read.",
            "Put long lists of keys into a public table and refer to it.",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadPolicy(
            f"The policy file {typed} is not UTF-8 in line {line}.", "TOML is UTF-8.", "Save the file as UTF-8."
        ) from None


def _toml(content: str, file: str | Path) -> dict[str, object]:
    typed = shown(str(file))
    deep = _DEEP_KEY.search(content)
    if deep:
        line = content.count("\n", 0, deep.start()) + 1
        raise BadPolicy(
            f"The policy file {typed} has dozens of names joined by dots in line {line}.",
            "No key of a policy is nested that deeply.",
            "Write the keys that docs/policy/index.md lists.",
        )
    try:
        return tomllib.loads(content, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise BadPolicy(
            f"The policy file {typed} is not TOML: {error}.",
            "A policy file must be valid TOML.",
            'Correct that line; text stands in quotes: name = "clinic".',
        ) from None
    except (ValueError, ArithmeticError, RecursionError):
        raise BadPolicy(
            f"The policy file {typed} holds a number of thousands of digits, or lists in lists without end.",
            "Such values are refused because they can take very long to read.",
            "Remove it.",
        ) from None


def _policy(root: Entry, file: Path | None) -> Policy:
    keys = section(root, TOP_KEYS)
    name = _name(keys.get("name"), root, file)
    for key, why, remedy in _REQUIRED:
        if key not in keys:
            raise missing(root, key, why, remedy)
    folder = _folder(root, file)
    sealed = read_sealing(keys["sealed"], folder) if "sealed" in keys else None
    source = _source(root, keys, sealed, folder)
    ledger = _ledger(root, keys, name, file, source if sealed is None else sealed.key)
    _check_ledger(root, ledger, source, file)
    neighbours = Neighbours.ADD_REMOVE
    if "neighbours" in keys:
        neighbours = Neighbours(choice(keys["neighbours"], Neighbours, _SYNONYMS))
    budget = _budget(keys["budget"])
    tables = read_tables(keys["tables"], sealed)
    if sealed is not None:
        _check_nothing_chosen(keys, budget, tables)
    analysts = _analysts(keys["analysts"], budget) if "analysts" in keys else ()
    refresh = _refresh(keys["refresh"], source) if "refresh" in keys else Refresh.MANUAL
    padding = _padding(keys["padding"]) if "padding" in keys else None
    answers = Sharing(choice(keys["answers"], Sharing, _SHARING)) if "answers" in keys else Sharing.SEPARATE
    form = CsvFormat()
    if "csv" in keys:
        check_csv_source(keys["csv"], source.scheme)
        form = read_csv_form(keys["csv"])
    return Policy(name, source, ledger, neighbours, budget, tables, analysts, refresh, sealed, padding, answers, form)


def _name(entry: Entry | None, root: Entry, file: Path | None) -> str:
    if entry is None:
        entry = root.below("name", file.stem if file else NAMELESS)
    name = text(entry, 10_000)
    check_name(entry, name, "policy")
    return name


def _folder(root: Entry, file: Path | None) -> Path:
    try:
        return file.absolute().parent if file else Path.cwd()
    except OSError:
        raise refuse(
            root,
            "is read in a folder that no longer exists.",
            "Relative paths in the policy start at that folder.",
            "Change to another folder.",
        ) from None


def _source(root: Entry, keys: dict[str, Entry], sealed: Sealing | None, folder: Path) -> Location:
    """Return where the data lies: the source, or the sealed store that stands for it."""
    if sealed is None:
        if "source" not in keys:
            remedy = f'Add source = "{source_example()}", or [sealed].'
            raise missing(root, "source", "The policy must say where the data is.", remedy)
        if isinstance(keys["source"].value, dict):
            return read_frames(keys["source"], MOST_TABLES)
        return read_source(keys["source"], folder)
    for key in ("source", "refresh"):
        if key in keys:
            raise refuse(
                keys[key],
                "is written beside [sealed].",
                "A policy has either a source or a sealed store, not both.",
                f"Remove {key}, or [sealed].",
            )
    return Location("sealed", sealed.store.target, sealed.store.path)


def _ledger(root: Entry, keys: dict[str, Entry], name: str, file: Path | None, beside: Location) -> Location:
    if "ledger" in keys:
        return read_location(keys["ledger"], LEDGERS, _folder(root, file))
    ledger = file_ledger(_folder(root, file) / f"{file.stem}.ledger") if file else ledger_beside(beside, name)
    if ledger is None:
        raise missing(
            root,
            "ledger",
            "Neither the policy nor the source is a file, so the ledger has no default place.",
            'Add ledger = "sqlite:PATH".',
        )
    return ledger


def _check_ledger(root: Entry, ledger: Location, source: Location, file: Path | None) -> None:
    if ledger.path is not None and ledger.path in (source.path, file and file.absolute()):
        raise refuse(
            root.below("ledger", None),
            "is the file of the policy or of the data.",
            "The ledger must be a separate file.",
            f'Write for example ledger = "sqlite:{NAMELESS}.ledger".',
        )


def _refresh(entry: Entry, source: Location) -> Refresh:
    refresh = Refresh(choice(entry, Refresh, _REFRESHING))
    if refresh is Refresh.ON_CHANGE and not tells_changes(source.scheme):
        raise refuse(
            entry,
            f"is {shown(entry.value)} for a source of frames.",
            "A frame does not tell when it was changed, and its contents are never compared.",
            "Leave it out, and call refresh() when the frames have changed.",
        )
    return refresh


def _padding(entry: Entry) -> Fraction:
    """Read a duration such as "1s" or "250ms", in seconds."""
    found = _DURATION.fullmatch(entry.value) if isinstance(entry.value, str) else None
    seconds = Fraction(found[1]) * _UNITS[found[2]] if found else Fraction(0)
    if _SHORTEST_PADDING <= seconds <= _LONGEST_PADDING:
        return seconds
    raise refuse(
        entry,
        f"is {shown(entry.value)}.",
        "It is a duration from 10ms to 60s.",
        'Write for example padding = "1s" or padding = "250ms".',
    )


def _budget(entry: Entry) -> Budget:
    keys = section(entry, BUDGET_KEYS)
    epsilon = _epsilon(entry, keys)
    if "delta" not in keys:
        raise missing(
            entry,
            "delta",
            "The budget has no default: the owner has to choose it.",
            "Add delta, for example delta = 1e-6; delta = 0 allows Laplace noise and declared keys only.",
        )
    delta = _delta(keys["delta"])
    truncation = _truncation(keys["truncation"], epsilon) if "truncation" in keys else None
    charges = _charges(keys["charges"]) if "charges" in keys else MAX_CHARGES_PER_ACCOUNT
    if "query_delta" not in keys:
        return Budget(epsilon, delta, delta / _QUERIES, truncation, charges)
    query_delta = _delta(keys["query_delta"])
    if query_delta > delta:
        raise refuse(
            keys["query_delta"],
            f"is {shown(keys['query_delta'].value)}, above budget.delta = {shown(keys['delta'].value)}.",
            "No query could then be answered.",
            "Write less than budget.delta, or leave it out: then it is a thousandth of it.",
        )
    return Budget(epsilon, delta, query_delta, truncation, charges)


def _charges(entry: Entry) -> int:
    value = entry.value
    if type(value) is int and 1 <= value <= _MAX_CHARGES:
        return value
    raise refuse(
        entry,
        f"is {shown(value)}.",
        f"It is the maximum number of charges of each account, from 1 to {_MAX_CHARGES:,}.",
        "Write an integer, for example charges = 10000, or leave it out.",
    )


def _check_nothing_chosen(keys: dict[str, Entry], budget: Budget, tables: tuple[Table, ...]) -> None:
    """Refuse what needs rows that were left out, or their ranks: a sealed store has neither."""
    columns = [column for table in tables for column in table.columns]
    free = any(table.rows_chosen for table in tables) or any(column.bounds_chosen for column in columns)
    if budget.truncation is not None or free or any(column.total_per_unit is not None for column in columns):
        raise refuse(
            keys["budget"] if budget.truncation is not None else keys["tables"],
            'says truncation, total_per_unit or choose = "private" beside [sealed].',
            "A sealed store holds sums of cells: no rows that were left out, and no order of rows.",
            "Remove truncation and total_per_unit, and write rows_per_unit and bounds as numbers.",
        )


def _truncation(entry: Entry, epsilon: Fraction) -> Fraction:
    truncation = number(entry)
    if 0 < truncation <= epsilon:
        return truncation
    raise refuse(
        entry,
        f"is {shown(entry.value)}.",
        "It is a part of budget.epsilon, spent once per snapshot to say how much caps and bounds cut off.",
        "Write a small positive number, for example truncation = 0.05, or leave it out.",
    )


def _analysts(entry: Entry, budget: Budget) -> tuple[Analyst, ...]:
    found = []
    for name, below in named(entry, "analyst", MOST_ANALYSTS).items():
        keys = section(below, ANALYST_KEYS)
        delta = _delta(keys["delta"]) if "delta" in keys else budget.delta
        found.append(Analyst(name, _epsilon(below, keys), delta))
    return tuple(found)


def _epsilon(entry: Entry, keys: dict[str, Entry]) -> Fraction:
    if "epsilon" not in keys:
        raise missing(
            entry,
            "epsilon",
            "The budget has no default: the owner has to choose it.",
            "Add epsilon, for example epsilon = 1.",
        )
    epsilon = number(keys["epsilon"])
    if epsilon > 0:
        return epsilon
    raise refuse(
        keys["epsilon"],
        f"is {shown(keys['epsilon'].value)}.",
        "Epsilon must be above zero: with epsilon = 0 no answer can depend on the data.",
        "Write a positive number, for example epsilon = 1.",
    )


def _delta(entry: Entry) -> Fraction:
    delta = number(entry)
    if 0 <= delta < 1:
        return delta
    raise refuse(
        entry,
        f"is {shown(entry.value)}.",
        "Delta is a probability, at least 0 and below 1; with delta = 1 nobody is protected.",
        "Write a number far below one in the number of people, for example 1e-6.",
    )
