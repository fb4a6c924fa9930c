"""Reads a policy from a TOML file or a dict: everything it must say is said and possible, or it is refused.

Numbers are exact: a decimal is read as its text, so 0.1 is one tenth. Nothing but the policy file is opened.
"""

import re
import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from sfumato.errors import BadPolicy
from sfumato.policy.account_keys import MAX_TABLES
from sfumato.policy.cohorts import read_cohort
from sfumato.policy.entry import Entry, check_name, missing, quote_entry, refuse
from sfumato.policy.forms import check_csv_form, check_csv_source
from sfumato.policy.keys import POLICY
from sfumato.policy.kinds import SectionValues
from sfumato.policy.lines import key_lines
from sfumato.policy.locations import LEDGERS, default_ledger, file_ledger, read_frames, read_location, read_source
from sfumato.policy.policy import Analyst, Budget, Location, Policy, Refresh, Sealing, Table, fold_name
from sfumato.policy.roles import read_analysts, read_roles
from sfumato.policy.schemes import source_example, tells_changes
from sfumato.policy.sealing import read_sealing
from sfumato.policy.tables import read_tables

PolicyFile = str | Path | dict[str, object]
"""A policy as it is passed: the path of a TOML file, or a dict of the same shape."""

MAX_POLICY_BYTES = 2**20
NAMELESS = "dataset"
"""The name of a dict without one; a file without one is called after itself."""
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
"""tomllib takes time in the square of a key's depth: minutes for one line of a megabyte."""
_QUERIES_PER_DELTA = 1000
"""A query's share of delta where the policy names none."""


def read_policy(source: PolicyFile) -> Policy:
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
        f"The policy is {quote_entry(source)}.",
        "A policy is read from a file or from a dict.",
        "Give the path of a TOML file.",
    )


def _text(file: str | Path) -> str:
    """Read the file; a message repeats the path that its reader typed and nothing of the system's own words."""
    typed = quote_entry(str(file))
    try:
        path = Path(file)
        if not path.is_file():  # a pipe or a device could hang
            raise BadPolicy(f"There is no policy file {typed}.", "A policy is a TOML file.", "Check the path.")
        with path.open("rb") as stream:
            content = stream.read(MAX_POLICY_BYTES + 1)
    except (OSError, ValueError):
        raise BadPolicy(
            f"The policy file {typed} cannot be read.",
            "It is not readable by this user.",
            "Check the path and its permissions.",
        ) from None
    if len(content) > MAX_POLICY_BYTES:
        raise BadPolicy(
            f"The policy file {typed} is larger than {MAX_POLICY_BYTES} bytes.",
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
    typed = quote_entry(str(file))
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
    keys = POLICY.read_keys(root)
    fields = keys.fields
    fields["name"] = fields["name"] or _default_name(root, file)
    folder = _folder(root, file)
    sealed = fields["sealed"] = read_sealing(keys.values["sealed"], folder) if "sealed" in keys else None
    source = fields["source"] = _source(keys, sealed, folder)
    if fields["engine"].temp is not None:
        fields["engine"] = replace(fields["engine"], temp=str(folder / fields["engine"].temp))
    fields["ledger"] = _ledger(keys, fields["name"], file, source if sealed is None else sealed.key)
    _check_ledger(root, fields["ledger"], source, file)
    _check_refresh(keys, source)
    budget = fields["budget"] = _budget(keys.values["budget"])
    tables = fields["tables"] = read_tables(keys["tables"], sealed)
    if sealed is not None:
        _check_nothing_chosen(keys, budget, tables)
    fields["cohort"] = (
        read_cohort(keys["cohort"], tables, fields["neighbours"], source.scheme) if "cohort" in keys else None
    )
    roles = fields["roles"] = read_roles(keys["roles"], tables, budget) if "roles" in keys else ()
    fields["analysts"] = read_analysts(keys["analysts"], budget, roles) if "analysts" in keys else ()
    _check_owners(keys, fields["analysts"])
    if "csv" in keys:
        check_csv_source(keys["csv"], source.scheme)
        check_csv_form(keys["csv"], fields["csv"])
    return Policy(**fields)


def _default_name(root: Entry, file: Path | None) -> str:
    name = file.stem if file else NAMELESS
    check_name(root.below("name", name), name, "policy")
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


def _source(keys: SectionValues, sealed: Sealing | None, folder: Path) -> Location:
    """Return where the data lies: the source, or the sealed store that stands for it."""
    if sealed is None:
        if "source" not in keys:
            why = "The policy must say where the data is."
            raise missing(keys.entry, "source", why, f'Add source = "{source_example()}", or [sealed].')
        if isinstance(keys["source"].value, dict):
            return read_frames(keys["source"], MAX_TABLES)
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


def _ledger(keys: SectionValues, name: str, file: Path | None, beside: Location) -> Location:
    if "ledger" in keys:
        named = read_location(keys["ledger"], LEDGERS, _folder(keys.entry, file))
        return named if file is None else replace(named, policy_file=file.absolute())
    ledger = file_ledger(_folder(keys.entry, file) / f"{file.stem}.ledger") if file else default_ledger(beside, name)
    if ledger is None:
        raise missing(
            keys.entry,
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


def _check_refresh(keys: SectionValues, source: Location) -> None:
    if keys.values["refresh"] is Refresh.ON_CHANGE and not tells_changes(source.scheme):
        raise refuse(
            keys["refresh"],
            f"is {quote_entry(keys['refresh'].value)} for a source of frames.",
            "Changes of a frame cannot be detected, because contents are never compared.",
            "Leave it out, and call refresh() when the frames have changed.",
        )


def _budget(keys: SectionValues) -> Budget:
    budget = keys.fields
    if budget["query_delta"] is None:
        budget["query_delta"] = budget["delta"] / _QUERIES_PER_DELTA
    if budget["query_delta"] > budget["delta"]:
        raise refuse(
            keys["query_delta"],
            f"is {quote_entry(keys['query_delta'].value)}, above budget.delta = {quote_entry(keys['delta'].value)}.",
            "No query could then be answered.",
            "Write less than budget.delta, or leave it out: then it is a thousandth of it.",
        )
    if "truncation" in keys and not 0 < budget["truncation"] <= budget["epsilon"]:
        raise refuse(
            keys["truncation"],
            f"is {quote_entry(keys['truncation'].value)}.",
            "It is a part of budget.epsilon, spent once per snapshot to measure how much bounds and clipping remove.",
            "Write a small positive number, for example truncation = 0.05, or leave it out.",
        )
    if (budget["every"] is None) != (budget["lifetime"] is None):
        written = keys["every"] if "every" in keys else keys["lifetime"]
        raise refuse(
            written,
            f"is {quote_entry(written.value)}, without {'lifetime' if 'every' in keys else 'every'}.",
            "A budget that renews bounds each window and not all windows together, which is a weaker promise. The "
            "owner has to say so.",
            'Write every = "month" and lifetime = "unlimited", or neither. To renew only the caps of analysts, write '
            "every in [analysts.NAME].",
        )
    return Budget(**budget)


def _check_nothing_chosen(keys: SectionValues, budget: Budget, tables: tuple[Table, ...]) -> None:
    """Refuse what needs rows that were left out, or their ranks: a sealed store has neither."""
    columns = [column for table in tables for column in table.columns]
    free = any(table.rows_chosen for table in tables) or any(column.bounds_chosen for column in columns)
    if budget.truncation is not None or free or any(column.total_per_unit is not None for column in columns):
        raise refuse(
            keys["budget"] if budget.truncation is not None else keys["tables"],
            'says truncation, total_per_unit or choose = "private" beside [sealed].',
            "A sealed store has sums of cells: neither dropped rows nor an order of rows.",
            "Remove truncation and total_per_unit, and write rows_per_unit and bounds as numbers.",
        )


def _check_owners(keys: SectionValues, analysts: tuple[Analyst, ...]) -> None:
    """Refuse a person with two accounts of one name."""
    names = {fold_name(analyst.name) for analyst in analysts}
    for owner in keys.fields["owners"]:
        if fold_name(owner) in names:
            raise refuse(
                keys["owners"],
                f"names {quote_entry(owner)}, who is also an analyst.",
                "A log-in under this name would have two accounts.",
                "Rename the owner, or the analyst.",
            )
