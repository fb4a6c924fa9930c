"""Opens a policy whose source is `mirror:` and prints what was answered; run in a process of its own."""

import sys
from pathlib import Path

import sfumato


def main(policy: Path) -> None:
    """Ask one question and print its answer."""
    with sfumato.open(policy) as database:
        [row] = list(database.ask("SELECT COUNT(*) AS n FROM visits", epsilon=1000))
        print(row["n"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
