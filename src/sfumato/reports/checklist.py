"""A checklist after NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees: what holds.

The guidelines arrange what a guarantee depends on as a pyramid: each level needs the levels below. The topics are those
of the pyramid and of the hazards that the guidelines name; the questions are in our words.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.windows import unlimited_text
from sfumato.policy.describing import units_of
from sfumato.policy.policy import Policy, RowUnit

TOP, MIDDLE, BOTTOM = "top: the guarantee", "middle: algorithms", "bottom: the system around it"
"""Levels of the pyramid: parameters and unit; algorithms, utility and bias; security, trust and data collection."""
ENFORCED_BY_SFUMATO, OWNER, OPEN = "enforced", "depends on the owner", "not covered"


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One topic of the guidelines: a question, how it stands with this policy, and why."""

    level: str
    topic: str
    question: str
    status: str
    answer: str

    def document(self) -> dict[str, str]:
        """Return the item as a dict of texts."""
        return {
            "level": self.level,
            "topic": self.topic,
            "question": self.question,
            "status": self.status,
            "answer": self.answer,
        }


def checklist(policy: Policy) -> Iterator[ChecklistItem]:
    """Give every topic of the guidelines, for one policy."""
    private = [table for table in policy.tables if not table.public]
    total = PrivacyLoss(policy.budget.epsilon, policy.budget.delta)
    by_row = [table.name for table in private if isinstance(table.unit, RowUnit)]
    every = policy.budget.every
    yield ChecklistItem(
        TOP,
        "privacy parameters",
        "Which ε and δ hold for all releases together?",
        ENFORCED_BY_SFUMATO if every is None else OPEN,
        str(total) if every is None else unlimited_text(total, every),
    )
    yield ChecklistItem(
        TOP,
        "variant of the definition",
        "Which definition holds, and which databases count as neighbours?",
        ENFORCED_BY_SFUMATO,
        f"{'(ε, δ)' if policy.budget.delta else 'Pure ε'}-differential privacy; neighbours: {policy.neighbours.value}.",
    )
    yield ChecklistItem(
        TOP,
        "unit of privacy",
        "Is the unit of privacy a person?",
        OWNER,
        units_of(private) + (f". Rows, not people, are protected in: {', '.join(by_row)}" if by_row else ""),
    )
    yield ChecklistItem(
        TOP,
        "contribution bounds",
        "Is the contribution of each unit bounded?",
        ENFORCED_BY_SFUMATO,
        "Extra rows are dropped at registration, and values are clipped to declared bounds in every statement.",
    )
    yield ChecklistItem(
        TOP,
        "composition",
        "Are all releases counted, also adaptive ones?",
        ENFORCED_BY_SFUMATO,
        "Each charge is durable in the ledger before data is read; a filter refuses what would exceed the budget.",
    )
    yield ChecklistItem(
        TOP,
        "other releases",
        "Are releases by other systems about the same people counted?",
        OPEN,
        "The ledger tracks its own answers only. Losses of other publications add up.",
    )
    yield ChecklistItem(
        MIDDLE,
        "correctness of mechanisms",
        "Are mechanisms proved and tested?",
        ENFORCED_BY_SFUMATO,
        "Each mechanism has a written proof. Tests compare exact distributions. No independent review yet.",
    )
    yield ChecklistItem(
        MIDDLE,
        "floating point",
        "Is noise protected against floating-point attacks?",
        ENFORCED_BY_SFUMATO,
        "Sums are integers on a public grid, and samplers are exact.",
    )
    yield ChecklistItem(
        MIDDLE,
        "randomness",
        "Is the random source cryptographic?",
        ENFORCED_BY_SFUMATO,
        "AES-256-CTR, seeded by the operating system, without a seed parameter.",
    )
    yield ChecklistItem(
        MIDDLE,
        "group keys",
        "Can the presence of a group reveal a person?",
        ENFORCED_BY_SFUMATO,
        "Keys are declared, or selected privately at a delta that the quote states.",
    )
    yield ChecklistItem(
        MIDDLE,
        "utility",
        "Do releases state their error?",
        ENFORCED_BY_SFUMATO,
        "Each number has an interval. Bias from bounds is estimated where budget.truncation pays for it.",
    )
    yield ChecklistItem(
        MIDDLE,
        "bias and fairness",
        "Were effects on small groups considered?",
        OWNER,
        "Noise has the same size for every group, so small groups have larger relative errors.",
    )
    yield ChecklistItem(
        BOTTOM,
        "trust model",
        "Who sees the data without noise?",
        OWNER,
        "Central model: the data owner and those who operate the machine.",
    )
    yield ChecklistItem(
        BOTTOM,
        "timing",
        "Are response times independent of the data?",
        OPEN if policy.padding is None else ENFORCED_BY_SFUMATO,
        "No padding is set."
        if policy.padding is None
        else f"A server answers at multiples of {policy.padding} seconds.",
    )
    yield ChecklistItem(
        BOTTOM,
        "side channels of messages",
        "Do errors, prices or plans depend on the data?",
        ENFORCED_BY_SFUMATO,
        "Acceptance and price depend on text, policy, public tables and ledger only.",
    )
    yield ChecklistItem(
        BOTTOM,
        "access control",
        "Is access authenticated and limited?",
        ENFORCED_BY_SFUMATO,
        f"{len(policy.analysts)} analyst accounts with budgets. A server asks for tokens, which can be revoked.",
    )
    yield ChecklistItem(
        BOTTOM,
        "storage",
        "Is the stored data protected otherwise?",
        OWNER,
        "The bounded copy and its salt are readable by the owner only. Encryption of the disk is the owner's task.",
    )
    yield ChecklistItem(
        BOTTOM,
        "data collection",
        "Was no more collected than is needed, and with a right to do so?",
        OWNER,
        f"Questions can use {sum(len(table.columns) for table in policy.tables)} declared columns, and no others. "
        "What is collected, and why, is outside of differential privacy.",
    )
