"""The preferred plan is made alone where nothing is kept of a question: all plans together lead to the same one."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.paths.test_shapes_of_texts import SHAPES
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.database import Database
from sfumato.engines.time_limit import PlanningClock
from sfumato.errors import EngineFailed, Refusal
from sfumato.ledger.store import PREFIX_CHARS
from sfumato.planning.fingerprint import tables_read
from sfumato.prepare import Prepared, RequestedPrice

ANALYSTS = {"ada": {"epsilon": 500}, "poor": {"epsilon": "0.31"}, "bob": {"epsilon": 500}}
NULLS = (
    "SELECT dept, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS m FROM visits GROUP BY dept",
    "SELECT COUNT(*) AS n, AVG(age) AS a FROM visits WHERE urgent",
    "SELECT s.name, COUNT(*) AS n, AVG(v.cost) AS a FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY s.name",
)
LISTED = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept ORDER BY n DESC LIMIT 1"
PRICES = (RequestedPrice("1"), RequestedPrice("0.0007", delta=0))


def texts() -> list[str]:
    random = Random(5)
    return [shape.format(a=random.randrange(1, 20), b=3, c=2, t="rome") for shape in SHAPES] + [*NULLS, LISTED]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("preferred")
    write(folder, a_world(5))
    with sfumato.open(policy(folder, analysts=ANALYSTS)) as opened:
        yield opened


def prepared(handle: Database, sql: str, price: RequestedPrice, *, alone: bool) -> Prepared | str:
    try:
        return handle._preparation.prepare(sql, None, price, None, handle.engine, alone=alone)
    except EngineFailed:
        raise
    except Refusal as refusal:
        return str(refusal)


@pytest.mark.parametrize("account", ["ada", "poor"])
def test_a_plan_alone_is_the_one_that_is_chosen_among_all(database: Database, account: str) -> None:
    """Also for an account that cannot pay for the preferred plan of every question."""
    new = others = 0
    for sql in texts():
        for price in PRICES[:1] if account == "poor" else PRICES:
            with database.as_analyst(account) as handle, database.as_analyst(account) as other:
                alone, every = (prepared(one, sql, price, alone=one is handle) for one in (handle, other))
            if isinstance(alone, str) or isinstance(every, str):
                assert alone == every
                continue
            assert (alone.plan, alone.names, alone.price_target) == (every.plan, every.names, every.price_target), sql
            if alone.plan.event is not None:
                assert alone.engine.statements(alone.job) == every.engine.statements(every.job)
            new += alone.is_new
            others += len(every.plans) > len(alone.plans)
    assert (others > 5) == (new > 5) == (account == "ada")


def test_all_names_of_all_plans_begin_as_the_ledger_is_asked(database: Database) -> None:
    """A charge of any plan, under any of its names, is then seen before the preferred plan is made alone."""
    known = 0
    for sql in texts():
        with database.as_analyst("ada") as handle:
            for price in PRICES:
                if isinstance(prepared(handle, sql, price, alone=True), str):
                    continue
                preparer = handle._preparation
                read = preparer._read(sql, None, handle.engine, PlanningClock())
                target, tables = preparer._price_target(price, read.query.options), tables_read(read.query.relation)
                every = preparer._plans_of(read, target, tables)
                assert every.complete
                if every.beginnings is not None:
                    known += 1
                    found = {name[:PREFIX_CHARS] for names in every.known_names for name in names}
                    assert found <= set(every.beginnings), sql
    assert known > 10


def test_what_was_measured_in_the_older_way_is_still_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the price that it was paid at, and as an earlier answer at another price."""
    with database.as_analyst("bob") as handle:
        with monkeypatch.context() as patched:
            patched.setattr("sfumato.planning.planner._preferred_null_counts", lambda *_: None)
            first = handle.ask(NULLS[0], epsilon=2)
        preferred = prepared(handle, NULLS[0], RequestedPrice("2"), alone=True)
        assert isinstance(preferred, Prepared)
        assert not preferred.is_new
        assert preferred.plan.groups[0].sums == ()
    with database.as_analyst("bob") as handle:
        again = handle.ask(NULLS[0], epsilon=2, key="another attempt")
        assert again.repeated
        assert again.rows() == first.rows()
        assert handle.ask(NULLS[0], epsilon="0.5").repeated  # known well enough
        assert handle.charges() == 1


def test_a_key_names_its_own_charge(database: Database) -> None:
    """The charge of a key comes first, also where its question was paid for under another plan."""
    with database.as_analyst("bob") as handle:
        first = handle.ask(NULLS[1], epsilon=1, key="attempt 1")
        assert handle.ask(NULLS[1], epsilon=1, key="attempt 1").rows() == first.rows()
        assert handle.ask(NULLS[1], epsilon=1, key="attempt 2").repeated
        with pytest.raises(Refusal, match="used for another question"):
            handle.ask(NULLS[2], epsilon=1, key="attempt 1")
