"""Bugs to plant in backups and restores of a ledger, and in what an operator sees of a server."""

from tests.planted.bug import Bug, planned

RUNNING_BUGS: tuple[Bug, ...] = (
    planned(
        "a restored ledger answers before its owner has accepted it",
        "tests/backups/test_restore.py",
        (
            "ledger/transaction.py",
            "        if self.state.restored:\n            raise",
            "        if False:\n            raise",
        ),
    ),
    planned(
        "a charge that was open in a backup is continued after the restore",
        "tests/backups/test_restore.py",
        ("ledger/state.py", "restored=0, unanswered={}, reached={}, requests={})", "restored=0, requests={})"),
    ),
    planned(
        "a restore takes a sound ledger back without a word",
        "tests/backups/test_restore.py",
        ("ledger/restoring.py", "ledger is not None and missing and acceptance is None", "False"),
    ),
    planned(
        "lost answers that the owner counts are not charged",
        "tests/backups/test_restore.py",
        ("ledger/transaction.py", "        if lost is not None:\n", "        if False and lost is not None:\n"),
    ),
    planned(
        "a line of the audit log does not depend on the line before",
        "tests/server/test_audit_chain.py",
        ("server/audit_chain.py", 'chained and (found["previous"] != head or', "chained and (False or"),
    ),
    planned(
        "metrics are open to every account",
        "tests/server/test_monitoring.py",
        ("server/routes.py", " and caller_of(request).account != OWNER:", " and caller_of(request) is None:"),
    ),
)
