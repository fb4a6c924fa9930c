"""A dataset in a folder, with questions that are charged and answered without any data."""

from pathlib import Path

from tests.ledger.accounts import request_for

from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

POLICY = """
name = "clinic"
source = "csv:visits.csv"
ledger = "{ledger}"

[budget]
epsilon = {epsilon}
delta = 0

[tables.visits]
unit = "patient_id"
rows_per_unit = 2

[tables.visits.columns]
patient_id = {{ type = "integer" }}
age = {{ type = "integer", bounds = [0, 120] }}
"""


def write_policy(folder: Path, epsilon: object = 1, ledger: str = "sqlite:clinic.ledger") -> Path:
    """Write the policy of a dataset into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "clinic.toml"
    path.write_text(POLICY.format(epsilon=epsilon, ledger=ledger))
    return path


def answer(ledger: Ledger, policy: Policy, *questions: str) -> None:
    """Charge each question for a hundredth of epsilon, and store its answer."""
    for question in questions:
        with ledger.charge(request_for(policy, question)) as charge:
            if charge.stored_release is None:
                charge.settle(f"answer to {question}")


def answer_in(policy_file: Path, *questions: str) -> None:
    """Open the ledger of a policy, and answer questions."""
    policy = read_policy(policy_file)
    ledger = open_ledger(policy)
    try:
        answer(ledger, policy, *questions)
    finally:
        ledger.close()
