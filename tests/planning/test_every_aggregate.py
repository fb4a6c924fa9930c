"""Every aggregate brings what docs/where_new_things_go.md asks of a new one; a failure names the file that lacks it."""

import re
from pathlib import Path

import pytest
from tests.paths.shapes import SHAPES
from tests.statistical.coverage import SHAPES as COVERED

from sfumato.planning.aggregates.families import FAMILIES
from sfumato.query.functions import AGGREGATES, PAIRS, SUMMING, AggregateForm
from sfumato.query.parsing.aggregate import _LIST_AGGREGATES, _LIST_REMEDIES, _SINGLE, _UNSUPPORTED_AGGREGATES

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs/sql/aggregates.md").read_text(encoding="utf-8").split("## All aggregates")[1]
EVERY = pytest.mark.parametrize("form", AGGREGATES, ids=lambda form: str(form.aggregation))


def _names(form: AggregateForm) -> tuple[str, ...]:
    return (*form.postgres, *form.duckdb)


def _is_called(form: AggregateForm, text: str) -> bool:
    return any(re.search(rf"\b{name}\(", text.lower()) for name in _names(form))


@EVERY
def test_an_aggregate_has_a_recipe(form: AggregateForm) -> None:
    assert form.aggregation in FAMILIES, "add its recipe to FAMILIES in src/sfumato/planning/aggregates/families.py"


@EVERY
def test_no_name_of_an_aggregate_is_still_refused(form: AggregateForm) -> None:
    refused = {*_UNSUPPORTED_AGGREGATES, *_LIST_REMEDIES, *_SINGLE, *_LIST_AGGREGATES}
    assert refused.isdisjoint(_names(form)), "remove its name from the refusals of query/parsing/aggregate.py"


@EVERY
def test_each_name_of_an_aggregate_has_its_row(form: AggregateForm) -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("|")]
    missing = [name for name in _names(form) if not any(f"`{name}`" in row for row in rows)]
    assert not missing, "add the names to the table All aggregates in docs/sql/aggregates.md"


@EVERY
def test_an_aggregate_is_asked_on_every_path(form: AggregateForm) -> None:
    assert any(_is_called(form, shape) for shape in SHAPES), "add a question to the end of tests/paths/shapes.py"


@pytest.mark.parametrize("function", sorted(SUMMING | PAIRS))
def test_the_bars_of_an_aggregate_that_is_made_of_sums_are_measured(function: str) -> None:
    (form,) = [form for form in AGGREGATES if form.aggregation == function]
    asked = [shape.column for shape in COVERED if shape.inner is None]
    assert any(_is_called(form, column) for column in asked), "add a shape to tests/statistical/coverage.py"
