"""A checklist after NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees: what holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.windows import unlimited_text
from sfumato.policy.describing import units_of
from sfumato.policy.policy import Policy, RowUnit

ENFORCED, OWNER, OPEN = "enforced", "depends on the owner", "not covered"


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One topic of the guidelines: a question, how it stands with this policy, and why."""

    topic: str
    question: str
    status: str
    answer: str

    def document(self) -> dict[str, str]:
        """Return the item as a dict of texts."""
        return {"topic": self.topic, "question": self.question, "status": self.status, "answer": self.answer}


def checklist(policy: Policy) -> Iterator[ChecklistItem]:
    """Give every topic of the guidelines, for one policy."""
    private = [table for table in policy.tables if not table.public]
    total = PrivacyLoss(policy.budget.epsilon, policy.budget.delta)
    by_row = [table.name for table in private if isinstance(table.unit, RowUnit)]
    every = policy.budget.every
    yield ChecklistItem(
        "privacy parameters",
        "Which ε and δ hold for all releases together?",
        ENFORCED if every is None else OPEN,
        str(total) if every is None else unlimited_text(total, every),
    )
    yield ChecklistItem(
        "unit of privacy",
        "Is the unit of privacy a person?",
        OWNER,
        units_of(private) + (f". Rows, not people, are protected in: {', '.join(by_row)}" if by_row else ""),
    )
    yield ChecklistItem(
        "contribution bounds",
        "Is the contribution of each unit bounded?",
        ENFORCED,
        "Extra rows are dropped at registration, and values are clipped to declared bounds in every statement.",
    )
    yield ChecklistItem(
        "composition",
        "Are all releases counted, also adaptive ones?",
        ENFORCED,
        "Each charge is durable in the ledger before data is read; a filter refuses what would exceed the budget.",
    )
    yield ChecklistItem(
        "other releases",
        "Are releases by other systems about the same people counted?",
        OPEN,
        "The ledger tracks its own answers only. Losses of other publications add up.",
    )
    yield ChecklistItem(
        "trust model",
        "Who sees the data without noise?",
        OWNER,
        "Central model: the data owner and those who operate the machine.",
    )
    yield ChecklistItem(
        "correctness of mechanisms",
        "Are mechanisms proved and tested?",
        ENFORCED,
        "Each mechanism has a written proof. Tests compare exact distributions. No independent review yet.",
    )
    yield ChecklistItem(
        "floating point",
        "Is noise protected against floating-point attacks?",
        ENFORCED,
        "Sums are integers on a public grid, and samplers are exact.",
    )
    yield ChecklistItem(
        "randomness",
        "Is the random source cryptographic?",
        ENFORCED,
        "AES-256-CTR, seeded by the operating system, without a seed parameter.",
    )
    yield ChecklistItem(
        "timing",
        "Are response times independent of the data?",
        OPEN if policy.padding is None else ENFORCED,
        "No padding is set."
        if policy.padding is None
        else f"A server answers at multiples of {policy.padding} seconds.",
    )
    yield ChecklistItem(
        "side channels of messages",
        "Do errors, prices or plans depend on the data?",
        ENFORCED,
        "Acceptance and price depend on text, policy, public tables and ledger only.",
    )
    yield ChecklistItem(
        "group keys",
        "Can the presence of a group reveal a person?",
        ENFORCED,
        "Keys are declared, or selected privately at a delta that the quote states.",
    )
    yield ChecklistItem(
        "utility",
        "Do releases state their error?",
        ENFORCED,
        "Each number has an interval. Bias from bounds is estimated where budget.truncation pays for it.",
    )
    yield ChecklistItem(
        "bias and fairness",
        "Were effects on small groups considered?",
        OWNER,
        "Noise has the same size for every group, so small groups have larger relative errors.",
    )
    yield ChecklistItem(
        "access control",
        "Is access authenticated and limited?",
        ENFORCED,
        f"{len(policy.analysts)} analyst accounts with budgets. A server asks for tokens, which can be revoked.",
    )
    yield ChecklistItem(
        "storage and collection",
        "Is the stored data protected otherwise?",
        OWNER,
        "The bounded copy and its salt are readable by the owner only. Encryption of the disk is the owner's task.",
    )
