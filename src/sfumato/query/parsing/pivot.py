"""PIVOT is written out: a group by the columns that are left, and one aggregate with a FILTER for each listed value."""

from sqlglot import exp

from sfumato.query.declared import DeclaredValues
from sfumato.query.expression import Expression
from sfumato.query.names import Name, NamedColumn, Scope
from sfumato.query.parsing.aggregate import Measures
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.expression import read_expression
from sfumato.query.parsing.frame import ExpressionContext
from sfumato.query.parsing.naming import output_name
from sfumato.query.parsing.reading import name_of
from sfumato.query.relation import GroupBy, Named

_MAX_PIVOT_VALUES = 100


def read_pivot(node: exp.Expr, block: Block, frame: ExpressionContext) -> tuple[GroupBy, Scope]:
    """Return the groups of a PIVOT, and the names of their columns."""
    reading, where, scope = frame.reading, frame.reading.place(node), frame.scope
    pivot = {key: value for key, value in node.args.items() if value}
    using, group_by = pivot.get("using"), pivot.get("group")
    fields = node.expressions if using else pivot.get("fields") or []
    if pivot.get("unpivot") or len(fields) != 1 or (group_by and not using):
        raise where.unsupported(
            "this PIVOT is not supported.",
            "It has aggregates, FOR one column, and IN with the values that are listed.",
            "Write PIVOT (SUM(x) FOR y IN ('a', 'b')), or one COUNT(*) FILTER (WHERE …) for each column.",
        )
    chosen, written = _listed_values(fields[0], frame), using or node.expressions
    aggregates = [part.unalias() for part in written]
    measures = Measures()
    inner = ExpressionContext(reading, scope, measures, "PIVOT", frame.private_tables)
    used = [name_of(part.this) for part in (*aggregates, chosen.this) for part in part.find_all(exp.Column)]
    remaining = [entry for entry in scope.star(None) if not any(name.matches(entry.name) for name in used)]
    if group_by:
        reading.only(group_by, "expressions")
        by = [name_of(part.this) for part in group_by.expressions if isinstance(part, exp.Column)]
        remaining = [entry for entry in scope.star(None) if any(name.matches(entry.name) for name in by)]
        if len(remaining) != len(group_by.expressions):
            raise where.unsupported(
                "this PIVOT is not supported.",
                "It is grouped by columns of its table.",
                "Name each column once, or compute it in a subquery: PIVOT (SELECT …) ON … GROUP BY ….",
            )
    columns: list[tuple[str, Expression]] = []
    for value in chosen.expressions:
        literal = value.this if isinstance(value, exp.PivotAlias) else value
        for part, aggregate in zip(written, aggregates, strict=True):
            filter = exp.Where(this=exp.EQ(this=chosen.this.copy(), expression=literal.copy()))
            measure = read_expression(exp.Filter(this=aggregate.copy(), expression=filter), inner)
            columns.append((_pivot_column_name(value, part, several=len(aggregates) > 1), measure))
    label = measures.name_group(reading)
    keys = tuple(Named(f"k{i}", entry.expression) for i, entry in enumerate(remaining, 1))
    for key in keys:
        reading.declare(label, key.name, reading.declared(key.expression))
    group = GroupBy(block.rows, label, keys, tuple(measures.found), where.at)
    alias = node.args.get("alias")
    table = str(name_of(alias.this)) if alias is not None and alias.this is not None else None
    named = [(entry.name, column) for entry, column in zip(remaining, group.columns, strict=False)]
    entries = tuple(NamedColumn(table, name, value) for name, value in (*named, *columns))
    return group, Scope(entries, frozenset({table} if table else ()))


def _listed_values(field: exp.Expr, frame: ExpressionContext) -> exp.Expr:
    """Return a column with its listed values: those of the text, or those that the policy declares."""
    if isinstance(field, exp.In):
        return field
    declared = frame.reading.declared(read_expression(field, frame))
    known = declared.values if isinstance(declared, DeclaredValues) else ()
    if not known or len(known) > _MAX_PIVOT_VALUES or not all(isinstance(value, str) for value in known):
        raise frame.reading.place(field).unsupported(
            "the columns of this PIVOT are not known.",
            f"Its values are not declared as at most {_MAX_PIVOT_VALUES} texts, and are not looked up in people's "
            "rows.",
            "List them: PIVOT … ON x IN ('a', 'b') USING …",
        )
    return exp.In(this=field, expressions=[exp.Literal.string(str(value)) for value in known])


def _pivot_column_name(value: exp.Expr, aggregate: exp.Expr, several: bool) -> str:
    """Return the name of a column: its value, followed by the aggregate's name where there are several."""
    own = value.args["alias"] if isinstance(value, exp.PivotAlias) else None
    name = str(name_of(own)) if own is not None else Name(value.name, quoted=True).text
    if isinstance(aggregate, exp.Alias):
        return f"{name}_{name_of(aggregate.args['alias'])}"
    return f"{name}_{output_name(aggregate)}" if several else name
