"""What an analyst sees: the way in, the editor with its price, the answer, budget and history."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sfumato.accounting.loss import round_up
from sfumato.errors import Refusal
from sfumato.ledger.ledger import Budget, Entry
from sfumato.planning.notes.note import MAX_PRINTED_NOTES, more_notes
from sfumato.release.release import Release
from sfumato.release.rendering.table import shown_value
from sfumato.server.console.charts import MOST_BARS, numbers_of
from sfumato.server.console.markup import Html, tag
from sfumato.server.console.wording import citation, left_text, loss_text, python_line, share
from sfumato.server.statuses import position_of

SHOWN = 500
"""So many rows are shown on the page; downloads have every one."""
_HISTORY = 100
_AFTER_THE_CHARGE = frozenset(
    {"answer_lost", "engine_failed", "entropy_failed", "ledger_damaged", "ledger_unavailable", "still_answering"}
)
"""Refusals that may come when a question has been charged already."""


@dataclass(frozen=True, slots=True)
class EditorText:
    """What stands in the editor."""

    sql: str = ""
    epsilon: str = "0.1"
    margin: str = ""
    column: str = ""
    share: str = ""

    @property
    def by(self) -> str:
        """What decides the price: a margin, a share of the budget, or epsilon."""
        return "margin" if self.margin else "share" if self.share else "epsilon"


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """All that one page shows."""

    dataset: str
    url: str
    who: str
    """Empty for the owner."""
    tables: Sequence[dict[str, Any]]
    budget: Budget
    history: Sequence[Entry]
    draft: EditorText = field(default_factory=EditorText)
    answer: Html | None = None
    refusal: Refusal | None = None


def page(title: str, body: object, dataset: str = "") -> Html:
    """Return a whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · {dataset}" if dataset else title),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/console.css"),
        tag("script", src="/static/console.js", defer=True),
    )
    return Html(f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n")


def login_page(dataset: str, refused: bool = False) -> Html:
    """Return the way in."""
    complaint = tag(
        "p", "This token opens nothing: it is wrong, or was replaced or revoked.", class_="refusal", role="alert"
    )
    form = tag(
        "form",
        tag("label", "Your token", for_="token"),
        tag(
            "input",
            id="token",
            name="token",
            type="password",
            autocomplete="current-password",
            required=True,
            autofocus=True,
            spellcheck="false",
        ),
        tag("button", "Open", type="submit", class_="primary"),
        method="post",
        action="/login",
    )
    body = tag(
        "main",
        tag("p", "sfumato", class_="brand"),
        tag("h1", dataset),
        tag("p", "Statistics about many people that reveal almost nothing about any one of them.", class_="lead"),
        complaint if refused else None,
        form,
        tag("p", "The owner of the data gives it out: ", tag("code", "sfumato grant POLICY NAME"), class_="hint"),
        class_="login",
    )
    return page("Open", body, dataset)


def console_page(desk: ConsolePage) -> Html:
    """Return the page on which questions are asked."""
    body = [
        tag("a", "Skip to the question", href="#sql", class_="skip"),
        header(desk.dataset, desk.who, desk.budget, desk.history),
        tag(
            "div",
            tag(
                "nav", tables_view(desk.tables), history_view(desk.history), class_="side", aria_label="Tables, history"
            ),
            tag("main", editor_view(desk), desk.answer, class_="work"),
            class_="desk",
        ),
    ]
    return page("Ask", body, desk.dataset)


def header(dataset: str, who: str, budget: Budget, history: Sequence[Entry] = ()) -> Html:
    """Return the head of a page: where one is, who one is, and what is left."""
    links = [tag("a", "Ask", href="/"), None if who else tag("a", "Owner", href="/owner")]
    leave = tag("form", tag("button", "Leave", type="submit", class_="quiet"), method="post", action="/logout")
    return tag(
        "header",
        tag("p", tag("span", "sfumato", class_="brand"), " ", tag("strong", dataset), class_="where"),
        tag("div", links, class_="links"),
        gauge(budget, history),
        tag("p", who or "owner", class_="who"),
        leave,
        class_="top",
    )


def gauge(budget: Budget, history: Sequence[Entry] = ()) -> Html:
    """Return the budget as a bar with its words beside it, and what it was spent on as parts of the bar."""
    spent = share(budget.spent.epsilon, budget.total.epsilon)
    return tag("div", spent_bar(spent, history), tag("span", left_text(budget)), class_="gauge", id="budget")


def spent_bar(spent: float, history: Sequence[Entry] = ()) -> Html:
    """Return a bar of which so many percent are spent, in parts as large as what each question cost."""
    asked = history[:_HISTORY][::-1]
    whole = sum((entry.loss.epsilon for entry in asked), Fraction(0))
    parts: list[Html] = []
    begin = 0.0
    for number, entry in enumerate(asked):
        width = spent * share(entry.loss.epsilon, whole) / 100
        title = tag("title", f"ε {round_up(entry.loss.epsilon)}: {' '.join(entry.sql.split())[:80]}")
        kind = "spent other" if number % 2 else "spent"
        parts.append(tag("rect", title, class_=kind, x=f"{begin:.3f}", y="0", width=f"{width:.3f}", height="8"))
        begin += width
    return tag(
        "svg",
        tag("rect", class_="whole", x="0", y="0", width="100", height="8"),
        parts or tag("rect", class_="spent", x="0", y="0", width=f"{spent:.3f}", height="8"),
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{spent:.0f} % of the budget is spent",
    )


def tables_view(tables: Sequence[dict[str, Any]]) -> Html:
    """Return the tables with their columns, bounds and keys."""
    return tag("section", tag("h2", "Tables"), [_table(table) for table in tables])


def _table(table: dict[str, Any]) -> Html:
    if table["public"]:
        said = "public: exact and free"
    else:
        most = table["rows_per_unit"]
        said = f"one person: {table['unit']}, at most {most} row{'s' * (most != 1)}"
    columns = [_column(table["name"], column, column["name"] == table.get("unit")) for column in table["columns"]]
    return tag(
        "details",
        tag("summary", tag("code", table["name"]), " ", tag("small", said)),
        tag("ul", columns),
        open=True,
    )


def _column(table: str, column: dict[str, Any], unit: bool) -> Html:
    facts = [column["type"]]
    if unit:
        facts.append("names the person")
    if "bounds" in column:
        low, high = column["bounds"]
        facts.append(f"{low} to {high}")
    if "step" in column:
        facts.append(f"steps of {column['step']}")
    if "values" in column:
        values = column["values"]
        keys = f"keys of {values}" if isinstance(values, str) else _listed([str(value) for value in values])
        facts.append(keys)
    insert = tag("button", column["name"], type="button", class_="insert", data_insert=column["name"])
    return tag("li", insert, tag("small", " · ".join(facts)), data_table=table)


def _listed(values: list[str]) -> str:
    return ", ".join(values[:6]) + (f" and {len(values) - 6} more" if len(values) > 6 else "")


def history_view(history: Sequence[Entry]) -> Html:
    """Return what the budget was spent on; each answer opens again, for free."""
    if not history:
        return tag("section", tag("h2", "History"), tag("p", "Nothing was asked yet.", class_="hint"))
    items = [_entry(entry) for entry in history[:_HISTORY]]
    more = tag("p", f"The last {_HISTORY}.", class_="hint") if len(history) > _HISTORY else None
    return tag(
        "section", tag("h2", "History"), tag("p", "Old answers are free.", class_="hint"), tag("ol", items), more
    )


def _entry(entry: Entry) -> Html:
    line = " ".join(entry.sql.split())
    cost = tag("span", f"ε {round_up(entry.loss.epsilon)}", class_="cost")
    when = tag("time", f"{entry.time:%d %b %H:%M}", datetime=entry.time.isoformat(timespec="seconds"))
    words = line if len(line) <= 120 else f"{line[:119]}…"
    shown = tag("a", words, href=f"/answers/{entry.receipt}") if entry.release else tag("span", words)
    state = tag("em", f" {entry.state}") if not entry.release else None
    return tag("li", shown, tag("small", cost, " · ", when, state))


def editor_view(desk: ConsolePage) -> Html:
    """Return the form: the question, its price, and what it buys."""
    draft = desk.draft
    place = position_of(desk.refusal) if desk.refusal else None
    words = sorted({table["name"] for table in desk.tables} | {c["name"] for t in desk.tables for c in t["columns"]})
    area = tag(
        "textarea",
        draft.sql,
        id="sql",
        name="sql",
        rows="6",
        required=True,
        spellcheck="false",
        autocapitalize="off",
        autocomplete="off",
        aria_describedby="price",
        aria_controls="words",
        placeholder=_example(desk.tables),
        data_words=" ".join(words),
        data_tables=" ".join(table["name"] for table in desk.tables),
        data_line=place[0] if place else None,
        data_column=place[1] if place else None,
    )
    return tag(
        "form",
        tag("label", "Your question, in SQL", for_="sql"),
        tag(
            "div",
            tag("pre", "", class_="paint", aria_hidden="true"),
            area,
            tag("ul", id="words", role="listbox", aria_label="Completions", hidden=True),
            class_="editor",
        ),
        refusal_view(desk.refusal, draft.sql) if desk.refusal else None,
        _price_fields(draft),
        tag(
            "div",
            tag("output", "", id="price", aria_live="polite"),
            tag("button", "Ask", type="submit", class_="primary", title="Ctrl + Enter"),
            class_="act",
        ),
        id="question",
        method="post",
        action="/ask-here",
        class_="card",
    )


def _price_fields(draft: EditorText) -> Html:
    def radio(value: str, *words: object) -> Html:
        button = tag("input", type="radio", name="by", value=value, checked=value == draft.by, id=f"by-{value}")
        return tag("div", button, tag("label", words, for_=f"by-{value}"), class_="choice")

    epsilon = tag(
        "input", name="epsilon", value=draft.epsilon, inputmode="decimal", size="8", aria_label="epsilon", id="epsilon"
    )
    margin = tag(
        "input", name="margin", value=draft.margin, inputmode="decimal", size="8", aria_label="margin", id="margin"
    )
    column = tag(
        "input",
        name="column",
        value=draft.column,
        size="12",
        aria_label="column of the margin; the first number, if left empty",
        placeholder="first number",
        list="columns",
        id="column",
    )
    share = tag(
        "input",
        name="share",
        value=draft.share,
        size="8",
        aria_label="share of the budget",
        placeholder="2%",
        id="share",
    )
    household = tag(
        "input",
        name="household",
        inputmode="numeric",
        size="4",
        aria_label="people whose loss together is shown",
        placeholder="4",
        id="household",
    )
    return tag(
        "fieldset",
        tag("legend", "What may it cost, or how exact must it be?"),
        tag("div", radio("epsilon", "at most ε"), epsilon, class_="pair"),
        tag("div", radio("margin", "within ±"), margin, tag("span", "for"), column, class_="pair"),
        tag("div", radio("share", "a share of the budget"), share, class_="pair"),
        tag("div", tag("span", "for a household of"), household, class_="pair"),
        tag("datalist", id="columns"),
    )


def _example(tables: Sequence[dict[str, Any]]) -> str:
    for table in tables:
        keys = [column["name"] for column in table["columns"] if isinstance(column.get("values"), list)]
        if not table["public"]:
            key = f"{keys[0]}, " if keys else ""
            group = f"\nGROUP BY {keys[0]}" if keys else ""
            return f"SELECT {key}COUNT(*) AS n\nFROM {table['name']}{group}"
    return "SELECT 1"


def refusal_view(refusal: Refusal, sql: str = "") -> Html:
    """Return a refusal: what, why, what next, and the line of the question with a mark below the place."""
    place = position_of(refusal)
    marked = None
    if place is not None and sql:
        lines = sql.splitlines() or [""]
        line, column = min(place[0], len(lines)), place[1]
        marked = tag("pre", f"{lines[line - 1]}\n{' ' * (column - 1)}^", class_="marked")
    return tag(
        "div",
        tag("p", tag("strong", refusal.what), " ", refusal.why),
        marked,
        tag("p", refusal.remedy),
        tag("p", tag("code", refusal.code), f" · {_charged(refusal)}"),
        class_="refusal",
        role="alert",
        id="refusal",
    )


def _charged(refusal: Refusal) -> str:
    if refusal.code in _AFTER_THE_CHARGE:
        return "if it was charged, it stays charged: the history says so"
    return "nothing was charged"


def refusal_page(dataset: str, refusal: Refusal) -> Html:
    """Return a page that says why there is none."""
    back = tag("p", tag("a", "Back to the question", href="/"))
    return page(
        "Refused",
        tag("main", tag("p", "sfumato", class_="brand"), refusal_view(refusal), back, class_="login"),
        dataset,
    )


def _notes(notes: Sequence[str]) -> list[Html]:
    """Return the first notes as paragraphs, and the others to unfold."""
    first, rest = notes[:MAX_PRINTED_NOTES], notes[MAX_PRINTED_NOTES:]
    shown = [tag("p", note, class_="note") for note in first]
    unfolded = [tag("p", note, class_="note") for note in rest]
    return [*shown, tag("details", tag("summary", more_notes(len(rest))), unfolded)] if rest else shown


def answer_view(desk_url: str, dataset: str, sql: str, price: dict[str, object], release: Release, day: str) -> Html:
    """Return an answer: table, chart, price, downloads, citation and the line of Python that does the same."""
    kept = release.receipt.sequence is not None
    receipt = release.receipt.id
    drawn = numbers_of(release) if kept and 1 < len(release) <= MOST_BARS else []
    return tag(
        "section",
        tag("h2", "Answer"),
        tag("p", _said(release), class_="hint"),
        [_chart(receipt, name) for name in drawn[:2]],
        _answer_table(release),
        _notes(release.notes),
        tag("h3", "Take it along"),
        _downloads(receipt) if kept else _exact_downloads(sql),
        _copied("Cite it", citation(dataset, sql, release, day)),
        _copied("The same in Python", python_line(desk_url, sql, price)),
        class_="card answer",
        id="answer",
        tabindex="-1",
    )


def _said(release: Release) -> str:
    if release.receipt.sequence is None:
        return "Exact and free: it uses public tables only."
    rows = f"{len(release):,} rows" if len(release) != 1 else "1 row"
    return f"{rows} for {loss_text(release.loss)}. The truth lies within ± in 95 % of cases. Opening it again is free."


def _chart(receipt: str, column: str) -> Html:
    light, dark = (
        f"/answers/{receipt}/chart.svg?theme={theme}&column={_quoted(column)}" for theme in ("light", "dark")
    )
    picture = tag(
        "picture",
        tag("source", srcset=dark, media="(prefers-color-scheme: dark)"),
        tag("img", src=light, alt=f"Bars of {column} with error bars at 95 %. The table below has the same numbers."),
    )
    return tag("figure", picture)


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))


def _answer_table(release: Release) -> Html:
    ends = release.intervals()
    rows = release.rows()[:SHOWN]
    numbers = {
        name
        for name, values in zip(release.columns, release.values, strict=True)
        if any(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    }
    heads = [tag("th", name, scope="col", class_="number" if name in numbers else None) for name in release.columns]
    body = []
    for row, end in zip(rows, ends, strict=False):
        cells = []
        for place, name in enumerate(release.columns):
            pair = end[name] if isinstance(end[name], tuple) else None
            text = shown_value(row[name], pair, release.truncation_of(name))
            if place == 0 and name not in numbers:
                cells.append(tag("th", text, scope="row"))
            else:
                title = f"{pair[0]} to {pair[1]}" if pair else None
                cells.append(tag("td", text, class_="number" if name in numbers else None, title=title))
        body.append(tag("tr", cells))
    more = tag("p", f"The first {SHOWN} rows; downloads have all.", class_="hint") if len(release) > SHOWN else None
    table = tag("table", tag("caption", "± is at 95 %"), tag("thead", tag("tr", heads)), tag("tbody", body))
    return tag("div", table, more, class_="scroll", tabindex="0", role="region", aria_label="Rows of the answer")


def _downloads(receipt: str) -> Html:
    links = [
        tag("a", words, href=f"/answers/{receipt}.{form}", download=True, class_="button")
        for form, words in (("csv", "CSV"), ("arrow", "Arrow"), ("json", "JSON"))
    ]
    return tag("p", links, class_="downloads")


def _exact_downloads(sql: str) -> Html:
    buttons = [
        tag("button", words, type="submit", name="format", value=form, class_="button")
        for form, words in (("csv", "CSV"), ("arrow", "Arrow"), ("json", "JSON"))
    ]
    return tag(
        "form",
        tag("input", type="hidden", name="sql", value=sql),
        buttons,
        method="post",
        action="/download",
        class_="downloads",
    )


def _copied(title: str, text: str) -> Html:
    return tag(
        "div",
        tag("h4", title),
        tag("pre", text, class_="copied", tabindex="0"),
        tag("button", "Copy", type="button", class_="quiet copy"),
        class_="take",
    )
