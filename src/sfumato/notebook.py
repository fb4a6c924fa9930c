"""The cell magic `%%dp`: a cell of SQL, with its price in the line, answered by a database of the notebook.

%load_ext sfumato
%%dp db epsilon=0.5 plot
SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept
"""

from typing import Any

from sfumato.errors import BadParameter, Refusal, UnknownName, quote_value

_PRICES = ("epsilon", "share", "delta")


def load_ipython_extension(shell: Any) -> None:
    """Add `%%dp` to an IPython shell: `%load_ext sfumato` calls this."""
    shell.register_magic_function(lambda line, cell: _answer(shell, line, cell), "cell", "dp")


def _answer(shell: Any, line: str, cell: str) -> object:
    try:
        return _ask_cell(shell, line, cell)
    except Refusal as refusal:
        print(f"Refused ({refusal.code}): {refusal}")  # without a trace: a refusal is an answer
        return None


def _ask_cell(shell: Any, line: str, cell: str) -> object:
    name, *words = line.split() or [""]
    database = shell.user_ns.get(name)
    if not hasattr(database, "ask"):
        raise UnknownName(
            f"There is no database {quote_value(name)} in this notebook.",
            "The first word after %%dp is the variable of an open database.",
            "Open one: db = sfumato.open(POLICY). Then write for example %%dp db epsilon=0.5.",
        )
    price: dict[str, object] = {}
    margins: dict[str, str] = {}
    flags = {"plot": False, "explain": False}
    for word in words:
        key, equals, value = word.partition("=")
        if word in flags:
            flags[word] = True
        elif equals and key in _PRICES:
            price[key] = value
        elif equals and key.startswith("within."):
            margins[key.removeprefix("within.")] = value
        else:
            raise BadParameter(
                f"{quote_value(word)} is not an option of %%dp.",
                "The line gives the database and the price.",
                "Write epsilon=0.5, share=2%, within.n=25, delta=1e-9, plot or explain.",
            )
    if margins:
        price["within"] = margins
    if flags["explain"]:
        return database.explain(cell, **price)
    release = database.ask(cell, **price)
    shell.user_ns["_dp"] = release
    return release.plot() if flags["plot"] else release
