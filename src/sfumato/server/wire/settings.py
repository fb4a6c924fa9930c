"""Settings of a session: those that drivers need, and the price of a question. They follow transactions."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from sfumato.accounting.loss import delta_or_zero
from sfumato.errors import Refusal
from sfumato.exact import positive, probability, typed_rational, typed_share
from sfumato.server.wire.sqlstates import WireError

SERVER_VERSION = "15.0 (sfumato)"
BUDGET = "sfumato.budget"
PRICES = ("sfumato.epsilon", "sfumato.within", "sfumato.share")
"""Each of them is the price of a question: setting one takes back the others."""

REPORTED_SETTINGS = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}
"""Settings whose changes are sent to a client, under the name that it knows."""
_FIXED_SETTINGS = {
    "default_transaction_deferrable": "off",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "150000",
    "session_authorization": "",
    "transaction_deferrable": "off",
}
_FREE = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_text_search_config": "pg_catalog.simple",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "geqo": "on",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "plan_cache_mode": "auto",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "search_path": '"$user", public',
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "work_mem": "4MB",
    "sfumato.delta": "",
    "sfumato.epsilon": "",
    "sfumato.intervals": "off",
    "sfumato.preview": "policy",
    "sfumato.share": "",
    "sfumato.within": "",
}
_ALIASES = {"time zone": "timezone", "names": "client_encoding", "session characteristics": "transaction_isolation"}
_MAX_VALUE_CHARS = 2000
_MAX_SAVED_SETTINGS = 250
"""Maximum number of savepoints that may be set."""
_ON = frozenset({"on", "true", "yes", "1", "t", "y"})
_OFF = frozenset({"off", "false", "no", "0", "f", "n", ""})
_TIME = re.compile(r"(\d{1,9})\s*(us|ms|s|min|h|d)?", re.ASCII)
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PAIR = re.compile(r'\s*("(?:[^"]|"")+"|[^\s=:,"]+)\s*[=:]\s*([^\s,=:]+)\s*')


def known_name(name: str) -> str:
    """Return the name of a setting as it is kept, or refuse it."""
    folded = _ALIASES.get(name.lower(), name.lower())
    if folded in _FREE or folded in _FIXED_SETTINGS or folded == BUDGET:
        return folded
    if folded.startswith("sfumato."):
        hint = f"There are {', '.join(sorted(key for key in (*_FREE, BUDGET) if key.startswith('sfumato.')))}."
    else:
        hint = "Settings that change how a server computes have no meaning here."
    raise WireError("42704", f'unrecognized configuration parameter "{folded[:63]}"', "", hint)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values for the session, and those until the end of the transaction."""

    session: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    local: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Settings:
    """The settings of one session, with those of open transactions and savepoints to come back to."""

    def __init__(self, user: str, given: tuple[tuple[str, str], ...]) -> None:
        self._fixed = _FIXED_SETTINGS | {"session_authorization": user}
        self._defaults = dict(_FREE)
        self._values = _Values()
        self._saved: list[tuple[str, _Values]] = []
        for name, value in given:
            self.set(name, value)
        self._defaults = {name: self.get(name) for name in _FREE}
        self._values = _Values()

    def get(self, name: str) -> str:
        """Return the value of a setting that there is."""
        known = known_name(name)
        for values in (self._values.local, self._values.session, self._defaults, self._fixed):
            if known in values:
                return values[known]
        return ""

    def set(self, name: str, value: str | None, local: bool = False) -> None:
        """Give a setting a value, checked; None is the value that it began with."""
        known = known_name(name)
        if known in self._fixed or known == BUDGET:
            raise WireError("55P02", f'parameter "{known}" cannot be changed')
        new = self._defaults[known] if value is None else checked(known, value)
        changed = {known: new}
        if known in PRICES and new:
            changed |= {other: "" for other in PRICES if other != known}
        values = self._values
        if local:
            self._values = _Values(values.session, {**values.local, **changed})
        else:
            kept = {key: old for key, old in values.local.items() if key not in changed}
            self._values = _Values({**values.session, **changed}, kept)

    def reset_all(self) -> None:
        """Return every setting to the value that it began with."""
        self._values = _Values()

    def undo(self) -> Callable[[], None]:
        """Return what brings back every setting as it is now."""
        values = self._values

        def back() -> None:
            self._values = values

        return back

    def begin(self) -> None:
        """A transaction begins."""
        self._saved = [("", self._values)]

    def save(self, name: str) -> None:
        """Set a savepoint."""
        if len(self._saved) > _MAX_SAVED_SETTINGS:
            raise WireError("54000", "Too many savepoints are set.", "", "RELEASE some, or COMMIT.")
        self._saved.append((_cut(name), self._values))

    def release(self, name: str) -> None:
        """Let go of a savepoint, and of those after it."""
        del self._saved[self._savepoint(name) :]

    def back_to(self, name: str) -> None:
        """Return to a savepoint, which stays."""
        at = self._savepoint(name)
        self._values = self._saved[at][1]
        del self._saved[at + 1 :]

    def commit(self) -> None:
        """The transaction ends; settings made for it alone are over."""
        self._values = _Values(self._values.session)
        self._saved = []

    def roll_back(self) -> None:
        """The transaction ends, and everything is as it was before."""
        self._values = self._saved[0][1] if self._saved else self._values
        self._saved = []

    def reported(self) -> dict[str, str]:
        """Return the settings that are sent to a client, by the names it knows."""
        return {shown: self.get(name) for name, shown in REPORTED_SETTINGS.items()}

    def all(self) -> list[tuple[str, str]]:
        """Return every setting and its value, by name."""
        return [(name, self.get(name)) for name in sorted({*_FREE, *self._fixed})]

    @property
    def intervals(self) -> Fraction | None:
        """The level of the intervals that answers show beside their numbers; None where they show none."""
        word = self.get("sfumato.intervals")
        return None if word in _OFF else Fraction(95, 100) if word in _ON else Fraction(word)

    @property
    def empties_previews(self) -> bool:
        """Whether first rows of a private table are answered with its columns and no row."""
        return self.get("sfumato.preview") == "empty"

    @property
    def timeout(self) -> float | None:
        """How many seconds the client waits for a statement; None for as long as it takes."""
        return read_time(self.get("statement_timeout")) or None

    @property
    def wants_notices(self) -> bool:
        """Whether the client wants to be told things beside the rows."""
        return self.get("client_min_messages").lower() not in ("warning", "error", "fatal", "panic")

    def price(self) -> dict[str, object]:
        """Return what `ask` is to be given."""
        within = self.get("sfumato.within")
        given: dict[str, object] = {
            "epsilon": self.get("sfumato.epsilon") or None,
            "within": read_within(within) if within else None,
            "delta": self.get("sfumato.delta") or None,
            "share": self.get("sfumato.share") or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _savepoint(self, name: str) -> int:
        found = [at for at, (known, _) in enumerate(self._saved) if at and known == _cut(name)]
        if not found:
            raise WireError("3B001", f'savepoint "{name[:63]}" does not exist')
        return found[-1]


def _cut(name: str) -> str:
    """Return what counts of a name, as in PostgreSQL."""
    return name[:63]


def checked(name: str, value: str) -> str:
    """Return a value as it is kept, or refuse it."""
    if len(value) > _MAX_VALUE_CHARS or "\x00" in value:
        raise _invalid(name, value[:60])
    check = _CHECKS.get(name)
    return value if check is None else check(name, value.strip())


def read_within(text: str) -> dict[str, str]:
    """Read margins by column: `n = 25, cost = 1.5`, or the same as JSON; a percentage is one of the value.

    >>> read_within('n = 5%, "Total Cost": 1.5'), read_within('{"n": 25}')
    ({'n': '5%', 'Total Cost': '1.5'}, {'n': '25'})
    """
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found and all(isinstance(value, str) for value in found.values()):
            return found
        raise _no_margins(text)
    margins: dict[str, str] = {}
    for part in text.split(","):
        match = _PAIR.fullmatch(part)
        if match is None:
            raise _no_margins(text)
        name = match[1][1:-1].replace('""', '"') if match[1].startswith('"') else match[1]
        margins[name] = match[2]
    return margins


def _no_margins(text: str) -> WireError:
    return WireError(
        "22023",
        f"sfumato.within = '{text[:60]}' names no margins.",
        "It gives columns of the answer the 95 % margin that each should have.",
        "SET sfumato.within = 'n = 25';",
    )


def read_time(text: str) -> float | None:
    """Read a time in milliseconds, or with its unit; None where it is none.

    >>> read_time("1500"), read_time("2 min"), read_time("soon")
    (1.5, 120.0, None)
    """
    match = _TIME.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _UNITS[match[2] or "ms"]


def _time(name: str, value: str) -> str:
    if read_time(value) is None:
        raise _invalid(name, value)
    return value


def _number(name: str, value: str) -> str:
    if not value:
        return ""
    try:
        exact = typed_rational(value, name)
        if name == "sfumato.delta":
            delta_or_zero(exact)
        else:
            positive(exact, name)
    except Refusal as refusal:
        raise WireError("22023", refusal.what, refusal.why, f"SET {name} = '0.5';") from None
    return value


def _within(_: str, value: str) -> str:
    for column, margin in (read_within(value) if value else {}).items():
        _number(f"sfumato.within[{column[:60]}]", margin.removesuffix("%") or "0")
    return value


def _share(name: str, value: str) -> str:
    if not value:
        return ""
    try:
        typed_share(value, name)
    except Refusal as refusal:
        raise WireError("22023", refusal.what, refusal.why, f"SET {name} = '2%';") from None
    return value


def _intervals(name: str, value: str) -> str:
    word = value.lower()
    if word in _ON | _OFF:
        return "on" if word in _ON else "off"
    try:
        probability(typed_rational(value, name), name)
        return str(Fraction(value))
    except (Refusal, ValueError):
        raise WireError(
            "22023",
            f"sfumato.intervals = '{value[:60]}' is not a level.",
            "It is on (95 %), off, or a level between 0 and 1.",
            "SET sfumato.intervals = on;",
        ) from None


def _encoding(name: str, value: str) -> str:
    if value.lower().replace("-", "").replace("_", "") not in ("utf8", "unicode", "'utf8'"):
        raise WireError("22023", f'invalid value for parameter "{name}"', "Texts are UTF-8.", "Use UTF8.")
    return "UTF8"


def _date_style(name: str, value: str) -> str:
    words = [word.strip().upper() for word in value.split(",")]
    if "ISO" not in words and not {*words} <= {"MDY", "DMY", "YMD", "DEFAULT"}:
        raise WireError("22023", f'invalid value for parameter "{name}"', "Dates are written as ISO.", "Use ISO.")
    return "ISO, MDY"


def _preview(name: str, value: str) -> str:
    if value.lower() not in ("policy", "empty"):
        raise WireError(
            "22023",
            f'invalid value for parameter "{name}": "{value[:60]}"',
            "It is policy (as the owner has set) or empty (the columns, and no rows).",
            f"SET {name} = 'empty';",
        )
    return value.lower()


def _only(*values: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value.lower() not in values:
            raise _invalid(name, value)
        return values[0]

    return check


def _invalid(name: str, value: str) -> WireError:
    return WireError("22023", f'invalid value for parameter "{name}": "{value[:60]}"')


_CHECKS: dict[str, Callable[[str, str], str]] = {
    "client_encoding": _encoding,
    "datestyle": _date_style,
    "intervalstyle": _only("postgres"),
    "standard_conforming_strings": _only("on", "true", "yes", "1"),
    "statement_timeout": _time,
    "sfumato.delta": _number,
    "sfumato.epsilon": _number,
    "sfumato.intervals": _intervals,
    "sfumato.preview": _preview,
    "sfumato.share": _share,
    "sfumato.within": _within,
}
