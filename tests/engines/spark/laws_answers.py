"""The same policy, rows and salt on Spark and on DuckDB: the same refusals, quotes, keys and exact integers."""

from collections.abc import Iterator

import pytest
from tests.engines.spark_under_law import SparkUnderLaw
from tests.engines.test_same_answers import REFUSED, Both
from tests.paths.shapes import SHAPES

EVERY = 4
"""Of the shapes, one in so many: `python -m tests.engines.spark` asks all of them, and 200 more."""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("same"), SparkUnderLaw(), 2, groups_per_unit=2)
    yield both
    for engine in both.engines:
        engine.close()


def test_questions_have_the_same_quote_keys_and_integers(clinic: Both) -> None:
    for sql in SHAPES[::EVERY]:
        here, there = (clinic.shown(engine, sql) for engine in clinic.engines)
        assert here == there, sql
        assert len(here) > 2, sql


def test_what_is_refused_is_refused_in_the_same_words(clinic: Both) -> None:
    for sql in REFUSED:
        here, there = (clinic.shown(engine, sql) for engine in clinic.engines)
        assert here == there, sql
