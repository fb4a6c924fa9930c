"""JupySQL over the wire protocol: run by the Python of `tests.clients.matrix` or `tests.clients.recording`.

Argument: an address without its scheme. It prints the version, then one line per step.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

BY_DEPT = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept"


def main(address: str) -> bool:
    """Run cells; return whether all of them did."""
    shell: Any = import_module("IPython.core.interactiveshell").InteractiveShell.instance()
    print(f"JupySQL {version('jupysql')} with SQLAlchemy {version('sqlalchemy')}", flush=True)
    shell.run_line_magic("load_ext", "sql")
    shell.run_line_magic("config", "SqlMagic.displaycon = False")
    shell.run_line_magic("config", "SqlMagic.named_parameters = 'enabled'")

    def cell(text: str, line: str = "") -> Any:
        return shell.run_cell_magic("sql", line, text)

    def command(line: str) -> Any:
        return str(shell.run_line_magic("sqlcmd", line)).count("\n")

    def plot(line: str) -> Any:
        return bool(shell.run_line_magic("sqlplot", line))

    def parameters() -> Any:
        shell.push({"most": 50})
        return len(cell("SELECT COUNT(*) AS n FROM visits WHERE age < :most"))

    url = f"postgresql+psycopg2:{address}?options=-csfumato.epsilon%3D1"
    above = "SELECT * FROM by_dept WHERE n > 10 ORDER BY n DESC LIMIT 2"
    steps: dict[str, Callable[[], Any]] = {
        "connect": lambda: shell.run_line_magic("sql", url),
        "a question": lambda: len(cell(BY_DEPT)),
        "a data frame": lambda: cell(BY_DEPT).DataFrame().shape,
        "a saved question": lambda: len(cell(BY_DEPT, "--save by_dept")),
        "a question over a saved one": lambda: len(cell(above, "--with by_dept")),
        "parameters": parameters,
        "a public table": lambda: len(cell("SELECT * FROM staff ORDER BY id LIMIT 5")),
        "%sqlcmd tables": lambda: command("tables"),
        "%sqlcmd columns": lambda: command("columns --table visits"),
        "%sqlcmd profile": lambda: command("profile --table staff"),
        "%sqlplot bar": lambda: plot("bar --table staff --column dept"),
        "%sqlplot histogram": lambda: plot("histogram --table staff --column salary --bins 4"),
    }
    worked = True
    for name, step in steps.items():
        try:
            print(f"{name}: {step()}")
        except BaseException as error:
            worked = False
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:500]}")
    return worked


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
