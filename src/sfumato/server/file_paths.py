"""Where a server keeps its own files: beside the ledger, or beside the policy where the ledger is on a server."""

from pathlib import Path

from sfumato.errors import BadParameter
from sfumato.policy.policy import Policy


def sidecar_path(policy: Policy, ending: str, file: Path | None = None) -> Path:
    """Return the file with this ending; `file` is where the policy was read from."""
    path = policy.ledger.path or (file and file.absolute())
    if path is None:
        raise BadParameter(
            "There is no place for the server's files.",
            "The ledger is on a server, and the policy is not a file.",
            "Write the policy into a file.",
        )
    return path.with_name(f"{path.name}.{ending}")
