"""Opens a policy whose source is `mirror:` and prints what was answered; run in a process of its own."""

import sys
from pathlib import Path

import sfumato

with sfumato.open(Path(sys.argv[1])) as database:
    [row] = list(database.ask("SELECT COUNT(*) AS n FROM visits", epsilon=1000))
    print(row["n"])
