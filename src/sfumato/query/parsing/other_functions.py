"""Functions of BigQuery that are answered by another name here, or by another question: the refusal shows it."""

from typing import NoReturn

from sqlglot import exp

from sfumato.query.parsing.desugar.other_names import SUNDAY_WEEKS, TRUNCATIONS, bounds_of, unit_name
from sfumato.query.parsing.other_systems import PER_GROUP
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.parsing.rewriting import clipped_totals_query, quantiles_query, renamed_query
from sfumato.query.parsing.tree import GOOGLE_CLAUSE

_MAX_QUANTILE_PARTS = 12
_OF_PEOPLE = (
    "BigQuery averages the averages of people, so each person has the same weight. AVG here is over rows.",
    "Write AVG(x) for rows, or AVG over a subquery with one row for each person, "
    "SELECT AVG(a) FROM (SELECT unit, AVG(x) AS a FROM … GROUP BY unit) AS t, for people.",
)
AVERAGES_NOTE = (
    "AVG is over rows. BigQuery's AVG averages the averages of people; for that, average a subquery with one row for "
    "each person: SELECT AVG(a) FROM (SELECT unit, AVG(x) AS a FROM … GROUP BY unit) AS t."
)
_SAME_NAME = ("It is spelled otherwise here.", "Leave ANON_ out.")
_OTHER_FUNCTIONS = {
    "anon_avg": ("AVG", *_OF_PEOPLE),
    "anon_var_pop": ("VAR_POP", *_SAME_NAME),
    "anon_stddev_pop": ("STDDEV_POP", *_SAME_NAME),
    "anon_percentile_cont": ("QUANTILE_CONT", *_SAME_NAME),
}
_SUNDAY = (
    "In BigQuery WEEK begins on Sunday, and ISOYEAR with the week of its first Thursday.",
    "Write date_trunc('week', x) or DATE_TRUNC(x, ISOWEEK), whose weeks begin on Monday, or date_trunc('year', x).",
)


def refuse_other_function(name: str, node: exp.Expr, reading: ParseContext) -> None:
    """Refuse a function of another system, with the call or question here that answers it."""
    place = reading.place(node)
    if name in ("approx_quantiles", "anon_quantiles"):
        parts = node.expressions[1] if len(node.expressions) > 1 else None
        count = int(parts.name) if isinstance(parts, exp.Literal) and parts.name.isdigit() else 0
        example = quantiles_query(node, count) if 1 < count <= _MAX_QUANTILE_PARTS else None
        raise place.unsupported(
            f"{name} is not answered.",
            "It is a list of quantiles, and a column holds single values.",
            reading.with_example(
                "Ask for each quantile: QUANTILE_CONT(x, 0.25), QUANTILE_CONT(x, 0.5); they are measured together.",
                example,
            ),
        )
    if name in _OTHER_FUNCTIONS:
        ours, why, remedy = _OTHER_FUNCTIONS[name]
        raise place.unsupported(
            f"{name} is not answered.", why, reading.with_example(remedy, renamed_query(node, ours))
        )


def clause_notes(tree: exp.Expr) -> tuple[str, ...]:
    """Return what a text with GoogleSQL's clause has to know: its AVG is another one."""
    calls = (str(call.this).lower() for call in tree.find_all(exp.Anonymous))
    return (AVERAGES_NOTE,) if tree.meta.get(GOOGLE_CLAUSE) and "avg" in calls else ()


def refuse_unit(name: str, node: exp.Expr, reading: ParseContext) -> None:
    """Refuse DATE_TRUNC(x, WEEK) of BigQuery, which means another day here."""
    units = [unit_name(part) for part in node.expressions] if name in TRUNCATIONS else []
    if len(units) == 2 and any(unit in SUNDAY_WEEKS for unit in units):
        raise reading.place(node).unsupported("this truncates to a unit that begins on another day here.", *_SUNDAY)


def refuse_bounds(node: exp.Expr, reading: ParseContext) -> NoReturn:
    """Refuse named bounds that clip what one person adds to a group."""
    ends = bounds_of(node, PER_GROUP)
    example = None if ends is None else clipped_totals_query(node, ends, reading.catalog)
    raise reading.place(node).unsupported(
        "bounds of a person's total in a group are given.",
        "Here the policy bounds each value, and how many rows of a person count.",
        reading.with_example("Add up each person first, and clip the totals.", example),
    )
