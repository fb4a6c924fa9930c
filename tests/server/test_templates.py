"""The console's templates: no text changes a page's elements, and no template runs or loads anything else."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup
from tests.server.clinic import BY_DEPT, make_clinic

import sfumato
from sfumato.errors import BadSql
from sfumato.ledger.budget import Budget
from sfumato.ledger.history import Entry
from sfumato.ledger.verifying import Verified
from sfumato.planning.quote import Quote
from sfumato.planning.refinement_offer import RefinementOffer
from sfumato.release.lazy_notes import LazyNotes
from sfumato.release.release import Release
from sfumato.release.rendering.svg import THEMES, plain_chart
from sfumato.server.console.templates import render
from sfumato.server.console.views import (
    Account,
    AskedQuestion,
    ConsolePage,
    EditorText,
    OwnerPage,
    answer_view,
    console_page,
    login_page,
    owner_page,
    refusal_page,
)
from sfumato.server.grants import Secrets

TEMPLATES = Path(sfumato.__file__).parent / "server/console/templates"
UNPRINTABLE = "\x1b]0;owned\x07 \u202egnp.exe \ud800"
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "closing tags": "</title></pre></textarea></svg><img src=x onerror=alert(1)>",
    "quotation mark": '" onfocus=alert(1) autofocus x="',
    "apostrophe": "' onfocus=alert(1) x='",
    "entities": "&lt;b&gt; &#60;b>",
    "template": "{{ 7 * 7 }} {% raw %}",
}


class _Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and every text that a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))
        self.texts.extend(value or "" for _, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        self.elements.append(("/", tag))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Release, Entry]]:
    with sfumato.open(make_clinic(tmp_path_factory.mktemp("clinic"))) as database:
        release = database.ask(BY_DEPT, epsilon="1")
        yield release, database.history()[0]


def _pages(text: str, release: Release, entry: Entry) -> dict[str, str]:
    """Return every page of the console with this text in every place that can hold a text."""
    budget = Budget(release.loss, release.loss, release.loss, Fraction(1))
    columns = (f"k{text}", f"n{text}", f"s{text}")
    hostile = replace(
        release,
        columns=columns,
        values=((text, text, None), *release.values[1:]),
        noted=LazyNotes.of([text]),
        _known={},
    )
    free = replace(hostile, receipt=replace(hostile.receipt, sequence=None))
    column = {"name": text, "type": text, "bounds": [text, text], "step": text, "values": [text]}
    tables = [
        {"name": text, "public": False, "unit": text, "rows_per_unit": 1, "columns": [column]},
        {"name": text, "public": True, "columns": [{**column, "values": text}]},
    ]
    draft = EditorText(text, text, text, text, text)
    history = [replace(entry, sql=text), replace(entry, sql=text, release=None, state=text)]
    refusal = BadSql(f"At 1:1, `{text}`: no.", text, text)
    page = ConsolePage(text, text, tables, budget, history, draft, None, refusal)
    owner = OwnerPage(text, budget, [Account(text, budget, text, 1)], text, True, text, [(text, text)], text, text)
    price: dict[str, object] = {"within": {text: text}}
    question = AskedQuestion(text, text, draft, price, text)
    offer = RefinementOffer(price, Quote(release.loss, {text: 1}, {}, ()))
    return {
        "login": login_page(text),
        "console": console_page(page),
        "answer": console_page(replace(page, answer=answer_view(question, hostile, offer))),
        "public": answer_view(question, free, None),
        "owner": owner_page(replace(owner, granted=(text, Secrets(text, text)))),
        "verified": owner_page(replace(owner, verified=Verified(1, text, release.loss))),
        "refused": refusal_page(text, refusal),
        "chart": plain_chart(hostile, columns[1], THEMES["light"]).decode(),
    }


@pytest.mark.parametrize("text", [*HOSTILE.values(), UNPRINTABLE], ids=[*HOSTILE, "unprintable"])
def test_no_text_changes_the_elements_of_a_page(text: str, asked: tuple[Release, Entry]) -> None:
    harmless, hostile = _pages("x", *asked), _pages(text, *asked)
    for name, page in hostile.items():
        assert _Elements(page).elements == _Elements(harmless[name]).elements, name


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_page_shows_every_text_as_it_is(text: str, asked: tuple[Release, Entry]) -> None:
    shown = {name: "\n".join(_Elements(page).texts) for name, page in _pages(text, *asked).items()}
    assert [name for name, texts in shown.items() if (text[:18] if name == "chart" else text) not in texts] == []


def test_a_page_holds_no_character_that_is_not_printable(asked: tuple[Release, Entry]) -> None:
    for page in _pages(UNPRINTABLE, *asked).values():
        assert page.replace("\n", "").isprintable()
        assert "\N{REPLACEMENT CHARACTER}]0;owned" in page


def test_a_name_that_a_template_does_not_get_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("login.html", dataset="clinic")


def test_markup_that_a_template_gets_is_not_escaped_twice() -> None:
    assert "<i>x</i>" in render("refused.html", dataset="clinic", refusal=Markup("<i>x</i>"))


@pytest.mark.parametrize("template", sorted(TEMPLATES.iterdir()), ids=lambda template: template.name)
def test_a_template_escapes_everything_and_has_no_script_style_or_address_of_its_own(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe|autoescape|\{%\s*raw", text)  # nothing turns escaping off
    assert not re.search(r"=\s*\{\{|='", text.replace("attribute='name'", "").replace("timespec='seconds'", ""))
    assert not re.search(r"(?i)<style|\sstyle=|\son\w+=|javascript:", text)
    assert re.findall(r"<script[^>]*>", text) == (
        ['<script src="/static/console.js" defer>'] if template.name == "page.html" else []
    )
    assert not re.search(r"https?://", text.replace('xmlns="http://www.w3.org/2000/svg"', ""))
