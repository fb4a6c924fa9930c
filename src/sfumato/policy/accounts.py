"""The accounts that a policy names: one for each analyst, beside the dataset's own."""

from sfumato.errors import Setting, UnknownName, quote_value
from sfumato.policy.policy import Policy, fold_name


def account_of(policy: Policy, analyst: object) -> str:
    """Return the account of an analyst whom the policy names."""
    found = policy.analyst(analyst) if isinstance(analyst, str) else None
    if found is not None:
        return fold_name(found.name)
    known = ", ".join(sorted(other.name for other in policy.analysts)[:12])
    raise UnknownName(
        f"There is no analyst {quote_value(analyst)} in this policy.",
        "An analyst spends from a budget that the owner wrote under [analysts].",
        f"There are: {known}." if known else ("The policy names none; leave ", Setting("analyst"), " out."),
    )
