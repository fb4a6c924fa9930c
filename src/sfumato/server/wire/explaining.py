"""What EXPLAIN answers: the price as tools read a cost, then the quote; as text, JSON, XML or YAML."""

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from xml.sax.saxutils import escape

from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.server.wire import oids
from sfumato.server.wire.oids import Column

EXPLAIN_FORMATS = {"text": oids.TEXT, "json": oids.JSON, "xml": oids.XML, "yaml": oids.TEXT}
"""The formats of EXPLAIN, each with the type of its column."""
_XML_NAMESPACE = "http://www.postgresql.org/2009/explain"


def explain_column(form: str) -> Column:
    """Return the column of an EXPLAIN."""
    return Column("QUERY PLAN", EXPLAIN_FORMATS[form])


def explain_rows(loss: PrivacyLoss | None, lines: Sequence[str], form: str) -> list[tuple[str]]:
    """Return the rows of an EXPLAIN; every format but text has one row."""
    if form == "text":
        return [(cost_line(loss),), *((line,) for line in lines)]
    cost = "0" if loss is None or not loss.epsilon else _plain(loss.epsilon)
    plan = {"Node Type": "Private Answer", "Startup Cost": "0", "Total Cost": cost, "Plan Rows": "0", "Plan Width": "0"}
    return [({"json": _json, "xml": _xml, "yaml": _yaml}[form](plan, lines),)]


def cost_line(loss: PrivacyLoss | None) -> str:
    """Return the first line of EXPLAIN, which tools show as an estimate of the cost: here it is epsilon.

    >>> cost_line(PrivacyLoss(Fraction(1, 10), Fraction(1, 10**9)))
    '(cost=0..0.1 delta=1e-9)'
    """
    if loss is None or not loss.epsilon:
        return "(cost=0..0)"
    return f"(cost=0..{_plain(loss.epsilon)} delta={round_up(loss.delta)})"


def _json(plan: dict[str, str], lines: Sequence[str]) -> str:
    numbers = {name: value if name == "Node Type" else float(value) for name, value in plan.items()}
    return json.dumps([{"Plan": {**numbers, "Output": list(lines)}}], ensure_ascii=False, indent=2)


def _xml(plan: dict[str, str], lines: Sequence[str]) -> str:
    parts = [
        f"      <{name.replace(' ', '-')}>{escape(value)}</{name.replace(' ', '-')}>" for name, value in plan.items()
    ]
    items = [f"        <Item>{escape(line)}</Item>" for line in lines]
    inner = ["    <Plan>", *parts, "      <Output>", *items, "      </Output>", "    </Plan>"]
    return "\n".join([f'<explain xmlns="{_XML_NAMESPACE}">', "  <Query>", *inner, "  </Query>", "</explain>"])


def _yaml(plan: dict[str, str], lines: Sequence[str]) -> str:
    parts = [f"    {name}: {json.dumps(value) if name == 'Node Type' else value}" for name, value in plan.items()]
    items = [f"      - {json.dumps(line, ensure_ascii=False)}" for line in lines]
    return "\n".join(["- Plan: ", *parts, "    Output: ", *items])


def _plain(epsilon: Fraction) -> str:
    """Write a number as tools read it: digits and a point."""
    return format(Decimal(round_up(epsilon)), "f")
