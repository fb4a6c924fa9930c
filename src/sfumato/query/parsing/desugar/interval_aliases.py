"""`SELECT COUNT(*) AS n, dp_low(n)`: the argument may be a column of the answer, by its alias, as in Snowflake."""

from sqlglot import exp

from sfumato.query.functions import FORMS, INTERVAL_FUNCTIONS
from sfumato.query.names import Name

_CALLS = frozenset(name for form in FORMS if form.function in INTERVAL_FUNCTIONS for name in form.postgres)
_CLAUSES = ("having", "qualify", "order")


def name_alias_arguments(node: exp.Select) -> None:
    """Write what an alias of the same SELECT stands for into the calls that name it."""
    parts = [*node.expressions, *(node.args[clause] for clause in _CLAUSES if node.args.get(clause) is not None)]
    calls = [call for part in parts for call in _calls(part)]
    if not calls:
        return
    aliases = {
        _name(part.args["alias"]): part.this
        for part in node.expressions
        if isinstance(part, exp.Alias) and not _calls(part)
    }
    for call in calls:
        argument = call.expressions[0] if len(call.expressions) == 1 else None
        if isinstance(argument, exp.Column) and argument.args.get("table") is None:
            meant = aliases.get(_name(argument.this))
            if meant is not None:
                written = exp.Paren(this=meant.copy())
                written.meta.update(argument.meta)
                argument.replace(written)


def _name(node: exp.Expr) -> str:
    return str(Name(str(node.this), bool(node.args.get("quoted"))))


def _calls(part: exp.Expr) -> list[exp.Expr]:
    """Return the calls of a clause, without those of its subqueries."""
    found: list[exp.Expr] = []
    waiting: list[exp.Expr] = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in _CALLS:
            found.append(node)
        waiting += list(node.iter_expressions())
    return found
