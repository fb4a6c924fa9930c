"""What a text asks for: questions, prices, settings, transactions; several statements are told apart."""

import re
from dataclasses import dataclass
from itertools import chain

from sfumato.server.wire.copy_statements import Copy, read_copy
from sfumato.server.wire.cursor_statements import (
    CloseCursor,
    Declare,
    Fetch,
    Move,
    read_close,
    read_declare,
    read_fetch,
    read_move,
)
from sfumato.server.wire.explaining import EXPLAIN_FORMATS
from sfumato.server.wire.sql_words import BLANK, NAME, WORD, is_question, name_of, outside_quotes, unquoted
from sfumato.server.wire.sqlstates import WireError, too_large, unsupported
from sfumato.server.wire.view_statements import CreateView, DropView, read_create, read_drop


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A SELECT, VALUES or WITH: answered by the catalogue or by the dataset."""

    sql: str


@dataclass(frozen=True, slots=True)
class Explain:
    """The price of a question."""

    sql: str
    offset: int
    """Where the question begins in the statement."""
    format: str = "text"


@dataclass(frozen=True, slots=True)
class SetTo:
    """A setting gets a value; None is the one it began with."""

    name: str
    value: str | None
    local: bool
    tag: str


@dataclass(frozen=True, slots=True)
class ResetAll:
    """Every setting returns to the value it began with; with `everything`, prepared statements go too."""

    tag: str
    everything: bool = False


@dataclass(frozen=True, slots=True)
class ShowSetting:
    """The value of a setting; `ALL` for every one."""

    name: str


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins."""

    tag: str


@dataclass(frozen=True, slots=True)
class End:
    """A transaction ends; nothing is refunded by going back."""

    commit: bool
    chain: bool


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint is set (SAVEPOINT), let go (RELEASE) or returned to (ROLLBACK)."""

    verb: str
    name: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """A statement gets a name."""

    name: str
    types: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class ExecutePrepared:
    """A named statement is run; `values` is the text between its brackets."""

    name: str
    values: str


@dataclass(frozen=True, slots=True)
class Deallocate:
    """A named statement goes; None for all."""

    name: str | None


@dataclass(frozen=True, slots=True)
class DiscardTemporary:
    """All temporary views of the session go."""

    tag: str


@dataclass(frozen=True, slots=True)
class EmptyStatement:
    """A statement that needs no action: there is nothing to unlisten, or no statement at all."""

    tag: str


Statement = (
    SelectStatement
    | Explain
    | SetTo
    | ResetAll
    | ShowSetting
    | Begin
    | End
    | Savepoint
    | Prepare
    | ExecutePrepared
    | Deallocate
    | Declare
    | Fetch
    | Move
    | CloseCursor
    | Copy
    | CreateView
    | DropView
    | DiscardTemporary
    | EmptyStatement
)

MAX_QUERY_TEXT_CHARS = 250_000
MAX_STATEMENTS_PER_TEXT = 500
"""Maximum number of statements in one text."""
_SETTING = rf"{NAME}(?:\.{NAME})?"
_SET = re.compile(
    rf"SET\s+(?:(?P<scope>SESSION|LOCAL)\s+)?(?P<name>TIME\s+ZONE|NAMES|{_SETTING})"
    rf"\s*(?:=|\bTO\b|(?<=ZONE)|(?<=NAMES))\s*(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_ISOLATION = re.compile(
    r"SET\s+(?:(?:SESSION\s+CHARACTERISTICS\s+AS|LOCAL|SESSION)\s+)?TRANSACTION\s[\w\s,]+", re.IGNORECASE
)
_OWN_ROLE = re.compile(
    r"SET\s+(?:(?:SESSION|LOCAL)\s+)?(?:SESSION\s+AUTHORIZATION\s+DEFAULT|ROLE\s+(?:NONE|DEFAULT))", re.IGNORECASE
)
_VALUE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[^\s,;'\"]+", re.DOTALL)
_SAVEPOINTS = re.compile(
    rf"(?:(?P<set>SAVEPOINT)|(?P<release>RELEASE)(?:\s+SAVEPOINT)?|"
    rf"(?P<back>ROLLBACK|ABORT)(?:\s+(?:WORK|TRANSACTION))?\s+TO(?:\s+SAVEPOINT)?)\s+(?P<name>{NAME})",
    re.IGNORECASE,
)
_BEGIN = re.compile(
    r"(?:BEGIN(?:\s+(?:WORK|TRANSACTION))?|START\s+TRANSACTION)"
    r"(?:[\s,]+(?:ISOLATION\s+LEVEL\s+(?:SERIALIZABLE|REPEATABLE\s+READ|READ\s+(?:UN)?COMMITTED)|READ\s+ONLY|"
    r"READ\s+WRITE|(?:NOT\s+)?DEFERRABLE))*",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?P<verb>COMMIT|END|ROLLBACK|ABORT)(?:\s+(?:WORK|TRANSACTION))?(?P<chain>\s+AND(?P<no>\s+NO)?\s+CHAIN)?",
    re.IGNORECASE,
)
_SHOW = re.compile(
    rf"SHOW\s+(?P<name>TIME\s+ZONE|TRANSACTION\s+ISOLATION\s+LEVEL|SESSION\s+AUTHORIZATION|{_SETTING})", re.IGNORECASE
)
_RESET = re.compile(rf"RESET\s+(?P<name>TIME\s+ZONE|SESSION\s+AUTHORIZATION|{_SETTING})", re.IGNORECASE)
_EXPLAIN = re.compile(r"EXPLAIN(?:\s+VERBOSE\b|\s*\((?P<options>[^()]*)\))?\s*", re.IGNORECASE)
_EXPLAIN_OPTION = re.compile(r"\s*(?P<name>[A-Z_]+)(?:\s+(?P<value>\w+))?\s*", re.IGNORECASE)
_EXPLAIN_SWITCHES = frozenset({"VERBOSE", "COSTS", "SUMMARY", "SETTINGS", "BUFFERS", "TIMING", "WAL", "GENERIC_PLAN"})
_OFF = frozenset({"false", "off", "0"})
_PREPARE = re.compile(
    rf"PREPARE\s+(?P<name>{NAME})(?:\s*\((?P<types>[^()]*(?:\(\d[\d, ]*\)[^()]*)*)\))?\s*AS\s+(?P<sql>.+)",
    re.IGNORECASE | re.DOTALL,
)
_EXECUTE = re.compile(rf"EXECUTE\s+(?P<name>{NAME})\s*(?:\((?P<values>.*)\))?", re.IGNORECASE | re.DOTALL)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+(?:PREPARE\s+)?(?P<name>{NAME})", re.IGNORECASE)
_NOT_OFFERED = frozenset(
    {
        "ALTER",
        "ANALYZE",
        "ANALYSE",
        "CALL",
        "CHECKPOINT",
        "CLUSTER",
        "COMMENT",
        "CREATE",
        "DELETE",
        "DO",
        "DROP",
        "GRANT",
        "IMPORT",
        "INSERT",
        "LISTEN",
        "LOAD",
        "LOCK",
        "MERGE",
        "NOTIFY",
        "REASSIGN",
        "REFRESH",
        "REINDEX",
        "REVOKE",
        "SECURITY",
        "TRUNCATE",
        "UNLISTEN",
        "UPDATE",
        "VACUUM",
        "ATTACH",
        "DETACH",
        "INSTALL",
        "PRAGMA",
        "USE",
        "EXPORT",
        "DESCRIBE",
    }
)


def split(text: str) -> list[tuple[int, str]]:
    r"""Return the statements of a text, each with where it begins; empty ones are left out.

    >>> split("SELECT ';' -- ;\n; ; SHOW x;")
    [(0, "SELECT ';' -- ;\n"), (20, 'SHOW x')]
    """
    if len(text) > MAX_QUERY_TEXT_CHARS:
        raise too_large(f"The text has {len(text)} characters.", f"Send at most {MAX_QUERY_TEXT_CHARS} at once.")
    found, start = [], 0
    for count, end in enumerate(chain(outside_quotes(text, ";"), (len(text),))):
        if count > MAX_STATEMENTS_PER_TEXT:
            raise too_large("There are too many statements in one text.", f"Send at most {MAX_STATEMENTS_PER_TEXT}.")
        piece = text[start:end]
        blank = BLANK.match(piece)
        begin = blank.end() if blank else 0
        if piece[begin:].strip():
            found.append((start + begin, piece[begin:]))
        start = end + 1
    return found


def read_statement(sql: str) -> Statement:
    """Return what one statement asks for, or refuse it by its first word."""
    text = sql.strip()
    word = WORD.match(text)
    verb = word[0].upper() if word else ""
    if is_question(text):
        return SelectStatement(sql)
    reader = _READERS.get(verb)
    found = reader(text) if reader is not None else None
    if found is not None:
        return found
    if verb in _NOT_OFFERED:
        raise unsupported(f"{verb} is not offered.")
    if reader is not None:
        raise WireError("42601", f"this {verb} cannot be read", "", "Check its spelling.", position=1)
    raise WireError(
        "42601",
        f'syntax error at or near "{_shown_text(text)}"',
        "A statement begins with SELECT, WITH, VALUES, EXPLAIN, SET, SHOW, BEGIN, COMMIT or the like.",
        "Ask with SELECT.",
        position=1,
    )


def _shown_text(text: str) -> str:
    head = text.split(None, 1)[0][:40] if text else ""
    return "".join(letter if letter.isprintable() else "?" for letter in head)


def _setting_name(text: str) -> str:
    words = " ".join(text.split()).lower()
    if words in ("time zone", "transaction isolation level", "session authorization", "names"):
        return {
            "transaction isolation level": "transaction_isolation",
            "session authorization": "session_authorization",
        }.get(words, words)
    return ".".join(name_of(part) for part in re.findall(NAME, text))


def _set(text: str) -> Statement | None:
    if _ISOLATION.fullmatch(text):
        return EmptyStatement("SET")
    if _OWN_ROLE.fullmatch(text):  # as pools do when they take a connection back
        return EmptyStatement("SET")
    if re.fullmatch(r"SET\s+(?:SESSION\s+AUTHORIZATION|ROLE)\b.*", text, re.IGNORECASE | re.DOTALL):
        raise unsupported("The role of a session cannot be changed.", "Connect as another analyst.")
    match = _SET.fullmatch(text)
    if match is None:
        return None
    written = match["value"].strip()
    words = _VALUE.findall(written)
    if not words or re.sub(r"[\s,]", "", _VALUE.sub("", written)):
        return None
    local = (match["scope"] or "").upper() == "LOCAL"
    name = _setting_name(match["name"])
    if len(words) == 1 and words[0].upper() in ("DEFAULT", "LOCAL"):
        return SetTo(name, None, local, "SET")
    return SetTo(name, ", ".join(unquoted(word) for word in words), local, "SET")


def _reset(text: str) -> Statement | None:
    if re.fullmatch(r"RESET\s+(?:SESSION\s+AUTHORIZATION|ROLE)", text, re.IGNORECASE):
        return EmptyStatement("RESET")
    match = _RESET.fullmatch(text)
    if match is None:
        return None
    name = _setting_name(match["name"])
    return ResetAll("RESET") if name == "all" else SetTo(name, None, False, "RESET")


def _show(text: str) -> Statement | None:
    match = _SHOW.fullmatch(text)
    return None if match is None else ShowSetting(_setting_name(match["name"]))


def _discard(text: str) -> Statement | None:
    what = [word.upper() for word in text.split()[1:]]
    if what in (["PLANS"], ["SEQUENCES"]):
        return EmptyStatement(f"DISCARD {what[0]}")
    if what in (["TEMP"], ["TEMPORARY"]):
        return DiscardTemporary("DISCARD TEMP")
    return ResetAll("DISCARD ALL", everything=True) if what == ["ALL"] else None


def _begin(text: str) -> Statement | None:
    if _BEGIN.fullmatch(text) is None:
        return None
    return Begin("START TRANSACTION" if text[:5].upper() == "START" else "BEGIN")


def _end(text: str) -> Statement | None:
    if (saved := _savepoint(text)) is not None:
        return saved
    match = _END.fullmatch(text)
    if match is None:
        return None
    return End(match["verb"].upper() in ("COMMIT", "END"), bool(match["chain"]) and not match["no"])


def _savepoint(text: str) -> Statement | None:
    match = _SAVEPOINTS.fullmatch(text)
    if match is None:
        return None
    verb = "SAVEPOINT" if match["set"] else "RELEASE" if match["release"] else "ROLLBACK"
    return Savepoint(verb, name_of(match["name"]))


def _explain(text: str) -> Statement | None:
    match = _EXPLAIN.match(text)
    if match is None:
        return None
    form = _explain_format(match["options"])
    sql = text[match.end() :]
    word = WORD.match(sql)
    if word is not None and word[0].upper() in ("ANALYZE", "ANALYSE"):
        raise unsupported("EXPLAIN ANALYZE would run the question.", "Use EXPLAIN, which is free, or ask.")
    if not is_question(sql):
        raise unsupported("Only a question has a price.", "EXPLAIN SELECT …")
    return Explain(sql, match.end(), form)


def _explain_format(options: str | None) -> str:
    """Return the format that EXPLAIN is asked for; refuse options that would run the question."""
    form = "text"
    for option in options.split(",") if options is not None else []:
        match = _EXPLAIN_OPTION.fullmatch(option)
        name, value = (match["name"].upper(), (match["value"] or "").lower()) if match else ("", "")
        if name == "FORMAT" and value in EXPLAIN_FORMATS:
            form = value
        elif name in ("ANALYZE", "ANALYSE") and value not in _OFF:
            raise unsupported("EXPLAIN ANALYZE would run the question.", "Use EXPLAIN, which is free, or ask.")
        elif name not in _EXPLAIN_SWITCHES and name not in ("ANALYZE", "ANALYSE"):
            raise unsupported(
                "EXPLAIN takes no such option.", "EXPLAIN SELECT …; it is free, and says the price and the margins."
            )
    return form


def _prepare(text: str) -> Statement | None:
    match = _PREPARE.fullmatch(text)
    if match is None:
        return None
    types = tuple(part.strip().lower() for part in (match["types"] or "").split(",") if part.strip())
    return Prepare(name_of(match["name"]), types, match["sql"])


def _execute(text: str) -> Statement | None:
    match = _EXECUTE.fullmatch(text)
    return None if match is None else ExecutePrepared(name_of(match["name"]), match["values"] or "")


def _deallocate(text: str) -> Statement | None:
    match = _DEALLOCATE.fullmatch(text)
    if match is None:
        return None
    return Deallocate(None if match["name"].upper() == "ALL" else name_of(match["name"]))


def _unlisten(text: str) -> Statement | None:
    return EmptyStatement("UNLISTEN") if text.split()[1:] == ["*"] else None


_READERS = {
    "ABORT": _end,
    "BEGIN": _begin,
    "CLOSE": read_close,
    "COMMIT": _end,
    "COPY": read_copy,
    "CREATE": read_create,
    "DEALLOCATE": _deallocate,
    "DECLARE": read_declare,
    "DISCARD": _discard,
    "DROP": read_drop,
    "END": _end,
    "EXECUTE": _execute,
    "EXPLAIN": _explain,
    "FETCH": read_fetch,
    "MOVE": read_move,
    "PREPARE": _prepare,
    "RELEASE": _savepoint,
    "RESET": _reset,
    "ROLLBACK": _end,
    "SAVEPOINT": _savepoint,
    "SET": _set,
    "SHOW": _show,
    "START": _begin,
    "UNLISTEN": _unlisten,
}
