"""Many accounts on one open dataset: one engine, one ledger, and the last handle lets go of both."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.accounting.event import GaussianNoise, Neighbours, Repeated
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, BudgetExhausted, UnknownName
from sfumato.ledger.request import Request

SQL = "SELECT COUNT(*) FROM visits"


@pytest.fixture
def database(tmp_path: Path) -> sfumato.Database:
    write(tmp_path, a_world(1))
    analysts = {"Ada": {"epsilon": 1}, "grace": {"epsilon": 2}}
    return sfumato.open(policy(tmp_path, analysts=analysts))


def test_an_analyst_spends_from_their_own_budget_inside_the_whole(database: sfumato.Database) -> None:
    with database, database.as_analyst("ada") as ada, database.as_analyst("grace") as grace:
        ada.ask(SQL, epsilon=1)
        with pytest.raises(BudgetExhausted):
            ada.ask("SELECT COUNT(*) FROM visits WHERE cost > 1", epsilon="0.5")
        assert 0 == grace.budget().spent.epsilon < database.budget().spent.epsilon
        assert (len(ada.history()), len(grace.history())) == (1, 0)
        assert repr(ada).endswith("analyst='ada')")
        assert ada.engine is grace.engine is database.engine


def test_the_last_handle_lets_go(database: sfumato.Database) -> None:
    ada = database.as_analyst("ada")
    database.close()
    database.close()
    ada.ask(SQL, epsilon=1)
    with pytest.raises(BadParameter, match="closed"):
        database.as_analyst("ada")
    ada.close()
    with pytest.raises(BadParameter, match="closed"):
        ada.ask(SQL, epsilon=1)


def test_a_new_snapshot_is_everybodys(database: sfumato.Database) -> None:
    with database, database.as_analyst("ada") as ada:
        before = ada.engine.version
        assert ada.engine.version == before != database.refresh() == ada.engine.version
        assert ada.ask(SQL, epsilon=1).receipt.version == ada.engine.version


def test_an_analyst_opens_no_other_account_and_nobody_an_unknown_one(database: sfumato.Database) -> None:
    with database, database.as_analyst("ada") as ada:
        with pytest.raises(BadParameter, match="another account"):
            ada.as_analyst("grace")
        with pytest.raises(UnknownName):
            database.as_analyst("nobody")


def test_threads_share_one_engine_each_with_its_account(database: sfumato.Database) -> None:
    def ask(name: str, at: int) -> None:
        with database.as_analyst(name) as analyst:
            analyst.ask(f"SELECT COUNT(*) FROM visits WHERE cost > {at}", epsilon="0.1")  # noqa: S608

    with database:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(ask, ["ada", "grace"] * 4, range(8)))
        for name in ("ada", "grace"):
            with database.as_analyst(name) as analyst:
                assert len(analyst.history()) == 4


def test_an_analyst_is_answered_by_the_noise_that_the_dataset_can_still_pay_for(tmp_path: Path) -> None:
    """Shared noise is preferred at this price, and only its pure loss is small; the dataset counts Rényi losses."""
    write(tmp_path, a_world(1))
    budget = {"epsilon": 3, "delta": "1e-6"}
    with (
        sfumato.open(policy(tmp_path, budget=budget, analysts={"ada": {"epsilon": 3}})) as owner,
        owner.as_analyst("ada") as ada,
    ):
        two = "SELECT COUNT(*) AS n, SUM(cost) AS total FROM visits"
        assert "max-norm" in ada.explain(two, epsilon="0.5").mechanisms["n"]
        spent = Repeated(GaussianNoise(1, Fraction(70), Neighbours.ADD_REMOVE), 18)
        loss = PrivacyLoss(Fraction(3), Fraction(1, 10**6))
        asked = (spent, loss, owner.payer.policy, owner.version, "f" * 32)
        with owner.payer.ledger.charge(Request("", "before", "SELECT 1", *asked)) as charge:
            charge.settle("{}")
        assert "max-norm" not in ada.explain(two, epsilon="0.5").mechanisms["n"]
        assert len(ada.ask(two, epsilon="0.5")) == 1
