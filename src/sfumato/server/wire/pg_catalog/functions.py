"""The functions that catalogue queries call; whatever would tell sizes, definitions or other people is a constant."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.compiled import MAX_TEXT_CHARS, Execution, text_too_long
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog
from sfumato.server.wire.settings import SERVER_VERSION
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.values import text_of

VERSION = f"PostgreSQL {SERVER_VERSION}: a differentially private database that speaks PostgreSQL's protocol"
MAX_ARRAY_ITEMS = 100_000
"""Maximum number of items of a list."""
_NUMBERS = (int, float, Decimal)
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*", re.ASCII)

BARE = {
    "CurrentUser": "current_user",
    "SessionUser": "session_user",
    "CurrentSchema": "current_schema",
    "CurrentCatalog": "current_catalog",
    "CurrentRole": "current_role",
    "CurrentDate": "current_date",
    "CurrentTimestamp": "current_timestamp",
    "Localtimestamp": "localtimestamp",
    "CurrentDatabase": "current_database",
}
"""Functions that are called without brackets, as the parser calls them."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function: what it gives, how, and whether a NULL makes it NULL. A type of 0 is that of its first argument."""

    gives: int
    run: Callable[..., Any]
    strict: bool = True
    session: bool = False
    """Whether a query that calls it is about the session, and so goes to the catalogue without naming a table of it."""


def functions(shadow: VirtualCatalog) -> dict[str, Builtin]:
    """Return every function by name; each is given the run, then its arguments."""
    return _SESSION | _TEXTS | _ARRAYS | _constants() | _catalogue(shadow)


def limited(text: str) -> str:
    """Return a text that was made, or refuse one that has grown too long."""
    _check_length(len(text))
    return text


def joined_texts(separator: str, texts: Sequence[str]) -> str:
    """Return texts with a separator between them; a text that would be too long is never made."""
    _check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _check_length(length: int) -> None:
    if length > MAX_TEXT_CHARS:
        raise text_too_long()


def _replace(run: Execution, text: str, old: str, new: str) -> str:
    if not old:
        return text
    count = text.count(old)
    run.spend(count)
    _check_length(len(text) + count * len(new))
    return text.replace(old, new)


def quote_ident(name: str) -> str:
    """Return a name as SQL writes it."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _now(_: Execution) -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _current_setting(run: Execution, name: str, missing: bool = False) -> str | None:
    try:
        return run.facts.settings.get(name)
    except WireError:
        if missing:
            return None
        raise


def _set_config(run: Execution, name: str, value: str | None, local: bool = False) -> str:
    run.facts.settings.set(name, value, bool(local))
    return run.facts.settings.get(name)


_SESSION = {
    "version": Builtin(oids.TEXT, lambda _: VERSION, session=True),
    "current_schema": Builtin(oids.NAME, lambda _: "public", session=True),
    "current_database": Builtin(oids.NAME, lambda run: run.facts.database, session=True),
    "current_catalog": Builtin(oids.NAME, lambda run: run.facts.database, session=True),
    "current_user": Builtin(oids.NAME, lambda run: run.facts.user, session=True),
    "current_role": Builtin(oids.NAME, lambda run: run.facts.user, session=True),
    "session_user": Builtin(oids.NAME, lambda run: run.facts.user, session=True),
    "user": Builtin(oids.NAME, lambda run: run.facts.user, session=True),
    "pg_backend_pid": Builtin(oids.INT4, lambda run: run.facts.process, session=True),
    "inet_server_addr": Builtin(oids.TEXT, lambda run: run.facts.host, session=True),
    "inet_server_port": Builtin(oids.INT4, lambda run: run.facts.port, session=True),
    "inet_client_addr": Builtin(oids.TEXT, lambda _: None, session=True),
    "inet_client_port": Builtin(oids.INT4, lambda _: None, session=True),
    "current_setting": Builtin(oids.TEXT, _current_setting, session=True),
    "set_config": Builtin(oids.TEXT, _set_config, strict=False, session=True),
    "pg_is_in_recovery": Builtin(oids.BOOL, lambda _: False, session=True),
    "now": Builtin(oids.TIMESTAMPTZ, _now, session=True),
    "current_timestamp": Builtin(oids.TIMESTAMPTZ, _now, session=True),
    "transaction_timestamp": Builtin(oids.TIMESTAMPTZ, _now, session=True),
    "statement_timestamp": Builtin(oids.TIMESTAMPTZ, _now, session=True),
    "clock_timestamp": Builtin(oids.TIMESTAMPTZ, _now, session=True),
    "localtimestamp": Builtin(oids.TIMESTAMP, _now, session=True),
    "current_date": Builtin(oids.DATE, lambda run: _now(run).date(), session=True),
    "pg_postmaster_start_time": Builtin(oids.TIMESTAMPTZ, lambda _: None, session=True),
    "pg_advisory_unlock_all": Builtin(oids.VOID, lambda _: "", session=True),
    "pg_encoding_to_char": Builtin(oids.NAME, lambda _, number: "UTF8" if number == 6 else "", session=True),
    "pg_char_to_encoding": Builtin(
        oids.INT4, lambda _, name: 6 if name.upper() in ("UTF8", "UTF-8") else -1, session=True
    ),
    "pg_client_encoding": Builtin(oids.NAME, lambda _: "UTF8", session=True),
}


def _concat_ws(_: Execution, separator: str | None, *parts: Any) -> str | None:
    if separator is None:
        return None
    return joined_texts(separator, [_as_text(part) for part in parts if part is not None])


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else (text_of(value, 0) or b"").decode()


_DIRECTIVE = re.compile(r"%([%sIL])?")


def _format(_: Execution, pattern: str | None, *parts: Any) -> str | None:
    """PostgreSQL's format with %s, %I, %L and %%."""
    if pattern is None:
        return None
    rest, made = list(parts), []
    for at, piece in enumerate(_DIRECTIVE.split(pattern)):
        if at % 2 == 0 or piece == "%":
            made.append(piece)
            continue
        if piece is None:
            raise WireError("22023", "unrecognized format() type specifier")
        if not rest:
            raise WireError("22023", "too few arguments for format()")
        made.append(_format_directive(piece, rest.pop(0)))
    return joined_texts("", made)


def _format_directive(directive: str, value: Any) -> str:
    if value is None:
        if directive == "I":
            raise WireError("22004", "null values cannot be formatted as an SQL identifier")
        return "NULL" if directive == "L" else ""
    text = _as_text(value)
    if directive == "s":
        return text
    return quote_ident(text) if directive == "I" else "'" + text.replace("'", "''") + "'"


def _split(run: Execution, text: str, separator: str) -> list[str]:
    run.spend(1 + text.count(separator) if separator else 1)
    return text.split(separator) if separator else [text]


def _split_part(run: Execution, text: str, separator: str, number: int) -> str:
    parts = _split(run, text, separator)
    return parts[number - 1] if 1 <= number <= len(parts) else ""


def _substring(_: Execution, text: str, start: int = 1, length: int | None = None) -> str:
    end = None if length is None else max(start - 1 + max(length, 0), 0)
    return text[max(start - 1, 0) : end]


def _trim_function(strip: Callable[[str, str], str]) -> Callable[..., str]:
    def trimmed(run: Execution, text: str, chars: str = " ") -> str:
        distinct = "".join(set(chars))  # each letter of the text is looked up among them
        run.spend(len(chars) + len(text) * len(distinct) // 16)
        return strip(text, distinct)

    return trimmed


def _mod(_: Execution, value: Any, by: Any) -> Any:
    if any(not isinstance(argument, _NUMBERS) for argument in (value, by)):
        raise TypeError  # Python would format a text
    return value % by if by else None


def _round(_: Execution, value: Any, digits: int = 0) -> Any:
    return round(Decimal(str(value)), max(-20, min(digits, 20))) if digits else Decimal(round(value))


_TEXTS = {
    "lower": Builtin(oids.TEXT, lambda _, text: text.lower()),
    "upper": Builtin(oids.TEXT, lambda _, text: text.upper()),
    "length": Builtin(oids.INT4, lambda _, text: len(text)),
    "char_length": Builtin(oids.INT4, lambda _, text: len(text)),
    "octet_length": Builtin(oids.INT4, lambda _, text: len(text.encode())),
    "replace": Builtin(oids.TEXT, _replace),
    "concat": Builtin(oids.TEXT, lambda run, *parts: _concat_ws(run, "", *parts), strict=False),
    "concat_ws": Builtin(oids.TEXT, _concat_ws, strict=False),
    "format": Builtin(oids.TEXT, _format, strict=False),
    "btrim": Builtin(oids.TEXT, _trim_function(str.strip)),
    "trim": Builtin(oids.TEXT, _trim_function(str.strip)),
    "ltrim": Builtin(oids.TEXT, _trim_function(str.lstrip)),
    "rtrim": Builtin(oids.TEXT, _trim_function(str.rstrip)),
    "split_part": Builtin(oids.TEXT, _split_part),
    "substring": Builtin(oids.TEXT, _substring),
    "substr": Builtin(oids.TEXT, _substring),
    "left": Builtin(oids.TEXT, lambda _, text, count: text[:count]),
    "right": Builtin(
        oids.TEXT, lambda _, text, count: text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]
    ),
    "strpos": Builtin(oids.INT4, lambda _, text, part: text.find(part) + 1),
    "position": Builtin(oids.INT4, lambda _, text, part: text.find(part) + 1),
    "starts_with": Builtin(oids.BOOL, lambda _, text, part: text.startswith(part)),
    "quote_ident": Builtin(oids.TEXT, lambda _, name: quote_ident(name)),
    "quote_literal": Builtin(oids.TEXT, lambda _, value: "'" + _as_text(value).replace("'", "''") + "'"),
    "abs": Builtin(0, lambda _, value: abs(value)),
    "floor": Builtin(0, lambda _, value: value // 1),
    "mod": Builtin(0, _mod),
    "round": Builtin(oids.NUMERIC, _round),
    "to_char": Builtin(oids.TEXT, lambda _, value, _form: _as_text(value)),
}


_IDENTIFIER = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*(?:\.|$)')


def _parse_ident(run: Execution, text: str, _strict: bool = True) -> list[str]:
    """Return the parts of a name that is qualified by schemas."""
    run.spend(len(text))
    parts: list[str] = []
    at = 0
    while at < len(text) or not parts:
        found = _IDENTIFIER.match(text, at)
        if found is None:
            raise WireError("22023", "string is not a valid identifier")
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2].lower())
        at = found.end()
    return parts


def _array_to_string(_: Execution, values: Any, separator: str, null: str | None = None) -> str | None:
    if values is None or separator is None:
        return None
    if not isinstance(values, list):
        raise TypeError
    texts = [null if item is None else _as_text(item) for item in values]
    return joined_texts(separator, [text for text in texts if text is not None])


def _characters(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_characters, value)) + len(value)
    return len(value) if isinstance(value, str) else 1


def _upper(_: Execution, values: list[Any], dimension: int = 1) -> int | None:
    return len(values) if values and dimension == 1 else None


def _json_object(run: Execution, *parts: Any) -> str:
    """Return names and values, in turn, as the text of a JSON object; one that would be too long is never made."""
    size = sum(map(_characters, parts))
    run.spend(size)
    _check_length(size)
    names = [_as_text(name) for name in parts[0::2]]
    plain = (bool, int, float, str, list)
    values = [value if value is None or isinstance(value, plain) else _as_text(value) for value in parts[1::2]]
    return limited(json.dumps(dict(zip(names, values, strict=True))))


_ARRAYS = {
    "json_build_object": Builtin(oids.JSON, _json_object, strict=False),
    "jsonb_build_object": Builtin(oids.JSONB, _json_object, strict=False),
    "array_to_string": Builtin(oids.TEXT, _array_to_string, strict=False),
    "parse_ident": Builtin(oids.ARRAYS[oids.TEXT], _parse_ident),
    "string_to_array": Builtin(oids.ARRAYS[oids.TEXT], _split),
    "array_length": Builtin(oids.INT4, _upper),
    "array_upper": Builtin(oids.INT4, _upper),
    "array_lower": Builtin(oids.INT4, lambda _, values, dimension=1: 1 if values and dimension == 1 else None),
    "array_ndims": Builtin(oids.INT4, lambda _, values: 1 if values else None),
    "cardinality": Builtin(oids.INT4, lambda _, values: len(values)),
    "array_position": Builtin(oids.INT4, lambda _, values, item: values.index(item) + 1 if item in values else None),
    "array_append": Builtin(0, lambda _, values, item: [*(values or [])[:MAX_ARRAY_ITEMS], item], strict=False),
    "array_cat": Builtin(0, lambda _, first, other: [*(first or []), *(other or [])][:MAX_ARRAY_ITEMS], strict=False),
    "array_remove": Builtin(0, lambda _, values, item: [value for value in values if value != item]),
}


def _constants() -> dict[str, Builtin]:
    """Return the functions whose answer never differs: sizes, definitions and statistics say nothing here."""
    nothing = (
        "pg_get_expr pg_get_constraintdef pg_get_indexdef pg_get_functiondef pg_get_ruledef "
        "pg_get_triggerdef pg_get_partkeydef pg_get_serial_sequence pg_get_function_result pg_get_function_arguments "
        "pg_get_function_identity_arguments pg_get_statisticsobjdef pg_get_statisticsobjdef_columns "
        "pg_get_function_sqlbody pg_get_partition_constraintdef shobj_description"
    )
    zero = (
        "pg_relation_size pg_table_size pg_total_relation_size pg_indexes_size pg_database_size pg_tablespace_size "
        "pg_stat_get_numscans pg_stat_get_live_tuples pg_stat_get_dead_tuples pg_stat_get_tuples_inserted "
        "pg_stat_get_tuples_updated pg_stat_get_tuples_deleted"
    )
    true = (
        "pg_type_is_visible pg_function_is_visible pg_operator_is_visible pg_opclass_is_visible "
        "pg_opfamily_is_visible pg_collation_is_visible pg_conversion_is_visible pg_statistics_obj_is_visible "
        "pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible"
    )
    false = (
        "pg_relation_is_publishable pg_is_other_temp_schema pg_relation_is_updatable pg_column_is_updatable "
        "pg_is_wal_replay_paused"
    )
    made = {name: Builtin(oids.TEXT, lambda _, *_values: None, strict=False) for name in nothing.split()}
    made |= {name: Builtin(oids.INT8, lambda _, *_values: 0) for name in zero.split()}
    made |= {name: Builtin(oids.BOOL, lambda _, *_values: True) for name in true.split()}
    made |= {name: Builtin(oids.BOOL, lambda _, *_values: False) for name in false.split()}
    return made | {
        "pg_size_pretty": Builtin(oids.TEXT, lambda _, size: f"{size} bytes"),
        "pg_tablespace_location": Builtin(oids.TEXT, lambda _, _number: ""),
        "pg_describe_object": Builtin(oids.TEXT, lambda _, *_values: None),
        "_pg_expandarray": Builtin(oids.INT4, lambda _, *_values: None),
    }


def _privilege(wanted: str) -> Callable[..., bool]:
    """Return a check that is the same for every role: tables can be read, and nothing can be written."""

    def allowed(_: Execution, *values: Any) -> bool:
        asked = str(values[-1]).upper() if values else ""
        return all(part.strip() == wanted for part in asked.split(","))

    return allowed


def _catalogue(shadow: VirtualCatalog) -> dict[str, Builtin]:
    def described(_: Execution, number: int, _catalogue: str = "") -> str | None:
        return shadow.descriptions.get((number, 0))

    def format_type(_: Execution, number: int | None, _modifier: int | None = None) -> str | None:
        return None if number is None else shadow.type_names.get(number, "???")

    def user_of(run: Execution, number: int) -> str:
        return run.facts.user if number == shadow.user else "owner"

    def typed(_: Execution, name: str) -> int | None:
        return shadow.number(oids.REGTYPE, name)

    def schemas(_: Execution, implicit: bool) -> list[str]:
        implied = [] if shadow.temporary is None else [shadow.temporary[1]]
        return [*implied, "pg_catalog", "public"] if implicit else ["public"]

    def view_definition(_: Execution, view: int | str | None, *_pretty: object) -> str | None:
        number = shadow.number(oids.REGCLASS, view) if isinstance(view, str) else view
        return None if number is None else shadow.definitions.get(number)

    return {
        "current_schemas": Builtin(oids.ARRAYS[oids.NAME], schemas, session=True),
        "pg_my_temp_schema": Builtin(oids.OID, lambda _: (shadow.temporary or (0, ""))[0], session=True),
        "pg_get_viewdef": Builtin(oids.TEXT, view_definition, strict=False),
        "format_type": Builtin(oids.TEXT, format_type, strict=False),
        "pg_table_is_visible": Builtin(oids.BOOL, lambda _, number: shadow.is_visible(number)),
        "obj_description": Builtin(oids.TEXT, described),
        "col_description": Builtin(oids.TEXT, lambda _, table, column: shadow.descriptions.get((table, column))),
        "pg_get_userbyid": Builtin(oids.NAME, user_of),
        "has_table_privilege": Builtin(oids.BOOL, _privilege("SELECT")),
        "has_column_privilege": Builtin(oids.BOOL, _privilege("SELECT")),
        "has_any_column_privilege": Builtin(oids.BOOL, _privilege("SELECT")),
        "has_schema_privilege": Builtin(oids.BOOL, _privilege("USAGE")),
        "has_database_privilege": Builtin(oids.BOOL, _privilege("CONNECT")),
        "has_function_privilege": Builtin(oids.BOOL, _privilege("EXECUTE")),
        "has_sequence_privilege": Builtin(oids.BOOL, lambda _, *_values: False),
        "has_type_privilege": Builtin(oids.BOOL, _privilege("USAGE")),
        "pg_has_role": Builtin(oids.BOOL, lambda _, *_values: True),
        "to_regclass": Builtin(oids.REGCLASS, lambda _, name: shadow.number(oids.REGCLASS, name)),
        "to_regtype": Builtin(oids.REGTYPE, typed),
        "to_regnamespace": Builtin(oids.REGNAMESPACE, lambda _, name: shadow.number(oids.REGNAMESPACE, name)),
        "to_regproc": Builtin(oids.REGPROC, lambda _, _name: None),
    }
