"""What the command line reads and says about a restore."""

from sfumato.accounting.loss import PrivacyLoss
from sfumato.backups.restore import Restore
from sfumato.errors import BadParameter
from sfumato.exact import typed_rational
from sfumato.ledger.restoring import Acceptance, RestoreOutcome


def read_acceptance(sentence: str | None, epsilon: str | None, delta: str | None) -> Acceptance | None:
    """Read what the owner says about lost answers; None where they say nothing."""
    if sentence is None or (epsilon is None and delta is not None):
        if epsilon is None and delta is None:
            return None
        raise BadParameter(
            "--lost-epsilon needs --accept, and --lost-delta needs --lost-epsilon.",
            "What was lost is counted when the restore is accepted.",
            "Give all of them together.",
        )
    if epsilon is None:
        return Acceptance(sentence, None)
    lost = PrivacyLoss(typed_rational(epsilon, "--lost-epsilon"), typed_rational(delta or "0", "--lost-delta"))
    return Acceptance(sentence, lost)


def restore_text(done: Restore) -> str:
    """Say what was restored, what it may lack, and what comes next."""
    lines = []
    match done.ledger.outcome:
        case RestoreOutcome.UNCHANGED:
            lines.append("The ledger in place has the same entries as the backup. It was left as it is.")
        case RestoreOutcome.ACCEPTED:
            lines.append(f"The ledger is restored up to entry {done.entries}, and its owner has accepted that.")
        case RestoreOutcome.WAITING:
            lines += [
                f"Restored the ledger up to entry {done.entries}, as of {done.time}. It answers nothing yet.",
                (
                    f"At least {done.ledger.missing} later entries are missing."
                    if done.ledger.missing
                    else "Answers that were given after the backup are not counted in it."
                ),
                "1. Ask every analyst for their latest receipt: sfumato verify POLICY --receipt SEQUENCE:HEAD.",
                "2. Add up the prices of the receipts that are missing, and count them: --lost-epsilon EPSILON.",
                f'3. Accept the restore with --accept "{done.sentence}".',
            ]
    if done.has_grants and "grants" not in done.kept and done.ledger.outcome is not RestoreOutcome.UNCHANGED:
        lines.append("Grants are those of the backup. Revoke again what was revoked after it.")
    if done.kept:
        lines.append(f"Already there and different from the backup, so left alone: {', '.join(done.kept)}.")
    return "\n".join(lines)
