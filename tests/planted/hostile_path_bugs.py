"""Bugs to plant again: what was told of one snapshot, said of another."""

from tests.planted.bug import Bug, planned

HOSTILE_PATH_BUGS: tuple[Bug, ...] = (
    planned(
        "an answer is told what another snapshot lacks",
        "tests/paths/test_reopened_losses.py",
        (
            "database.py",
            "        if receipt.version == asked.engine.version:\n",
            "        if True:\n",
        ),
    ),
    planned(
        "losses that were measured under another policy are read",
        "tests/paths/test_reopened_losses.py",
        ("database.py", " if receipt.policy == self._policy_hash else None\n", "\n"),
    ),
)
