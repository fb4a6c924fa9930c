"""The deployment record: the fields of OpenDP's deployments registry, and a checklist after NIST SP 800-226.

Fields that follow from policy and ledger are filled in. Fields that only the owner knows say FILL IN.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import yaml

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.accounts import accounts as open_accounts
from sfumato.errors import BadParameter, quote_value, suggestion
from sfumato.ledger.windows import unlimited_text
from sfumato.policy.canonical import policy_hash
from sfumato.policy.describing import table_words, units_of
from sfumato.policy.policy import Period, Policy, Refresh
from sfumato.policy.reading import PolicyFile, read_policy
from sfumato.release.rendering.escaping import to_json
from sfumato.reports.answers import all_entries
from sfumato.reports.checklist import checklist
from sfumato.reports.promise import percent_up

UNKNOWN = "FILL IN"
OWNERS_FIELDS = (
    "name",
    "data_curator",
    "intended_use",
    "data_product_type",
    "data_product_region",
    "data_product_sector",
    "description",
    "publication_date",
)
"""Fields of the registry about the deployment that only the owner knows."""

Record = dict[str, Any]


def record_schema() -> Record:
    """Return the JSON Schema of records."""
    text = files("sfumato.reports").joinpath("record_schema.json").read_text(encoding="utf-8")
    schema: Record = json.loads(text)
    return schema


def make_record(policy: PolicyFile, fields: Mapping[str, str] | None = None, now: datetime | None = None) -> Record:
    """Return the record of a policy and its ledger; `fields` are those that only the owner knows.

    The data may be away, and nothing is charged. A ledger that does not verify is refused.
    """
    given = dict(fields or {})
    if unknown := next((name for name in given if name not in OWNERS_FIELDS), None):
        raise BadParameter(
            f"{quote_value(unknown)} is not a field that the owner fills in.",
            "The other fields follow from the policy and the ledger.",
            f"{suggestion(unknown, OWNERS_FIELDS)}Fill in any of: {', '.join(OWNERS_FIELDS)}.",
        )
    read = read_policy(policy)
    with open_accounts(policy) as accounts:
        entries, verified, budget = all_entries(accounts), accounts.verify(), accounts.budget()
    deployment = dict.fromkeys(OWNERS_FIELDS, UNKNOWN) | {"name": read.name} | given
    return {
        "status": "Draft",
        "deployment": {**deployment, **_privacy(read), **_operation(read)},
        "nist_sp_800_226": [item.document() for item in checklist(read)],
        "sfumato": {
            "version": version("sfumato"),
            "recorded": (now or datetime.now(UTC)).isoformat(timespec="seconds"),
            "policy": policy_hash(read),
            "questions": len(entries),
            "certified_total": _parameters(budget.spent) if budget.every is None else _no_bound(budget.every),
            "used": percent_up(budget.used),
            "ledger": None if verified is None else {"entries": verified.entries, "head": verified.head},
        },
    }


def _parameters(loss: PrivacyLoss) -> Record:
    return {"epsilon": round_up(loss.epsilon), "delta": round_up(loss.delta)}


def _no_bound(every: Period) -> Record:
    return dict.fromkeys(("epsilon", "delta"), f"no bound over all {every}s")


def _privacy(policy: Policy) -> Record:
    private = [table for table in policy.tables if not table.public]
    total = PrivacyLoss(policy.budget.epsilon, policy.budget.delta)
    every = policy.budget.every
    replaced = policy.neighbours is Neighbours.REPLACE
    public = [table.name for table in policy.tables if table.public]
    relation = "the rows of one person replaced" if replaced else "all rows of one person added or removed"
    unprotected = [f"public tables: {', '.join(public)}"] if public else []
    unprotected += ["the number of people"] if replaced else []
    unprotected += ["declared values and bounds", "response times"][: 2 if policy.padding is None else 1]
    return {
        "dp_flavor": {
            "name": "Approximate DP" if policy.budget.delta else "Pure DP",
            "input_metric": f"neighbouring datasets differ in {relation}",
            "bound_on_input_distance": "1 person",
            "output_measure": f"(ε, δ) of all answers {'together' if every is None else f'of one {every}'}",
            "bound_on_output_distance": str(total) if every is None else unlimited_text(total, every),
            "data_domain": "; ".join(f"{table.name}: {table_words(table)}" for table in private),
            "unprotected_quantities": "; ".join(unprotected),
        },
        "privacy_loss": {
            "privacy_unit": units_of(private),
            "privacy_unit_description": f"Neighbouring datasets differ in {relation}, in every table at once.",
            "privacy_parameters": _parameters(total),
            "privacy_parameters_description": (
                "A cap on all answers of the dataset over its lifetime, enforced before each answer. It does not renew."
                if every is None
                else f"A cap on the answers of one {every}, enforced before each answer. {unlimited_text(total, every)}"
            ),
        },
    }


def _operation(policy: Policy) -> Record:
    on_change = policy.refresh is Refresh.ON_CHANGE
    return {
        "model": {
            "model_name": "Central",
            "model_name_description": "One trusted curator holds the data and adds the noise.",
            "actors": (
                "The data owner and the operators of the machine are trusted. Analysts are not trusted: "
                f"{len(policy.analysts)} analyst accounts have budgets of their own inside the dataset's."
            ),
            "release_type": "Many releases",
            "release_type_description": "Each question is one release. A repeated question returns the stored answer.",
            "data_source_type": "Dynamic" if on_change else "Static",
            "data_source_type_description": (
                "A new snapshot is taken when the source changes."
                if on_change
                else "Answers come from a snapshot, until the owner takes another one."
            ),
            "access_type": "Interactive",
            "access_type_description": "Analysts ask adaptively, by SQL, over Python, HTTP or PostgreSQL's protocol.",
        },
        "accounting": {
            "post_processing": "Intervals, sorting, limits and arithmetic use noisy values only, and are free.",
            "composition": (
                "A fully adaptive privacy filter over exact rational events: Rényi DP at one order fixed by the "
                "budget, "
                "or the sum where δ is 0. The ledger is append-only and hash-chained."
            ),
        },
        "implementation": {
            "pre_processing_eda_hyperparameter_tuning": (
                "Contribution bounds are enforced at registration by a salted hash. `sfumato check` and `sfumato tune` "
                "show the owner exact numbers of the data; what the owner derived from them is not protected."
            ),
            "mechanisms": (
                "Discrete Laplace and discrete Gaussian noise on integers of a public grid; key selection, quantiles "
                "and top lists by exact samplers. Random bits come from AES-256-CTR, seeded by the operating system."
            ),
            "justification": "Each mechanism has a written proof, which names the code that it licenses.",
        },
        "additional_information": "Written by sfumato record.",
    }


def record_yaml(record: Record) -> str:
    """Return a record as YAML, with its fields in their order."""
    return yaml.safe_dump(record, allow_unicode=True, sort_keys=False, width=100)


def record_json(record: Record) -> str:
    """Return a record as JSON."""
    return to_json(record) + "\n"
