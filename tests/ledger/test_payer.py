"""The one path of a charge: nothing is read before it, nothing is shown before it is stored, and one noise is drawn."""

from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.accounting.event import Neighbours, Pure
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import AnswerLost, BudgetExhausted
from sfumato.ledger.charge import Charge
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.randomness.source import Source, read_exactly, system_source


@pytest.fixture
def payer(tmp_path: Path) -> Payer:
    columns = {"who": {"type": "integer"}}
    policy = read_policy(
        {
            "name": "clinic",
            "source": f"csv:{tmp_path}/visits.csv",
            "ledger": f"sqlite:{tmp_path}/clinic.ledger",
            "budget": {"epsilon": 2, "delta": 0},
            "tables": {"visits": {"unit": "who", "rows_per_unit": 1, "columns": columns}},
        }
    )
    return Payer(open_ledger(policy), "", policy_hash(policy), system_source())


def _charged(fingerprint: str, epsilon: int = 1) -> ChargedRelease:
    event = Pure(Fraction(epsilon), Neighbours.ADD_REMOVE)
    return ChargedRelease(fingerprint, "SELECT 1", event, PrivacyLoss(Fraction(epsilon)), "1")


def _states(ledger: Ledger) -> list[str]:
    return [entry.state for entry in ledger.history()]


def test_a_release_runs_behind_its_charge_and_is_stored_before_it_is_returned(payer: Payer) -> None:
    seen: list[list[str]] = []

    def release(charge: Charge, source: Source) -> str:
        seen.append(_states(payer.ledger))
        return f"{charge.sequence} {len(read_exactly(source, 8))}"

    first = payer.charge_and_publish(_charged("a"), release)
    assert seen == [["reserved"]]
    assert [entry.release for entry in payer.ledger.history()] == [first]
    assert payer.charge_and_publish(_charged("a"), release) == first
    assert len(seen) == 1
    assert payer.ledger.budget().spent.epsilon == 1


def test_a_release_that_does_not_fit_never_runs(payer: Payer) -> None:
    def release(_charge: Charge, _source: Source) -> str:
        raise AssertionError("it was not charged")

    with pytest.raises(BudgetExhausted):
        payer.charge_and_publish(_charged("a", 3), release)
    assert _states(payer.ledger) == []


def test_a_failure_after_the_first_bit_of_noise_is_the_outcome_and_one_before_it_is_taken_up(payer: Payer) -> None:
    def fail_before_noise(_charge: Charge, _source: Source) -> str:
        raise ZeroDivisionError

    def fail_after_noise(_charge: Charge, source: Source) -> str:
        read_exactly(source, 1)
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            payer.charge_and_publish(_charged("a"), fail_before_noise)
    with pytest.raises(ZeroDivisionError):
        payer.charge_and_publish(_charged("a"), fail_after_noise)
    with pytest.raises(AnswerLost):
        payer.charge_and_publish(_charged("a"), lambda _charge, _source: "a second noise")
    assert payer.ledger.budget().spent.epsilon == 1


def test_receipts_are_random(payer: Payer) -> None:
    unnamed = [payer.charge_and_publish(_charged(name), lambda charge, _source: charge.receipt) for name in "ab"]
    assert len(set(unnamed)) == 2
