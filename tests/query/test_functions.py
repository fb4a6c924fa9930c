"""The table of functions is closed: every entry is reachable from SQL in both spellings, and documented."""

# ruff: noqa: S608  (SQL is what is tested here, and no engine sees it)

import re
from pathlib import Path

import pytest
from tests.query.clinic import CLINIC

from sfumato.errors import Refusal
from sfumato.query.expression import Call, walk
from sfumato.query.functions import (
    AGGREGATES,
    FORMS,
    FUNCTION_NAMES,
    INTERVAL_FUNCTIONS,
    LEVELLED,
    PAIRS,
    PARTS,
    UNITS,
    AggregateForm,
    Aggregation,
    Form,
    Function,
    Takes,
)
from sfumato.query.parse import parse
from sfumato.query.relation import GroupBy

OPERATORS: tuple[tuple[str, Function], ...] = (
    ("+", Function.ADD),
    ("-", Function.SUBTRACT),
    ("*", Function.MULTIPLY),
    ("/", Function.DIVIDE),
    ("//", Function.QUOTIENT),
    ("%", Function.MODULO),
    ("- x", Function.NEGATE),
    ("^", Function.POWER),
    ("**", Function.POWER),
    ("||", Function.JOINED),
    ("=", Function.EQUAL),
    ("<>", Function.DIFFERENT),
    ("!=", Function.DIFFERENT),
    ("<", Function.LESS),
    (">", Function.LESS),
    ("<=", Function.AT_MOST),
    (">=", Function.AT_MOST),
    ("BETWEEN", Function.AT_MOST),
    ("IN", Function.IN),
    ("LIKE", Function.LIKE),
    ("ILIKE", Function.ILIKE),
    ("IS NULL", Function.IS_NULL),
    ("IS DISTINCT FROM", Function.DISTINCT_FROM),
    ("AND", Function.AND),
    ("OR", Function.OR),
    ("NOT", Function.NOT),
    ("EXTRACT", Function.EXTRACT),
    ("POSITION", Function.POSITION),
    ("date + integer", Function.SHIFT),
    ("date + INTERVAL", Function.SHIFT),
    ("date - date", Function.ELAPSED),
)
"""Functions with a syntax of their own."""

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "sql").glob("*.md"))
DOCUMENT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
PROSE = re.sub(r"```.*?```", "", DOCUMENT, flags=re.DOTALL)
WORDS = {word for code in re.findall(r"`([^`]+)`", PROSE) for word in [code, *re.findall(r"\w+", code)]}

ARGUMENTS = {
    Takes.ALIKE: "age",
    Takes.NUMBER: "cost",
    Takes.INTEGER: "age",
    Takes.TEXT: "dept",
    Takes.BOOLEAN: "urgent",
    Takes.TIME: "seen",
    Takes.SPAN: "seen",
    Takes.WORD: "'x'",
    Takes.COUNT: "2",
    Takes.UNIT: "'month'",
    Takes.PART: "'month'",
}
WRITTEN = {
    "+": "age + 1",
    "-": "age - 1",
    "*": "age * 2",
    "/": "cost / 2",
    "//": "age // 2",
    "%": "age % 2",
    "- x": "- age",
    "^": "age ^ 2",
    "**": "age ** 2",
    "||": "dept || 'x'",
    "=": "age = 1",
    "<>": "age <> 1",
    "!=": "age != 1",
    "<": "age < 1",
    ">": "age > 1",
    "<=": "age <= 1",
    ">=": "age >= 1",
    "BETWEEN": "age BETWEEN 1 AND 2",
    "IN": "age IN (1, 2)",
    "LIKE": "dept LIKE 'a%'",
    "ILIKE": "dept ILIKE 'a%'",
    "IS NULL": "age IS NULL",
    "IS DISTINCT FROM": "age IS DISTINCT FROM 1",
    "AND": "urgent AND age > 1",
    "OR": "urgent OR age > 1",
    "NOT": "NOT urgent",
    "EXTRACT": "EXTRACT(year FROM day)",
    "POSITION": "POSITION('x' IN dept)",
    "date + integer": "day + 1",
    "date + INTERVAL": "day + INTERVAL '1 day'",
    "date - date": "day - DATE '2024-01-01'",
}
CALLS = [(form, name) for form in FORMS for name in (*form.postgres, *form.duckdb)]
MEASURES = [(form, name) for form in AGGREGATES for name in (*form.postgres, *form.duckdb)]


def functions(text: str) -> set[Function]:
    expression = parse(f"SELECT {text} FROM visits", CLINIC).relation.items[0].expression
    return {node.function for node, _ in walk(expression) if isinstance(node, Call)}


@pytest.mark.parametrize(("form", "name"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_function_is_reached_by_each_of_its_names(form: Form, name: str) -> None:
    for count in range(len(form.takes) - form.optional, len(form.takes) + 1):
        arguments = ", ".join(ARGUMENTS[take] for take in form.takes[:count])
        arguments = "COUNT(*)" if form.function in INTERVAL_FUNCTIONS else arguments  # they stand above the noise
        for spelled in (name, name.upper()):
            assert form.function in functions(f"{spelled}({arguments})")


@pytest.mark.parametrize(("form", "name"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_function_refuses_a_wrong_number_of_arguments(form: Form, name: str) -> None:
    wrong = [] if form.repeats else [len(form.takes) + 1]
    for count in [len(form.takes) - form.optional - 1, *wrong]:
        with pytest.raises(Refusal):
            parse(f"SELECT {name}({', '.join(['NULL'] * count)}) FROM visits", CLINIC)


@pytest.mark.parametrize(("spelling", "function"), OPERATORS)
def test_an_operator_is_reached_by_its_spelling(spelling: str, function: Function) -> None:
    assert function in functions(WRITTEN[spelling])


@pytest.mark.parametrize(("form", "name"), MEASURES, ids=lambda value: value if isinstance(value, str) else "")
def test_an_aggregate_is_reached_by_each_of_its_names(form: AggregateForm, name: str) -> None:
    plain = f"{ARGUMENTS[form.takes]}{', 0.9' * (form.aggregation in LEVELLED and name != 'median')}"
    plain = "cost, age" if form.aggregation in PAIRS else plain
    filtered = plain if form.aggregation in LEVELLED | PAIRS else "DISTINCT age"  # they have no distinct values
    for argument, where in ((plain, ""), (filtered, " FILTER (WHERE urgent)")):
        group = parse(f"SELECT {name}({argument}){where} FROM visits", CLINIC).relation.source
        assert isinstance(group, GroupBy)
        (measure,) = group.measures
        assert measure.aggregate.function is form.aggregation
        assert measure.aggregate.distinct == (form.distinct and argument.startswith("DISTINCT"))
        assert (measure.aggregate.where is None) == (where == "")


MEASURED = {Aggregation.HISTOGRAM, Aggregation.QUANTILES, Aggregation.QUANTILES_ALONE}
MEASURED |= {Aggregation.MATCHED, Aggregation.CROSS_UNIT_COUNT, Aggregation.BOUNDED_FLOW}
"""What has no name in SQL."""


def test_every_function_has_a_form_and_every_name_one_meaning() -> None:
    assert {form.function for form in FORMS} | {function for _, function in OPERATORS} == set(Function)
    assert {form.aggregation for form in AGGREGATES} == set(Aggregation) - MEASURED
    names = [name for _, name in (*CALLS, *MEASURES)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert set(FUNCTION_NAMES) == {name for _, name in CALLS}


def test_every_unit_and_part_is_known() -> None:
    for unit in UNITS:
        assert functions(f"date_trunc('{unit}', seen)") == {Function.DATE_TRUNC}
    for part in PARTS:
        assert functions(f"EXTRACT({part} FROM seen)") == {Function.EXTRACT}


def test_every_name_is_documented() -> None:
    spelled = {name for _, name in (*CALLS, *MEASURES)} | {spelling for spelling, _ in OPERATORS}
    assert sorted((spelled | set(UNITS) | set(PARTS)) - WORDS) == []


@pytest.mark.parametrize("sql", re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL))
def test_every_query_in_the_document_is_accepted(sql: str) -> None:
    for statement in filter(str.strip, sql.split(";")):
        assert parse(statement, CLINIC).names
