"""Random questions on neighbours: the fuzzer asks what it should, notices what it must, and goes on where it ended."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import pytest

from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.engine import Job
from sfumato.errors import EngineFailed
from sfumato.lab.audits import neighbours
from sfumato.lab.audits.neighbours import (
    NeighbourSet,
    Outcomes,
    ask,
    differences,
    open_neighbour_set,
    question,
    regression_queries,
)
from sfumato.lab.generators.hospital import hospital
from sfumato.lab.generators.pharmacy import MAX_PHARMACY_ROWS, pharmacy
from sfumato.lab.generators.population import WANDERER_ID, populate
from sfumato.lab.generators.scratch import scratch

COUNT = "SELECT COUNT(*) AS n FROM visits"
KNOWN = (
    *("VALUES", "LIKE", "POWER(", "SUM(DISTINCT", ".removed", "HAVING", "LIMIT", "CASE WHEN", "double precision"),
    *("CROSS JOIN", "VAR_SAMP", "max_groups_contributed", "INTERVAL", "FLOOR(", "% 7", "MAX(", "abababab"),
    *("/ NULLIF(", "% LENGTH(", "QUANTILE_DISC(", "CORR(", "STDDEV(", "max_groups_contributed = 128"),
)


@pytest.fixture(scope="module")
def place() -> Iterator[NeighbourSet]:
    with scratch() as folder, open_neighbour_set(hospital(), 1, folder, readings=2_500) as made:
        yield made


def test_neighbours_differ_by_no_more_than_declared(place: NeighbourSet) -> None:
    tally = Outcomes()
    ask(place, range(100), "in every run the same", tally, 1)
    assert tally.found == []
    assert tally.refused["answered"] >= 3, "of the ten that are looked at"


def test_what_once_told_something_is_the_same_in_another_order() -> None:
    """A crowd whose rows several threads share; the doubles of its public table add up differently in each order."""
    with scratch() as folder, open_neighbour_set(hospital(), 2, folder, 600, 5_000) as crowd:
        messages = [
            message for sql in regression_queries() for message in differences(crowd.subject, crowd.others[0], sql, 0)
        ]
    assert messages == []


def test_the_grammar_knows_what_made_trouble(place: NeighbourSet) -> None:
    text = " ".join(question(place.schema, "grammar", number) for number in range(2000))
    assert [word for word in KNOWN if word not in text] == []
    assert any("readings" in sql for sql in regression_queries())


def test_people_with_many_rows_are_in_as_many_groups() -> None:
    """One person has a row with each of 160 keys or more, and 321 rows where 160 count."""
    population = populate(pharmacy(), 1, most_rows=MAX_PHARMACY_ROWS)
    slots = {line.values["slot"] for line in population.lines["orders"] if line.owner == str(WANDERER_ID)}
    assert len(slots) >= MAX_PHARMACY_ROWS
    assert (
        len([line for line in population.lines["orders"] if line.owner == str(WANDERER_ID)])
        == 2 * MAX_PHARMACY_ROWS + 1
    )


def test_a_run_ends_at_its_time_and_counts_shapes(place: NeighbourSet) -> None:
    tally = Outcomes()
    ask(place, range(5), "shapes", tally, 1)
    assert tally.shapes.total() == tally.asked == 5
    ask(place, range(5), "shapes", tally, 1, end=0.0)
    assert tally.asked == 5


def test_the_same_number_is_the_same_question(place: NeighbourSet) -> None:
    assert question(place.schema, 1, 7) == question(place.schema, 1, 7) != question(place.schema, 1, 8)


def test_what_moves_too_far_is_found_and_shortened(place: NeighbourSet, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = DuckDB.run, place.others[0].subject.engine

    def moving(engine: DuckDB, job: Job) -> Aggregates:
        exact = run(engine, job)
        if engine is not other:
            return exact
        groups = [
            GroupAggregates(group.keys, {k: v + 1 for k, v in group.columns.items()}, group.units)
            for group in exact.groups
        ]
        return Aggregates(tuple(groups))

    monkeypatch.setattr(DuckDB, "run", moving)
    assert "and 0 is declared" in differences(place.subject, place.others[0], COUNT, 1)[0]
    assert differences(place.subject, place.others[1], COUNT, 1) == []
    tally = Outcomes()
    ask(replace(place, others=place.others[:1]), range(200), "moved", tally, 2)
    assert len(tally.found) == 2


def test_a_failure_after_a_quote_is_a_fault(place: NeighbourSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(engine: DuckDB, job: Job) -> Aggregates:
        raise EngineFailed()

    monkeypatch.setattr(DuckDB, "run", failing)
    assert differences(place.subject, place.others[0], COUNT, 1) == ["fault: EngineFailed after a quote"]


def test_a_refusal_is_compared_word_by_word(place: NeighbourSet) -> None:
    for sql in ("SELECT SUM(score) FROM visits", "SELECT nothing", "SELECT city FROM visits"):
        assert [differences(place.subject, other, sql, 1) for other in place.others] == [[]] * len(place.others)


def test_a_run_says_how_it_goes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def tried(numbers: range, seed: object, most: int, end: float | None) -> Outcomes:
        return Outcomes(len(numbers), found=[f"{numbers.start} of {seed}"] if numbers.start == 4_000 else [])

    class Here:
        def __init__(self, processes: int) -> None: ...
        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *_: object) -> None: ...
        def map(self, step: Callable[[range], Outcomes], chunks: list[range]) -> Iterator[Outcomes]:
            return map(step, chunks)

    monkeypatch.setattr(neighbours, "_process", tried)
    monkeypatch.setattr(neighbours, "ProcessPoolExecutor", Here)
    assert neighbours.main(["3000", "--first", "1000", "--seed", "s"]) == 0
    assert neighbours.main(["3000", "--first", "2000", "--seed", "s"]) == 1
    output = capsys.readouterr().out
    assert "4,000 of 4,000: 0 differences" in output
    assert "4000 of s" in output
    assert list(islice(regression_queries(), 1))
