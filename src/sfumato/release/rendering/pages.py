"""What a notebook shows of a dataset: its tables with bounds, keys and caps, and what is left of the budget."""

from sfumato.ledger.ledger import Budget
from sfumato.policy.describing import column_words, table_words
from sfumato.policy.policy import Policy, Table
from sfumato.release.rendering.escaping import for_html


def database_page(policy: Policy, account: str, budget: Budget | None) -> str:
    """Return a page of the policy's words alone: no data is read for it. `budget` is None of one that is closed."""
    whose = f", as {account}" if account else ""
    tables = "".join(map(_table, policy.tables))
    left = "<br>".join(map(for_html, str(budget).splitlines())) if budget is not None else "It is closed."
    return f"<h4>{for_html(f'{policy.name}{whose}')}</h4>{tables}<p>{left}</p>"


def _table(table: Table) -> str:
    rows = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{for_html(cell)}</td>" for cell in cells) + "</tr>"
        for cells in ((column.name, str(column.type), column_words(table, column)) for column in table.columns)
    )
    head = "<tr><th>column</th><th>type</th><th>holds</th></tr>"
    columns = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
    return f"<p><b>{for_html(table.name)}</b>: {for_html(table_words(table))}</p>{columns}"
