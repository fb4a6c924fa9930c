"""Opening the dataset of a policy: find or take its snapshot, open its ledger, and return a handle."""

from shutil import rmtree

from sfumato.accounts import accounts as accounts
from sfumato.database import Database
from sfumato.dataset import SharedDataset
from sfumato.diagnostics import log_event
from sfumato.engines.engine import Progress, checked_progress
from sfumato.engines.opening import open_engine, warn_owner, watch_engine
from sfumato.engines.snapshot_status import was_paid_for
from sfumato.errors import BadPolicy, BadSource, BudgetExhausted, EngineFailed, NoSnapshot
from sfumato.ledger.opening import check_ledger, open_ledger, require_ledger
from sfumato.policy.accounts import account_of
from sfumato.policy.policy import Policy
from sfumato.policy.reading import PolicyFile, read_policy
from sfumato.randomness.source import system_source
from sfumato.rehearsal.policy import delete_with, rehearsal_policy, temporary_folder
from sfumato.secure_files import path_refusal


def open(
    policy: PolicyFile,
    *,
    analyst: str | None = None,
    progress: Progress | None = None,
    confirm: str | None = None,
    rehearsal: bool = False,
) -> Database:
    """Open the dataset of a policy: the path of a TOML file, or a dict. The first time, a snapshot of it is taken.

    `analyst` spends from that analyst's budget inside the dataset's. `confirm` is the hash of a policy that protects
    less than the one before it: only its owner can say that this is meant. What is refused has changed nothing.
    With `budget.truncation` the truncation losses of a new snapshot are charged to the dataset.
    With `rehearsal` the rows are synthetic and follow from the policy alone. Neither source nor ledger is opened,
    nothing is charged to the real budget, and every answer is marked.
    """
    if rehearsal:
        return _open_rehearsal(read_policy(policy), analyst, checked_progress(progress))
    return _open_dataset(policy, analyst, progress, confirm)


def _open_rehearsal(policy: Policy, analyst: str | None, progress: Progress) -> Database:
    account = "" if analyst is None else account_of(policy, analyst)
    folder = temporary_folder()
    try:
        database = _with_truncation(_open_account(rehearsal_policy(policy, folder), account, progress, None, False))
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    database.rehearsal = True
    delete_with(database.payer.ledger, folder)
    return database


def open_without_charge(
    policy: PolicyFile, *, analyst: str | None = None, progress: Progress | None = None, confirm: str | None = None
) -> Database:
    """Open the same, and charge nothing: truncation losses not yet measured wait for the next `open`."""
    return _open_dataset(policy, analyst, progress, confirm, measure=False)


def refreshed(policy: PolicyFile, *, progress: Progress | None = None, confirm: str | None = None) -> Database:
    """Take a new snapshot of a policy's source, whatever became of the one before it, and open the dataset."""
    return _open_dataset(policy, None, progress, confirm, again=True)


def open_policy(policy: Policy) -> Database:
    """Open the dataset of a policy that has been read, and charge nothing: a rehearsal beside the data owner's own."""
    return _open_account(policy, "", lambda phase, table: None, None, again=False)


def open_recorded(policy: Policy) -> Database:
    """Open the dataset of a policy that has been read and is in force in its ledger; refuse another, record nothing.

    It is for a server that reads its policy again: only the owner's commands bring a policy into force.
    """
    return _with_truncation(_open_account(policy, "", lambda phase, table: None, None, again=False, is_recorded=True))


def _open_dataset(
    policy: PolicyFile,
    analyst: str | None,
    progress: Progress | None,
    confirm: str | None,
    *,
    again: bool = False,
    measure: bool = True,
) -> Database:
    read, tell = read_policy(policy), checked_progress(progress)
    account = "" if analyst is None else account_of(read, analyst)
    try:
        database = _open_account(read, account, tell, confirm, again)
    except (BadSource, BudgetExhausted, EngineFailed):
        if not account:
            raise
    except OSError as failure:
        if not account:
            raise path_refusal(failure, BadSource) from None
    else:
        return _with_truncation(database) if measure else database
    raise NoSnapshot()  # whether the data can be read, and why not, is the owner's to see


def _with_truncation(database: Database) -> Database:
    """Measure truncation losses not yet measured: a process may have ended after it took the snapshot."""
    try:
        database.measure_truncation()
    except BaseException:
        database.close()
        raise
    return database


def _open_account(
    policy: Policy, account: str, progress: Progress, confirm: str | None, again: bool, is_recorded: bool = False
) -> Database:
    if policy.sealed is not None:
        raise BadPolicy(
            "This policy is of a sealed database.",
            "Its rows are ciphertexts, and there is no source to read.",
            "Open it with sfumato.sealed.database.open_sealed.",
        )
    require_ledger(policy, was_paid_for)
    with open_engine(policy, progress, again=again, first=lambda: check_ledger(policy, confirm)) as taken:
        if not account:
            warn_owner(taken.refused)
        ledger = open_ledger(policy, confirm, taken.ledger, is_recorded=is_recorded)
        try:
            engine = taken.commit(ledger.identity())
        except BaseException:
            ledger.close()
            raise
    log_event("opened", dataset=policy.name, account=account, version=engine.version)
    shared = SharedDataset(policy, engine, ledger, watch_engine(policy))
    return Database(policy, account, engine, ledger, system_source(), shared=shared)
