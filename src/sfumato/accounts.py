"""Opening the accounts of a policy: its ledger alone, without data and without an engine."""

from sfumato.engines.snapshot_status import was_paid_for
from sfumato.errors import BadSource
from sfumato.ledger.accounts import Accounts, open_accounts
from sfumato.ledger.opening import require_ledger
from sfumato.policy.reading import PolicyFile, read_policy
from sfumato.secure_files import path_refusal


def accounts(policy: PolicyFile) -> Accounts:
    """Open the accounts of a policy, which lie in its ledger: the data may be away, and nothing is recorded."""
    read = read_policy(policy)
    try:
        if read.sealed is None:
            require_ledger(read, was_paid_for)
        return open_accounts(read)
    except OSError as failure:
        raise path_refusal(failure, BadSource) from None
