"""Answers from answers: kept cells add up to another question, exactly, at no cost and with the right bars."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.paths.worlds import World, a_world, policy, write
from tests.sources import HashSource

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import BadParameter, NotKnown
from sfumato.planning.canonical_flow import CanonicalFlow
from sfumato.planning.quote import AnswerSource
from sfumato.planning.view_cells import GroupRows, cells_of
from sfumato.prepare import Prepared, RequestedPrice
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.views import ViewFinder, derive, unmeasured

VIEWS = (
    "SELECT dept, urgent, COUNT(*) AS n FROM visits GROUP BY dept, urgent",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
    "SELECT age, dept, COUNT(*) AS n FROM visits GROUP BY age, dept",
    "SELECT age / 5 AS a, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT dept, urgent, COUNT(*) AS n FROM visits WHERE age > 4 GROUP BY dept, urgent",
    "SELECT x, urgent, COUNT(*) AS n FROM (SELECT dept AS x, urgent FROM visits) t GROUP BY x, urgent",
)
KNOWN = (
    ("SELECT dept, COUNT(*) FROM visits GROUP BY dept", (0, 2, 5)),
    ("SELECT COUNT(*) FROM visits", (0, 1, 2, 3, 5)),
    ("SELECT COUNT(*) FROM visits WHERE dept = 'er'", (0, 2, 5)),
    ("SELECT COUNT(*) FROM visits WHERE dept <> 'er'", (0, 2, 5)),
    ("SELECT dept, COUNT(*) FROM visits WHERE dept = 'er' AND dept = 'icu' GROUP BY dept", (0, 2, 5)),  # no cell
    ("SELECT COUNT(*) FROM visits WHERE dept IS NULL AND urgent", (0, 5)),
    ("SELECT urgent, COUNT(*) FROM visits WHERE dept IN ('er', 'icu') GROUP BY urgent", (0, 5)),
    ("SELECT dept, COUNT(*) FROM visits WHERE urgent AND age > 4 GROUP BY dept", (4,)),
    ("SELECT date_trunc('month', day) AS m, COUNT(*) FROM visits GROUP BY 1", (1,)),
    ("SELECT EXTRACT(month FROM day) AS m, COUNT(*) FROM visits GROUP BY 1", (1,)),
    ("SELECT COUNT(*) FROM visits WHERE day >= DATE '2024-02-01' AND day < DATE '2024-03-01'", (1,)),
    ("SELECT COUNT(*) FROM visits WHERE age BETWEEN 5 AND 9", (2, 3)),
    ("SELECT age / 10 AS a, COUNT(*) FROM visits GROUP BY 1", (2, 3)),
    ("SELECT age, COUNT(*) FROM visits WHERE age < 12 AND age > 2 GROUP BY age", (2,)),
    ("SELECT COUNT(*) FROM visits WHERE age > 9", ()),  # includes what lies above the bounds, which has no cell alone
    ("SELECT COUNT(*) FROM visits WHERE age BETWEEN 4 AND 9", (2,)),
    ("SELECT COUNT(*) FROM visits WHERE UPPER(dept) LIKE 'E%'", ()),
    ("SELECT COUNT(*) FROM visits WHERE cost > 3", ()),
    ("SELECT COUNT(DISTINCT patient_id) FROM visits", ()),
    ("SELECT dept, COUNT(*) FROM visits WHERE age > 3 GROUP BY dept", ()),
)
"""Questions, and which of the views tell them; where a key lies outside its bounds both sides share one cell."""
PRICE = RequestedPrice("1", None, None, None)


def _world() -> World:
    """A clinic with NULLs, undeclared departments and ages beyond the bounds."""
    world = a_world(5, people=30)
    changed = [
        row | ({"age": 40} if at % 7 == 0 else {"age": -3} if at % 11 == 0 else {})
        for at, row in enumerate(world.visits)
    ]
    return replace(world, visits=changed)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder = tmp_path_factory.mktemp("views")
    write(folder, _world())
    with sfumato.open(policy(folder)) as database:
        yield database


@pytest.fixture
def own(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, _world())
    with sfumato.open(policy(tmp_path, analysts={"press": {"epsilon": 900}})) as database:
        yield database


def _rows(asked: Prepared) -> GroupRows:
    (group,) = asked.plan.private.groups
    return GroupRows(group, CanonicalFlow(group.rows))


@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_kept_cells_add_up_to_the_exact_numbers_of_other_questions(clinic: sfumato.Database, view: int) -> None:
    """Without noise: every place that `cells_of` gives is right, also with NULLs and values outside their bounds."""
    kept = clinic.prepare(VIEWS[view], None, PRICE)
    (group,) = kept.plan.groups
    (exact,) = kept.engine.run(kept.job).groups
    numbers = np.asarray(exact.columns[group.measured[0].name])
    for sql, tellers in KNOWN:
        asked = clinic.prepare(sql, None, PRICE)
        rows = GroupRows(group.group, CanonicalFlow(group.group.rows))
        told = cells_of(_rows(asked), rows, exact.keys, evaluate)
        assert (told is not None) == (view in tellers) or "DISTINCT" in sql, sql
        if told is None or "DISTINCT" in sql:
            continue
        plain = next(plan for plan, _ in asked.plans if not any(key.has_remainder for key in plan.groups[0].group.keys))
        (truth,) = clinic.engine.run(clinic.engine.prepare(plain)).groups
        assert [int(numbers[places].sum()) for places in told] == list(truth.columns[plain.groups[0].measured[0].name])


@pytest.mark.parametrize(("sql", "tellers"), KNOWN)
def test_what_views_tell_is_free_and_what_they_do_not_is_refused(
    own: sfumato.Database, sql: str, tellers: tuple[int, ...]
) -> None:
    own.ask(VIEWS[0], epsilon=1)
    before = own.charges(), own.budget(), own.history()
    if 0 in tellers:
        assert own.explain(sql, epsilon=0).source is AnswerSource.KNOWN
        release = own.ask(sql, epsilon=0)
        assert release.receipt.rests_on == (own.history()[0].receipt,)
        assert release.loss.epsilon == 0
        assert release.receipt.sequence is None
        assert own.ask(sql, epsilon=0).rows() == release.rows()
    else:
        for ask in (own.ask, own.explain):
            with pytest.raises(NotKnown, match="A fresh answer costs"):
                ask(sql, epsilon=0)
    assert (own.charges(), own.budget(), own.history()) == before


def test_a_sum_of_kept_cells_is_what_the_view_shows(own: sfumato.Database) -> None:
    view = own.ask("SELECT dept, urgent, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY dept, urgent", epsilon=300)
    urgent = own.ask("SELECT dept, COUNT(*) AS n FROM visits WHERE urgent GROUP BY dept", epsilon=0)
    shown = {row["dept"]: row["n"] for row in view.rows() if row["urgent"]}
    assert {row["dept"]: row["n"] for row in urgent.rows()} == shown
    mean, total = (
        own.ask("SELECT AVG(cost) AS c FROM visits", epsilon=0),
        own.ask("SELECT SUM(cost) AS s, COUNT(cost) AS n FROM visits", share="0%"),
    )
    assert mean.rows()[0]["c"] == pytest.approx(total.rows()[0]["s"] / total.rows()[0]["n"], abs=0.01)
    low, high = total.intervals()[0]["s"]
    assert low <= total.rows()[0]["s"] <= high


def test_bars_of_a_sum_are_longer_than_those_of_its_cells(own: sfumato.Database) -> None:
    cells = own.ask(VIEWS[0], epsilon=1).intervals()[0]["n"]
    total = own.ask("SELECT COUNT(*) AS n FROM visits", epsilon=0).intervals()[0]["n"]
    assert total[1] - total[0] > 2 * (cells[1] - cells[0])  # of fifteen cells, with NULLs


def test_margins_of_questions_that_were_asked_together_are_known(own: sfumato.Database) -> None:
    own.ask_all([VIEWS[0], "SELECT COUNT(*) FROM visits"], epsilon=2)
    assert own.ask("SELECT urgent, COUNT(*) AS n FROM visits GROUP BY urgent", epsilon=0).receipt.rests_on
    assert own.charges() == 1


@pytest.mark.parametrize(
    "sql", ["SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", "SELECT COUNT(*) AS n FROM visits"]
)
def test_no_more_accuracy_than_kept_is_free_and_more_is_combined(own: sfumato.Database, sql: str) -> None:
    own.ask(VIEWS[0], epsilon=1)
    assert own.explain(sql, epsilon="0.01").source is AnswerSource.KNOWN
    known = own.explain(sql, epsilon=0)
    assert own.explain(sql, within={"n": 1000}).source is AnswerSource.KNOWN
    target = int(Fraction(known.margins["n"] or 0) * 3 / 4)
    quote = own.explain(sql, within={"n": target})
    assert quote.source is AnswerSource.COMBINED
    release = own.ask(sql, within={"n": target})
    assert (release.loss, own.charges()) == (quote.loss, 2)
    assert len(release.receipt.rests_on) == 1
    assert all(high - low <= 2 * target + 1 for row in release.intervals() for low, high in [row["n"]])
    again = own.reopen(release.receipt.id)
    assert (again.rows(), again.intervals(), again.receipt) == (release.rows(), release.intervals(), release.receipt)
    assert own.ask(f"{sql} LIMIT 1000", within={"n": target}).rows() == release.rows()
    assert own.verify()


def test_a_combination_is_cheaper_than_a_fresh_answer(own: sfumato.Database, tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits"
    fresh = own.explain(sql, within={"n": 20}).loss.epsilon
    own.ask(VIEWS[0], epsilon=1)
    assert own.explain(sql, within={"n": 20}).loss.epsilon < fresh


def test_views_of_another_account_or_snapshot_tell_nothing(own: sfumato.Database) -> None:
    sql = "SELECT COUNT(*) FROM visits"
    own.ask(VIEWS[0], epsilon=1)
    with own.as_analyst("press") as press, pytest.raises(NotKnown):
        press.ask(sql, epsilon=0)
    own.refresh()
    with pytest.raises(NotKnown):
        own.ask(sql, epsilon=0)


def test_shared_answers_are_views_for_all(tmp_path: Path) -> None:
    write(tmp_path, _world())
    with sfumato.open(policy(tmp_path, analysts={"press": {"epsilon": 900}}, answers="shared")) as owner:
        owner.ask(VIEWS[0], epsilon=1)
        with owner.as_analyst("press") as press:
            assert press.ask("SELECT COUNT(*) FROM visits", epsilon=0).receipt.rests_on


CUT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 1)"
CUT_BY_CELLS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1)"


@pytest.mark.parametrize(
    ("kept", "sql"),
    [
        ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "SELECT COUNT(*) FROM visits"),
        (VIEWS[0], f"{CUT} COUNT(*) FROM visits"),
        (f"{CUT} urgent, COUNT(*) FROM visits GROUP BY urgent", "SELECT COUNT(*) FROM visits"),
        (f"{CUT_BY_CELLS} urgent, COUNT(*) FROM visits GROUP BY urgent", "SELECT COUNT(*) FROM visits"),
        ("SELECT COUNT(*) FROM visits WHERE urgent", "SELECT COUNT(*) FROM visits"),
        ("SELECT dept, MEDIAN(age) FROM visits GROUP BY dept", "SELECT MEDIAN(age) FROM visits"),
    ],
)
def test_other_caps_selected_keys_and_fewer_rows_are_no_views(own: sfumato.Database, kept: str, sql: str) -> None:
    """A group that was not released is missing, not empty; a person who was cut by cells would be cut otherwise."""
    own.ask(kept, epsilon=4)
    with pytest.raises(NotKnown):
        own.ask(sql, epsilon=0)


def test_what_is_known_at_any_accuracy_includes_choices_and_selected_keys(own: sfumato.Database) -> None:
    for sql in ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "SELECT MEDIAN(age) AS m FROM visits"):
        first = own.ask(sql, epsilon="0.3")
        assert own.ask(sql, epsilon=0).rows() == first.rows()


@pytest.mark.parametrize("price", [{"epsilon": 0, "within": {"n": 3}}, {"epsilon": 0, "share": "0%"}, {"epsilon": -1}])
def test_a_price_of_0_stands_alone(own: sfumato.Database, price: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        own.ask("SELECT COUNT(*) AS n FROM visits", **price)


def test_bars_of_derived_and_combined_numbers_cover(own: sfumato.Database) -> None:
    """At 95 %, of 4,000 draws; a right bar fails this once in 10^5. Nothing is read: the truth is 0 everywhere."""
    own.ask(VIEWS[0], epsilon=1)
    own.ask(VIEWS[4].replace("WHERE age > 4 ", ""), epsilon="1.01")
    asked = own.prepare("SELECT COUNT(*) AS n FROM visits", None, RequestedPrice("0.5", None, None, None))
    assert asked.names.measured is not None
    finder = ViewFinder(own._preparation, own.payer.ledger, "")
    views = finder.views_of(asked.plan, asked.names.measured, own.engine)
    assert views
    source = HashSource(7)
    for made in (derive(asked.plan, views), derive(asked.plan, views, unmeasured(asked.plan))):
        (one,) = made.plan.derived
        margin = float(made.margins[one.label, one.name])
        sums = np.zeros(4000)
        for part in one.parts:
            group = next(group for group in made.plan.groups if group.group.label == part.label)
            mechanism = next(m.mechanism for m in group.measured if m.name == part.name)
            law = DiscreteLaplace(mechanism.scale)  # type: ignore[union-attr]
            draws = law.draw(4000 * len(part.cells), source).reshape(4000, -1)
            sums += (draws * np.array(part.weights)).sum(axis=1)
        covered = float((np.abs(sums) <= margin).mean())
        assert 0.95 - 4.3 * (0.95 * 0.05 / 4000) ** 0.5 <= covered <= 0.985


def test_looking_for_views_is_bounded_whatever_the_history(own: sfumato.Database) -> None:
    """So many signatures are read, and so many answers prepared, as at most two constants say."""
    for at in range(30):
        sql = f"SELECT dept, COUNT(*) AS n FROM visits WHERE cost + {at} > 9 GROUP BY dept"  # noqa: S608
        own.ask(sql, epsilon="0.001")
    ledger, seen = own.payer.ledger, list[int]()
    plain = type(ledger).charges_of_family

    def counted(*given: Any) -> list[tuple[str, str]]:
        seen.append(len(found := plain(*given)))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(ledger), "charges_of_family", counted)
        patch.setattr("sfumato.ledger.ledger.MAX_COMPARED_VIEWS", 8)
        own.explain("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    assert seen == [8]
