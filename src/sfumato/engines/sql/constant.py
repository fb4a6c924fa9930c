"""The form of constants, given how an engine names types and spells values; its plain window and its plain filter."""

from collections.abc import Callable, Mapping, Sequence

from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import IntegerTypes
from sfumato.language.facts import Kind
from sfumato.language.scalar import Scalar


def constant_form(types: IntegerTypes, others: Mapping[Kind, str], text: Callable[[str], str]) -> Form:
    """Return the form of CONSTANT: every value has its type, NULL too. `text` spells a text."""

    def form(scalar: Scalar, arguments: list[str]) -> str:
        facts = scalar.facts
        type = types.of(facts) if facts.kind is Kind.INTEGER else others[facts.kind]
        match scalar.constant:
            case None:
                return f"CAST(NULL AS {type})"
            case bool(truth):
                return "true" if truth else "false"
            case int(integer):
                return types.integer(integer, type)
            case float(double):
                return types.double_sql(double)
            case str(value):
                return text(value)
            case _:
                raise AssertionError("a constant is one value")

    return form


def row_number(partition: Sequence[str], order: Sequence[str]) -> str:
    """Return the number of a row, where no order is needed to give one."""
    clauses = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    clauses += [f"ORDER BY {', '.join(order)}"] if order else []
    return f"row_number() OVER ({' '.join(clauses)})"


def filtered(aggregate: str, condition: str) -> str:
    """Return an aggregate over the rows that meet a condition, as the standard writes it."""
    return f"{aggregate} FILTER (WHERE {condition})"
