"""COPY … TO STDOUT: the question it asks, and how its rows are written."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from sfumato.engines.sql.builder import select
from sfumato.server.wire.sql_words import BLANK, NAME, closing_bracket, is_question, name_of
from sfumato.server.wire.sqlstates import WireError, unsupported


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """How rows are written."""

    kind: Literal["text", "csv", "binary"] = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    force_quote: frozenset[str] | None = frozenset()
    """Columns whose values are always quoted; None for all."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The rows of a question as a stream."""

    sql: str
    offset: int
    """Where the question begins in the statement."""
    format: CopyFormat = field(default_factory=CopyFormat)


_COPY = re.compile(r"COPY\s*(?=\()|COPY\s+", re.IGNORECASE)
_TABLE = re.compile(rf"(?P<table>{NAME}(?:\s*\.\s*{NAME}){{0,2}})\s*(?P<columns>\([^()]*\))?", re.IGNORECASE)
_TO = re.compile(r"\s*TO\s+(?P<target>STDOUT\b|PROGRAM\b|'(?:[^']|'')*'|\S+)\s*(?:WITH\b\s*)?", re.IGNORECASE)
_OPTION = re.compile(
    r"\s*(?:(?P<escaped>[Ee]'(?:[^'\\]|''|\\.)*')|(?P<text>'(?:[^']|'')*')|(?P<name>\"(?:[^\"]|\"\")+\")|"
    r"(?P<word>[A-Za-z_][\w$-]*)|(?P<mark>[(),*]))",
    re.DOTALL,
)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_TRUE, _FALSE = frozenset({"true", "on", "1"}), frozenset({"false", "off", "0"})
_Token = tuple[str, str]
"""The kind of a word (text, name, word, mark), and its value."""


def read_copy(text: str) -> Copy | None:
    """Return what a COPY writes; only questions and tables are written, and only to the client."""
    match = _COPY.match(text)
    if match is None:
        return None
    source = text[match.end() :]
    offset = match.end()
    if source.startswith("("):
        end = closing_bracket(source)
        if end is None:
            return None
        blank = BLANK.match(source, 1)
        begin = blank.end() if blank else 1
        sql, rest, offset = source[begin:end], source[end + 1 :], offset + begin
        if not is_question(sql):
            raise unsupported("COPY writes the rows of questions.", "COPY (SELECT …) TO STDOUT;")
    else:
        named = _TABLE.match(source)
        if named is None:
            return None
        columns = (named["columns"] or "(*)")[1:-1]
        sql = select(columns, named["table"])  # it is parsed as any question is
        rest, offset = source[named.end() :], 0
    to = _TO.match(rest)
    if to is None:
        if re.match(r"\s*FROM\b", rest, re.IGNORECASE):
            raise unsupported("COPY FROM is not offered.", "COPY (SELECT …) TO STDOUT;")
        return None
    if to["target"].upper() != "STDOUT":
        raise unsupported("COPY writes to the client alone.", "COPY (SELECT …) TO STDOUT;")
    return Copy(sql, offset, _copy_format(_read_options(_tokens(rest[to.end() :]))))


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _OPTION.match(text, position)
        if match is None:
            raise _unreadable(text[position:].strip()[:40])
        position = match.end()
        if match["escaped"]:
            found.append(("text", _unescape(match["escaped"][2:-1])))
        elif match["text"]:
            found.append(("text", match["text"][1:-1].replace("''", "'")))
        elif match["name"]:
            found.append(("name", name_of(match["name"])))
        elif match["word"]:
            found.append(("word", match["word"].lower()))
        else:
            found.append(("mark", match["mark"]))
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)|''", lambda part: _ESCAPES.get(part[1], part[1]) if part[1] else "'", text, flags=re.DOTALL)


def _read_options(tokens: list[_Token]) -> dict[str, object]:
    """Read options in brackets, or in the form without brackets that older clients send."""
    if tokens[:1] == [("mark", "(")]:
        if tokens[-1] != ("mark", ")"):
            raise _unreadable("(")
        return _read_brackets(tokens[1:-1])
    options: dict[str, object] = {}
    rest = iter(tokens)
    for _, word in rest:
        match word:
            case "csv" | "binary":
                options["format"] = word
            case "header":
                options["header"] = True
            case "delimiter" | "null" | "quote" | "escape":
                kind, value = next(rest, ("", ""))
                kind, value = next(rest, ("", "")) if (kind, value) == ("word", "as") else (kind, value)
                if kind != "text":
                    raise _unreadable(word)
                options[word] = value
            case "force":
                if next(rest, None) != ("word", "quote"):
                    raise _unreadable(word)
                options["force_quote"] = _columns(list(rest))
            case _:
                raise _unreadable(word)
    return options


def _read_brackets(tokens: list[_Token]) -> dict[str, object]:
    options: dict[str, object] = {}
    part: list[_Token] = []
    depth = 0
    for token in [*tokens, ("mark", ",")]:
        if token == ("mark", ",") and not depth:
            if not part:
                raise _unreadable(",")
            options[part[0][1]] = _value(part[0][1], part[1:])
            part = []
            continue
        depth += {"(": 1, ")": -1}.get(token[1], 0) if token[0] == "mark" else 0
        part.append(token)
    return options


def _value(name: str, tokens: list[_Token]) -> object:
    match name, tokens:
        case "header", []:
            return True
        case "header", [(_, word)] if word.lower() in _TRUE | _FALSE:
            return word.lower() in _TRUE
        case "force_quote", _:
            return _columns([token for token in tokens if token not in (("mark", "("), ("mark", ")"))])
        case "format" | "delimiter" | "null" | "quote" | "escape" | "encoding", [(_, value)]:
            return value.lower() if name == "format" else value
    raise _unreadable(name)


def _columns(tokens: list[_Token]) -> frozenset[str] | None:
    if tokens == [("mark", "*")]:
        return None
    return frozenset(value for kind, value in tokens if kind != "mark")


def _copy_format(options: dict[str, object]) -> CopyFormat:
    """Return the format that options describe, with PostgreSQL's defaults."""
    if str(options.pop("encoding", "utf8")).lower().replace("-", "").replace("_", "") not in ("utf8", "unicode"):
        raise WireError("22023", "COPY writes UTF-8.", "Texts are UTF-8.", "Leave out ENCODING.")
    kind = options.pop("format", "text")
    if kind not in ("text", "csv", "binary"):
        raise WireError("22023", f'COPY format "{str(kind)[:40]}" not recognized', "", "Use text, csv or binary.")
    if kind == "binary" and options:
        raise WireError("42601", "cannot specify options in BINARY mode", "", "Leave them out.")
    csv_only = {"quote", "escape", "force_quote"} & options.keys()
    if kind != "csv" and csv_only:
        raise WireError("0A000", f"COPY {sorted(csv_only)[0].upper()} available only in CSV mode", "", "FORMAT csv")
    defaults: dict[str, object] = {"delimiter": ",", "null": ""} if kind == "csv" else {}
    if "quote" in options and "escape" not in options:
        defaults["escape"] = options["quote"]
    made = replace(CopyFormat(), kind=kind, **(defaults | options))  # type: ignore[arg-type]
    single = {"delimiter": made.delimiter, "quote": made.quote, "escape": made.escape}
    for name, value in single.items():
        if len(value) != 1 or value in "\r\n" or not value.isascii():
            raise WireError("0A000", f"COPY {name} must be a single one-byte character", "", "Give one character.")
    if made.delimiter == made.quote and kind == "csv":
        raise WireError("22023", "COPY delimiter and quote must be different", "", "Choose another delimiter.")
    if kind == "text" and (made.delimiter.isalnum() or made.delimiter in "\\."):
        raise WireError("22023", f'COPY delimiter cannot be "{made.delimiter}"', "", "Choose another delimiter.")
    if "\r" in made.null or "\n" in made.null:
        raise WireError("22023", "COPY null representation cannot use newline or carriage return")
    return made


def _unreadable(word: str) -> WireError:
    shown = "".join(letter if letter.isprintable() else "?" for letter in word)
    return WireError(
        "42601",
        f'syntax error at or near "{shown}"',
        "Options of COPY are FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, FORCE_QUOTE and ENCODING.",
        "COPY (SELECT …) TO STDOUT WITH (FORMAT csv, HEADER);",
    )
