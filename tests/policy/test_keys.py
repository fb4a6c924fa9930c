"""The table of keys drives the reader, the data classes, the documentation and the JSON Schema; they all agree."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import MISSING, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from tests.policy.broken import BROKEN, Edit
from tests.policy.examples import CLINIC, EVERYTHING

from sfumato.cli import main
from sfumato.errors import BadPolicy
from sfumato.policy.account_keys import ANALYST, BUDGET, ROLE
from sfumato.policy.canonical import hashed_lines
from sfumato.policy.engine_keys import ENGINE
from sfumato.policy.entry import Entry
from sfumato.policy.identity_keys import IDENTITY
from sfumato.policy.keys import CSV, KEYS, POLICY, SEALED
from sfumato.policy.kinds import (
    Default,
    Flag,
    NamedTables,
    PolicyKey,
    Required,
    Section,
    WholeNumber,
    is_complete,
    key_schema,
)
from sfumato.policy.policy import Analyst, Budget, Column, CsvFormat, EngineSettings, Policy, Role, Sealing, Table
from sfumato.policy.reading import read_policy
from sfumato.policy.schema import policy_schema
from sfumato.policy.server_keys import SERVER
from sfumato.policy.server_settings import Identity, ServerSettings
from sfumato.policy.table_keys import COLUMN, TABLE


def _default_words(key: PolicyKey) -> str:
    """Return the default in words, for the documentation."""
    match key.default:
        case Required():
            return "required"
        case Default(_, words) if words:
            return words
        case Default(bool() as value):
            return str(value).lower()
        case Default(int() as value):
            return f"{value:,}"
        case Default(str() as value):
            return f'`"{value}"`'
    return "none"


class Text(ast.Constant):
    """A literal text of a program."""

    value: str


ROOT = Path(__file__).resolve().parents[2]
SCHEMA = Draft202012Validator(policy_schema())
SECTIONS: dict[str, tuple[Section, type]] = {
    "": (POLICY, Policy),
    "budget": (BUDGET, Budget),
    "csv": (CSV, CsvFormat),
    "server": (SERVER, ServerSettings),
    "identity": (IDENTITY, Identity),
    "engine": (ENGINE, EngineSettings),
    "sealed": (SEALED, Sealing),
    "tables.TABLE": (TABLE, Table),
    "tables.TABLE.columns.COLUMN": (COLUMN, Column),
    "analysts.ANALYST": (ANALYST, Analyst),
    "roles.ROLE": (ROLE, Role),
}
SEALED_POLICY: dict[str, Any] = {
    "sealed": {"key": "file:/k/c.key", "store": "duckdb:/s/c.duckdb", "epsilon": 1, "delta": 1e-9}
    | {"integrity": 32, "accept_leak": True},
    "budget": {"epsilon": 3, "delta": 0},
    "tables": {
        "joined": {"unit": "who", "rows_per_unit": 2, "cells": ["sex"], "measures": ["cost"], "squares": ["cost"]}
        | {"nulls": ["cost"], "capacity": 1000}
        | {
            "columns": {
                "who": {"type": "integer", "join": "deterministic"},
                "sex": {"type": "text", "values": ["f", "m"]},
                "cost": {"type": "integer", "bounds": [0, 9]},
            }
        },
        "apart": {"unit": "rows", "splayed": ["urgent"], "columns": {"urgent": {"type": "boolean"}}},
    },
}
CSV_POLICY: dict[str, Any] = {
    "source": "csv:/data",
    "csv": {
        "delimiter": ";",
        "encoding": "latin-1",
        "decimal": ",",
        "null": ["NA"],
        "thousands": ".",
        "symbols": ["%"],
        "true": ["ja"],
        "false": ["nein"],
    },
    "server": {"http_port": 8080, "pg_port": 5434, "public_url": "https://db.example/", "trusted_proxies": ["10.0.0.1"]}
    | dict.fromkeys(SERVER.names[4:], 64),
    "refresh": "on-change",
    "cohort": 'first(visits.day, "year")',
    "padding": "250ms",
    "answers": "shared",
    "preview": "synthetic",
    "roles": {
        "reader": {"tables": ["visits"], "columns": ["cost"], "epsilon": 1, "delta": 0, "price": 1} | {"every": "day"}
    },
    "owners": ["vera"],
    "identity": {
        "issuer": "https://a.example/",
        "audience": "b",
        "analyst": "claims.sub",
        "client_id": "c",
        "roles": "claims.groups",
    },
    "engine": {"memory": "4GB", "threads": 2, "temp": "spill"},
    "analysts": {"anna": {"roles": ["reader"], "every": "month", "cohorts": "together"}},
    "budget": {"epsilon": 3, "delta": "1e-6", "truncation": 0.1, "charges": 10}
    | {"every": "year", "lifetime": "unlimited"},
    "tables": {
        "visits": {
            "from": "Besuche",
            "unit": "who",
            "rows_per_unit": 20,
            "columns": {
                "who": {"type": "text", "length": 20},
                "day": {"type": "date", "format": "%d/%m/%Y", "bounds": ["2020-01-01", "2030-12-31"]},
                "cost": {"type": "integer", "bounds": [0, 10], "total_per_unit": 40},
                "fee": {"type": "integer", "bounds": {"within": [0, 9], "choose": "private"}},
            },
        },
        "stays": {
            "unit": "who",
            "rows_per_unit": {"most": 9, "choose": "private"},
            "columns": {"who": {"type": "text"}},
        },
    },
}
LOCATIONS = {"source": "csv:/data", "ledger": "sqlite:/ledger"}
"""What stands for the paths and frames of programs."""
READER_ALONE = frozenset(
    {
        # of another key, table or file
        *("length of a number", "a key longer than length", "no step", "no step for keys", "no rows per unit"),
        *("query delta too large", "query delta without delta", "private without unit", "unit misspelt"),
        *("unit a decimal", "unit rows many", "unit rows and column", "unit in no table", "unit in no column"),
        *("unit from no column", "unit of a path to itself", "unit of unequal types", "public with unit"),
        *("public with rows", "bounds reversed", "bounds of text", "bounds of booleans", "bounds of half an integer"),
        *("bounds in words", "bounds beyond 64 bits", "a date as text", "a timestamp for a date"),
        *("a date for a timestamp", "an offset", "bounds off the grid", "high off the grid", "step of an integer"),
        *("values of another type", "values of integers in quotes", "values outside", "values off the grid"),
        *("values of no table", "values of a private table", "columns alike", "tables alike", "analysts alike"),
        # of characters and numbers that JSON does not have
        *("values with NUL", "epsilon nan"),
    }
)
"""Broken policies whose mistake lies between two keys, or in what JSON cannot say."""


def _json(value: object) -> Any:
    """Return a policy as an editor hands it to a schema: dates are texts."""
    match value:
        case dict():
            return {str(key): _json(element) for key, element in value.items()}
        case list() | tuple():
            return [_json(element) for element in value]
        case date():
            return value.isoformat()
    return value


def _examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every policy that a page or an example writes out, as TOML or as a literal dict."""
    yield "clinic", tomllib.loads(CLINIC)
    yield "everything", EVERYTHING
    for page in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]:
        if page.parent.name == "refusals":  # they show policies that are refused
            continue
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```toml[^\n]*\n(.*?)```", text, re.DOTALL):
            if "[budget]" in block and "[tables." in block:
                yield page.stem, tomllib.loads(block)
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            yield from ((page.stem, policy) for policy in _literals(_code(block)))
    for file in sorted((ROOT / "examples").glob("*.py")):
        yield from ((file.stem, policy) for policy in _literals(file.read_text(encoding="utf-8")))


def _code(block: str) -> str:
    """Return a block of code without the prompts and the output of a session."""
    lines = re.findall(r"(?m)^(?:>>>|\.\.\.) ?(.*)$", block)
    return "\n".join(lines) if ">>>" in block else block


def _literals(code: str) -> Iterator[dict[str, Any]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Dict):
            items = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if _is_text(key)}
            with suppress(ValueError):  # a name, whose value only a run knows
                policy = {key: ast.literal_eval(value) for key, value in items.items() if key not in LOCATIONS}
                if {"budget", "tables"} <= set(policy):
                    yield policy | {key: LOCATIONS[key] for key in items if key in LOCATIONS}
        elif _is_text(node) and "\n[tables." in node.value:
            policy = tomllib.loads(node.value)
            if "budget" in policy:
                yield policy


def _is_text(node: ast.AST | None) -> TypeGuard[Text]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


POLICIES = list(_examples())


def test_the_table_of_the_documentation_is_the_table_of_keys() -> None:
    page = (ROOT / "docs" / "policy" / "index.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^\| \[`.*$", page)
    assert lines == [_line(path, key) for path, key in KEYS.items()]


def _line(path: str, key: PolicyKey) -> str:
    section = path.rpartition(".")[0]
    file = "columns" if "COLUMN" in section else section.partition(".")[0] or "dataset"
    anchor = path.replace(".", "").lower()
    return f"| [`{path}`]({file}.md#{anchor}) | {key.kind.words} | {_default_words(key)} |"


@pytest.mark.parametrize("path", KEYS)
def test_the_documented_examples_of_a_key_are_read_and_match_its_schema(path: str) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "policy").glob("*.md")))
    text = pages.split(f"\n## `{path}`\n", 1)[1].split("\n## ", 1)[0]
    key, count = KEYS[path], 0
    for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        for value in _at(tomllib.loads(block), path.split(".")):
            key.kind.read(Entry(value))
            assert list(Draft202012Validator(key_schema(key)).iter_errors(_json(value))) == []
            count += 1
    assert count


def _at(table: Any, path: list[str]) -> Iterator[Any]:
    """Give what stands at a path, for every name that stands for TABLE, COLUMN or ANALYST."""
    if not path:
        yield table
    elif path[0].isupper():
        for below in table.values():
            yield from _at(below, path[1:])
    elif path[0] in table:
        yield from _at(table[path[0]], path[1:])


def test_every_key_is_used_by_a_policy_that_reader_and_schema_accept() -> None:
    used: set[str] = set()
    for policy in (EVERYTHING, SEALED_POLICY, CSV_POLICY):
        read_policy({"ledger": "sqlite:/l/c.ledger", **policy})
        assert [error.message for error in SCHEMA.iter_errors(_json(policy))] == []
        used |= {path for path in KEYS if [*_at(policy, path.split("."))]}
    assert used == set(KEYS)


@pytest.mark.parametrize(("name", "policy"), POLICIES, ids=[name for name, _ in POLICIES])
def test_every_example_policy_matches_the_schema(name: str, policy: dict[str, Any]) -> None:
    assert [error.message for error in SCHEMA.iter_errors(_json(policy))] == []


def test_there_are_examples_in_pages_and_in_programs() -> None:
    names = {name for name, _ in POLICIES}
    assert {"index", "sealed", "ask_a_question"} <= names
    assert len(POLICIES) > 12


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name, edit, _ in BROKEN], ids=[one[0] for one in BROKEN])
def test_the_schema_refuses_what_is_broken_by_shape(name: str, edit: Edit) -> None:
    try:
        policy = tomllib.loads(CLINIC.replace(*edit))
    except (ValueError, ArithmeticError, RecursionError):
        return
    assert SCHEMA.is_valid(_json(policy)) == (name in READER_ALONE)


@pytest.mark.parametrize("path", KEYS)
def test_reader_and_schema_refuse_a_key_of_a_wrong_type_and_a_misspelt_key(path: str) -> None:
    *way, last = path.split(".")
    mistakes: tuple[dict[str, object], ...] = ({last: [[{}]]}, {last + "s_": 1})
    for wrong in mistakes:
        policy = deepcopy(EVERYTHING if way[:1] != ["sealed"] else SEALED_POLICY)
        if way[:1] == ["csv"]:
            policy |= {"source": "csv:/data", "csv": {}}
        if way[:1] == ["server"]:
            policy |= {"server": {}}
        if way[:1] == ["engine"]:
            policy |= {"engine": {}}
        if way[:1] == ["identity"]:
            policy |= {"identity": {"issuer": "https://a.example/", "audience": "b"}}
        if way[:1] == ["roles"]:
            policy |= {"roles": {"reader": {}}}
        node = policy
        for part in way:
            node = node[
                {"TABLE": "lineitem", "COLUMN": "l_price", "ANALYST": "press", "ROLE": "reader"}.get(part, part)
            ]
        assert SCHEMA.is_valid(_json(policy))
        node |= wrong
        assert not SCHEMA.is_valid(_json(policy))
        advice = last if last in wrong else f"Did you mean {last}?"
        with pytest.raises(BadPolicy, match=re.escape(advice)):
            read_policy(policy)


@pytest.mark.parametrize(("section", "holder"), SECTIONS.values(), ids=SECTIONS)
def test_a_key_is_a_field_of_its_data_class_with_the_same_default(section: Section, holder: type) -> None:
    declared = {field.name: field.default for field in fields(holder)}
    apart = {"public", "capacity"}  # said by the unit, and by the sealed part of a table
    for key in section.keys:
        if is_complete(key.kind) and key.name not in apart:
            assert key.target in declared, key.name
            default = declared[key.target]
            if default is not MISSING:
                assert isinstance(key.default, Default)
                assert key.default.value == default, key.name


def test_every_section_is_reached_and_described() -> None:
    sections = {path.rpartition(".")[0] for path in KEYS}
    assert sections == set(SECTIONS)
    for path, (section, _) in SECTIONS.items():
        assert [f"{path}.{name}".lstrip(".") for name in section.names] == [
            key for key in KEYS if key.rpartition(".")[0] == path
        ]
    for path, key in KEYS.items():
        assert re.fullmatch(r"[A-Z].*\.", key.description), path
        assert isinstance(key.kind, NamedTables | Section) or key.kind.words, path


@dataclass(frozen=True)
class Threads:
    """What a new section of a policy would hold."""

    most: int = 2
    wait: bool = False


def test_a_new_key_needs_its_declaration_and_its_field() -> None:
    most = PolicyKey("most", WholeNumber(8), Default(2), "The maximum number of threads.")
    section = Section((most, PolicyKey("wait", Flag(), Default(False), "Whether to wait.")), into=Threads)
    assert section.read(Entry({})) == Threads()
    assert section.read(Entry({"most": 3})) == Threads(3)
    with pytest.raises(BadPolicy, match=re.escape("Did you mean most?")):
        section.read(Entry({"moost": 3}))
    with pytest.raises(BadPolicy, match="whole number from 1 to 8"):
        section.read(Entry({"most": 9}))
    assert [path for path, _ in section.walk("threads.")] == ["threads.most", "threads.wait"]
    validator = Draft202012Validator(section.schema())
    assert [validator.is_valid(value) for value in ({"most": 3}, {"most": 9}, {"moost": 3})] == [True, False, False]
    assert hashed_lines(section, Threads()) == []
    assert hashed_lines(section, Threads(3, True)) == ["most = 3", "wait = true"]


def test_the_command_prints_a_valid_schema_with_closed_tables() -> None:
    printed = json.loads(CliRunner().invoke(main, ["schema"]).stdout)
    assert printed == policy_schema()
    Draft202012Validator.check_schema(printed)
    for node in _nodes(printed):
        if node.get("type") == "object":
            assert "additionalProperties" in node
            for below in node.get("properties", {}).values():
                assert "description" in below or "choose" in node["properties"]


def _nodes(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _nodes(below)
