"""The console: a person's whole way in a real Chromium, and what each page promises without one."""

import json
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.server.browsing import CHROMIUM, DRIVER, browser, until
from tests.server.clinic import BY_DEPT, COUNT, make_clinic
from tests.server.running import Reply, Running

import sfumato
from sfumato.errors import BadSql, EngineFailed, EntropyFailed, Refusal
from sfumato.release.release import Release
from sfumato.release.rendering.svg import THEMES, chart_svg, plain_chart, themed
from sfumato.server.console.views import refusal_view

with_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's chromium and chromium-driver")
TOO_WIDE = """
    const right = document.documentElement.clientWidth + 1;
    const seen = [...document.querySelectorAll('body *')].filter((one) => !one.closest('.scroll, .paint, pre'));
    return seen.filter((one) => one.getBoundingClientRect().right > right).map((one) => one.outerHTML.slice(0, 80))
"""


def send(
    server: Running,
    method: str,
    path: str,
    form: dict[str, str] | None = None,
    name: str | None = "research",
    **headers: str,
) -> Reply:
    """Send what a browser would, with the cookie of somebody who has logged in."""
    given = {"Origin": server.url.rstrip("/"), "Accept": "text/html"} if method == "POST" else {"Accept": "text/html"}
    if form is not None:
        given["Content-Type"] = "application/x-www-form-urlencoded"
    if name is not None:
        given["Cookie"] = server.cookie(name)
    given |= {key.replace("_", "-"): value for key, value in headers.items()}
    return server.request(method, path, None if form is None else urlencode(form), given, None)


@with_browser
def test_a_person_goes_all_the_way_from_the_token_to_a_downloaded_answer(server: Running, tmp_path: Path) -> None:
    with browser(tmp_path) as window:
        window.get(server.url)
        assert window.title == "Open · clinic"
        window.find_element(By.ID, "token").send_keys("wrong" + Keys.ENTER)
        assert "opens nothing" in until(window, lambda w: w.find_element(By.CSS_SELECTOR, ".refusal")).text
        window.find_element(By.ID, "token").send_keys(server.token() + Keys.ENTER)
        area = until(window, lambda w: w.find_element(By.ID, "sql"))
        assert "0 to 100" in window.find_element(By.CSS_SELECTOR, ".side").text
        assert server.token() not in window.execute_script("return document.cookie")

        area.send_keys("SELECT de")
        until(window, lambda w: w.find_elements(By.CSS_SELECTOR, "#words li"))
        area.send_keys(Keys.TAB + ", COUT(*) AS n FROM visits GROUP BY dept")
        price = window.find_element(By.ID, "price")
        until(window, lambda _: "no function `cout`" in price.text)
        assert until(window, lambda w: w.find_element(By.CSS_SELECTOR, ".paint .wrong")).text == "COUT"
        assert area.get_attribute("value").startswith("SELECT dept,")

        window.execute_script("arguments[0].value = ''", area)
        area.send_keys(BY_DEPT.replace("GROUP", "WHERE cost < 71 GROUP"))  # no other test has paid for it
        until(window, lambda _: "n ±" in price.text and "ε = 0.1" in price.text)
        margin = window.find_element(By.ID, "margin")
        margin.send_keys("25")
        until(window, lambda _: "n ± 25" in price.text or "n ± 24" in price.text)
        area.send_keys(Keys.CONTROL + Keys.ENTER)
        until(window, lambda w: "/answers/" in w.current_url)
        rows = window.find_elements(By.CSS_SELECTOR, ".answer tbody tr")
        assert [row.find_element(By.TAG_NAME, "th").text for row in rows] == ["er", "icu", "surgery"]
        assert "±" in rows[0].text
        drawn = "const one = document.querySelector('.answer img'); return one.complete && one.naturalWidth > 100"
        until(window, lambda w: w.execute_script(drawn))
        assert window.find_element(By.CSS_SELECTOR, ".gauge .spent").size["width"] > 0
        assert "Receipt" in window.find_element(By.CSS_SELECTOR, ".answer").text
        assert "within={'n': '25'}" in window.find_element(By.CSS_SELECTOR, ".answer").text

        for ending in ("csv", "arrow"):
            window.find_element(By.CSS_SELECTOR, f"a[href$='.{ending}']").click()
            until(window, lambda _, ending=ending: list(tmp_path.glob(f"*.{ending}")))
        kept = server.get("/history").json[0]["receipt"]
        answer = server.get(f"/releases/{kept}").json
        table = pa.ipc.open_file(next(tmp_path.glob("*.arrow")).read_bytes()).read_all()
        assert table.column("n").to_pylist() == [row["n"] for row in answer["rows"]]
        assert next(tmp_path.glob("*.csv")).read_text().startswith("dept,n,cost,n_low")

        before = server.spent()
        window.get(server.url)
        until(window, lambda w: w.find_element(By.CSS_SELECTOR, ".side ol a")).click()
        until(window, lambda w: "/answers/" in w.current_url)
        assert server.spent() == before
        window.set_window_size(390, 844)
        assert window.execute_script(TOO_WIDE) == []  # nothing is cut off on a phone

        window.find_element(By.CSS_SELECTOR, "form[action='/logout'] button").click()
        until(window, lambda w: w.find_element(By.ID, "token"))
        noisy = [
            one
            for one in window.get_log("browser")
            if "Content Security" in one["message"] or "Uncaught" in one["message"]
        ]
        assert noisy == []


@with_browser
def test_the_owner_sees_accounts_grants_snapshot_ledger_and_bounds(server: Running, tmp_path: Path) -> None:
    with browser(tmp_path, dark=True) as window:
        window.get(server.url)
        window.find_element(By.ID, "token").send_keys(server.token("") + Keys.ENTER)
        until(window, lambda w: w.find_element(By.LINK_TEXT, "Owner")).click()
        until(window, lambda w: "Accounts" in w.find_element(By.TAG_NAME, "main").text)
        shown = window.find_element(By.TAG_NAME, "main").text
        assert "research" in shown
        assert "at most 4 rows" in shown
        window.find_element(By.CSS_SELECTOR, "form[action='/owner/verify'] button").click()
        until(window, lambda w: "every hash and every sum" in w.find_element(By.TAG_NAME, "main").text)
        visitor = window.find_element(By.XPATH, "//tr[th='visitor']")
        visitor.find_element(By.CSS_SELECTOR, "form[action='/owner/grant'] button").click()
        token = until(window, lambda w: w.find_element(By.CSS_SELECTOR, ".notice code").text)
        given = {"Authorization": f"Bearer {token}"}
        assert server.request("GET", "/budget", headers=given, name=None).status == 200
        window.find_element(By.XPATH, "//tr[th='visitor']").find_element(
            By.CSS_SELECTOR, "form[action='/owner/revoke'] button"
        ).click()
        until(window, lambda _: server.request("GET", "/budget", headers=given, name=None).status == 401)


def test_the_cookie_is_for_this_site_alone_and_scripts_cannot_read_it(server: Running) -> None:
    reply = send(server, "POST", "/login", {"token": server.token()}, None)
    assert reply.status == 303
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_what_changes_something_is_taken_from_our_own_pages_only(server: Running) -> None:
    before = server.spent()
    form = {"sql": BY_DEPT, "by": "epsilon", "epsilon": "1"}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9"):
        assert send(server, "POST", "/ask-here", form, Origin=origin).status == 403
    alone = {"Cookie": server.cookie(), "Content-Type": "application/x-www-form-urlencoded"}
    assert server.request("POST", "/ask-here", urlencode(form), alone, None).status == 403
    assert server.spent() == before


def test_the_cookie_opens_no_page_for_programs_and_a_token_no_page_for_people(server: Running) -> None:
    cookie = {"Cookie": server.cookie()}
    assert server.request("GET", "/budget", headers=cookie, name=None).status == 401
    assert b"Your token" in server.get("/").body
    for path in ("/owner", "/answers/" + "0" * 32):
        assert server.get(path).status == 401
        assert send(server, "GET", path, name=None).status == 303  # a person comes to the way in


def test_an_analyst_has_no_view_of_the_owner(server: Running) -> None:
    assert send(server, "GET", "/owner", Accept="*/*").status == 401
    for verb in ("verify", "grant", "revoke"):
        assert send(server, "POST", f"/owner/{verb}", {"name": "press"}, Accept="*/*").status == 401


def test_without_script_everything_works_by_forms(server: Running) -> None:
    asked = send(server, "POST", "/ask-here", {"sql": BY_DEPT, "by": "epsilon", "epsilon": "0.25", "margin": ""})
    assert asked.status == 303
    page = send(server, "GET", asked.headers["location"].partition("#")[0])
    assert b"Take it along" in page.body
    refused = send(server, "POST", "/ask-here", {"sql": "SELECT COUT(*) FROM visits", "epsilon": "1"})
    assert refused.status == 400
    assert b'class="marked"' in refused.body
    public = send(server, "POST", "/ask-here", {"sql": "SELECT * FROM wards", "epsilon": ""})
    assert b"Exact and free" in public.body
    table = send(server, "POST", "/download", {"sql": "SELECT dept, floor FROM wards ORDER BY 1", "format": "csv"})
    assert table.body.startswith(b"dept,floor\n")
    missing = send(server, "GET", f"/answers/{'0' * 32}")
    assert missing.status == 404
    assert b"Back to the question" in missing.body


def test_what_is_typed_is_never_markup(server: Running) -> None:
    sql = "SELECT '<script>alert(1)</script>' AS \"<b>x\" FROM wards"
    page = send(server, "POST", "/ask-here", {"sql": sql, "epsilon": '"><img src=x>'})
    assert b"<script>alert" not in page.body
    assert b"<img src=x>" not in page.body
    assert b"<b>x" not in page.body


def test_no_page_names_anything_outside(server: Running) -> None:
    asked = send(server, "POST", "/ask-here", {"sql": BY_DEPT, "by": "epsilon", "epsilon": "0.25"})
    pages = [
        "/",
        "/static/console.css",
        "/static/console.js",
        "/static/icon.svg",
        asked.headers["location"].partition("#")[0],
    ]
    for path in pages:
        body = send(server, "GET", path).body.decode()
        outside = (
            body.replace(server.url, "")
            .replace(server.url.replace("/", "&#x2F;"), "")
            .replace("http://www.w3.org/2000/svg", "")
        )
        assert "http://" not in outside
        assert "https://" not in outside
        assert "onclick" not in body
        assert " style=" not in body
    assert send(server, "GET", "/static/../pages.py").status == 404
    assert send(server, "GET", "/static/pages.py").status == 404


class _Labels(HTMLParser):
    """Finds fields without a name for those who cannot see."""

    def __init__(self) -> None:
        super().__init__()
        self.labelled: set[str | None] = set()
        self.fields: list[dict[str, str | None]] = []
        self.pictures: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "label":
            self.labelled.add(given.get("for"))
        if tag in ("input", "textarea") and given.get("type") != "hidden":
            self.fields.append(given)
        if tag in ("img", "svg"):
            self.pictures.append(given)


def test_every_field_has_a_label_and_every_picture_words(server: Running) -> None:
    asked = send(server, "POST", "/ask-here", {"sql": BY_DEPT, "by": "epsilon", "epsilon": "0.25"})
    for path, name in (("/", None), (asked.headers["location"].partition("#")[0], "research")):
        found = _Labels()
        found.feed(send(server, "GET", path, name=name).body.decode())
        assert [one for one in found.fields if one.get("id") not in found.labelled and "aria-label" not in one] == []
        assert [one for one in found.pictures if not (one.get("alt") or one.get("aria-label"))] == []


@pytest.mark.parametrize("theme", THEMES)
def test_ink_on_paper_has_enough_contrast(theme: str) -> None:
    """WCAG AA asks for 4.5 to 1 for text."""
    css = (Path(sfumato.__file__).parent / "server/console/static/console.css").read_text()
    light, dark = css.split("@media (prefers-color-scheme: dark)", 1)
    part = light if theme == "light" else dark
    named = {
        line.split(":")[0].strip(): line.split(":")[1].strip(" ;")
        for line in part.splitlines()
        if line.strip().startswith("--") and "#" in line
    }
    pairs = [
        ("--ink", "--paper"),
        ("--ink", "--sheet"),
        ("--soft", "--paper"),
        ("--soft", "--sheet"),
        ("--accent", "--sheet"),
    ]
    pairs += [("--accent-ink", "--accent"), ("--warn", "--sheet"), ("--ink", "--warn-paper"), ("--keyword", "--field")]
    pairs += [("--text", "--field"), ("--figure", "--field"), ("--warn", "--warn-paper")]
    for ink, paper in pairs:
        assert _contrast(named[ink], named[paper]) >= 4.5, (ink, paper)


def _contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.fixture(scope="module")
def release(server: Running) -> Release:
    with sfumato.connect(server.url, token=server.token()) as database:
        return database.ask(BY_DEPT, epsilon="0.25")


def test_a_chart_is_drawn_from_the_specification_of_plot(release: Release) -> None:
    specification = release.plot("n").to_dict()
    drawn = themed(specification, THEMES["dark"])
    assert drawn["data"] == specification["data"]
    assert "encoding" in json.dumps(specification)
    assert _without_looks(drawn) == _without_looks(specification)
    picture = chart_svg(release, "n", "light")
    assert picture is not None
    assert picture.startswith(b"<svg")
    assert b"href" not in picture
    assert chart_svg(release, "dept", "light") is None
    assert chart_svg(release, "n", "pink") is None
    assert plain_chart(release, "n", THEMES["light"]).count(b"<rect") == 3


def _without_looks(part: Any) -> Any:
    """Return a specification without colours and widths."""
    if isinstance(part, list):
        return [_without_looks(one) for one in part]
    if not isinstance(part, dict):
        return part
    looks = ("width", "config")
    return {
        key: _without_looks(one) for key, one in part.items() if key not in looks and not key.lower().endswith("color")
    }


def test_the_price_while_typing_is_free_and_for_pages_of_ours(server: Running) -> None:
    before = server.spent()
    given = {
        "Cookie": server.cookie(),
        "Content-Type": "application/json",
        "Origin": server.url.rstrip("/"),
    }
    reply = server.request("POST", "/price", json.dumps({"sql": BY_DEPT, "within": {"": "25"}}), given, None)
    assert reply.json["margins"]["n"] <= 25
    assert reply.json["price"].startswith(("costs ", "asked before", "free"))
    assert reply.json["together"] == ""
    four = {"sql": BY_DEPT, "epsilon": "1", "household": "4"}
    reply = server.request("POST", "/price", json.dumps(four), given, None)
    assert reply.json["together"].startswith("A household of 4 loses ε = 4, δ = 0 together")
    wrong = server.request("POST", "/price", json.dumps({**four, "household": "1001"}), given, None)
    assert (wrong.status, wrong.json["code"]) == (400, "bad_parameter")
    assert (
        server.request(
            "POST", "/price", json.dumps({"sql": BY_DEPT, "epsilon": "1"}), {**given, "Cookie": ""}, None
        ).status
        == 401
    )
    assert server.spent() == before


def test_an_answer_that_another_account_has_paid_for_opens_and_downloads(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path, top='answers = "shared"')
    with Running(policy, names=("research", "press")) as server:
        form = {"sql": COUNT, "by": "epsilon", "epsilon": "1"}
        paid = send(server, "POST", "/ask-here", form)
        assert paid.status == 303
        receipt = paid.headers["location"].split("/")[-1].split("#")[0]
        given = send(server, "POST", "/ask-here", form, name="press")
        assert given.status == 200
        assert f"/answers/{receipt}.csv" in given.body.decode()
        files = [send(server, "GET", f"/answers/{receipt}.csv", name=name) for name in ("research", "press")]
        assert [one.status for one in files] == [200, 200]
        assert files[0].body == files[1].body
        assert send(server, "GET", f"/answers/{receipt}", name="press").status == 404
        with sfumato.connect(server.url, token=server.token("press")) as remote:
            release = remote.ask(COUNT, epsilon="1")
            assert release.intervals("0.9") != release.intervals()
            assert not remote.history()
            assert remote.budget().spent.epsilon == 0


@pytest.mark.parametrize("refusal", [EngineFailed(), EntropyFailed("No bits.", "Why.", "Next.")])
def test_no_page_says_that_nothing_was_charged_when_something_may_have_been(refusal: Refusal) -> None:
    assert "nothing was charged" not in refusal_view(refusal)
    assert "stays charged" in refusal_view(refusal)
    assert "nothing was charged" in refusal_view(BadSql("At 1:1, `x`: no.", "Why.", "Next."))


def test_a_dashboard_is_made_of_old_questions_and_shown_as_one_page(server: Running) -> None:
    assert send(server, "POST", "/ask-here", {"sql": BY_DEPT, "epsilon": "0.31", "by": "epsilon"}).status == 303
    page = send(server, "GET", "/dashboard").body.decode()
    pick = page.partition('name="pick-')[2].partition('"')[0]
    form = {f"pick-{pick}": "1", "title": "Depts </textarea>", "epsilon": "0.4", "period": "month"}
    drafted = send(server, "POST", "/dashboard/draft", form).body.decode()
    assert "[[tiles]]" in drafted
    assert "</textarea>&#34;" not in drafted
    text = f'epsilon = "0.4"\nperiod = "month"\n[[tiles]]\nsql = """{BY_DEPT}"""\n'
    shown = send(server, "POST", "/dashboard/page", {"file": text})
    assert shown.status == 200
    assert b"<svg" in shown.body
    assert "sandbox" in shown.headers["content-security-policy"]
    before = server.spent()
    again = send(server, "POST", "/dashboard/page", {"file": text}).body  # free; charts number their parts anew
    assert again.partition(b"<footer>")[2] == shown.body.partition(b"<footer>")[2]
    assert server.spent() == before
    saved = send(server, "POST", "/dashboard/file", {"file": text})
    assert (saved.body.decode(), "attachment" in saved.headers["content-disposition"]) == (text, True)
    assert send(server, "POST", "/dashboard/page", {"file": "tiles = 3"}).status == 400
    assert send(server, "POST", "/dashboard/page", {"file": text}, Origin="https://elsewhere").status == 403


@with_browser
def test_a_button_refines_an_answer_and_the_history_shows_the_chain(server: Running, tmp_path: Path) -> None:
    with browser(tmp_path) as window:
        window.get(server.url)
        window.find_element(By.ID, "token").send_keys(server.token() + Keys.ENTER)
        area = until(window, lambda w: w.find_element(By.ID, "sql"))
        area.send_keys("SELECT dept, COUNT(*) AS n FROM visits WHERE cost < 37 GROUP BY dept")
        area.send_keys(Keys.CONTROL + Keys.ENTER)
        until(window, lambda w: "/answers/" in w.current_url)
        first = server.get("/history").json[0]
        until(window, lambda w: "free: from your answer of " in w.find_element(By.ID, "price").text)
        button = window.find_element(By.CSS_SELECTOR, ".refine button")
        assert button.text == "Refine for 0.1 more"
        window.save_screenshot(str(tmp_path / "refine.png"))
        before = server.spent()
        button.click()
        until(window, lambda w: "/answers/" in w.current_url and first["receipt"] not in w.current_url)
        second = server.get("/history").json[0]
        assert (second["refines"], second["epsilon"]) == (first["receipt"], "1/10")
        assert Fraction(server.spent()) - Fraction(before) == Fraction(1, 10)
        chain = until(window, lambda w: w.find_element(By.CSS_SELECTOR, ".side ol small")).text
        assert f"#{second['sequence']} refines #{first['sequence']}" in chain
        window.set_window_size(390, 844)
        assert window.execute_script(TOO_WIDE) == []


def test_an_answer_from_earlier_answers_says_so_and_downloads(server: Running) -> None:
    send(server, "POST", "/ask-here", {"sql": f"{BY_DEPT.replace('GROUP', 'WHERE cost < 36 GROUP')}", "epsilon": "0.2"})
    total = f"{COUNT} WHERE cost < 36 AND dept IN ('er', 'icu', 'surgery')"
    form = {"sql": total, "by": "epsilon", "epsilon": "0.01"}
    page = send(server, "POST", "/ask-here", form)
    assert b"free: computed from earlier answers" in page.body
    assert b"public tables only" not in page.body
    before = server.spent()
    assert send(server, "POST", "/download", {**form, "format": "csv"}).body.startswith(b"n,")
    assert server.spent() == before


class _HiddenFields(HTMLParser):
    """The hidden fields of the form of one class."""

    def __init__(self, page: str, form: str) -> None:
        super().__init__()
        self.form, self.inside, self.found = form, False, dict[str, str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inside = given.get("class") == self.form if tag == "form" else self.inside
        if self.inside and tag == "input":
            self.found[str(given["name"])] = given["value"] or ""


def test_no_button_charges_more_than_its_page_said_after_another_snapshot(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    with Running(policy) as server:
        counts = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
        paid = send(server, "POST", "/ask-here", {"sql": counts, "by": "epsilon", "epsilon": "0.2"})
        page = send(server, "GET", paid.headers["location"].partition("#")[0]).body.decode()
        assert "Refine for 0.2 more" in page
        refine = _HiddenFields(page, "refine").found
        total = {"sql": f"{COUNT} WHERE dept IN ('er', 'icu', 'surgery')", "by": "epsilon", "epsilon": "0.01"}
        page = send(server, "POST", "/ask-here", total).body.decode()
        assert "free: computed from earlier answers" in page
        download = {**_HiddenFields(page, "downloads").found, "format": "csv"}
        before = server.spent()
        with sfumato.open(policy) as owner:
            owner.refresh()
        for path, form in (("/ask-here", refine), ("/download", download)):
            refused = send(server, "POST", path, form)
            assert refused.status == 402
            assert "costs more now than the page said" in refused.body.decode()
        assert server.spent() == before
        assert send(server, "POST", "/ask-here", {**refine, "offered": ""}).status == 303  # asked in the editor
        assert Fraction(server.spent()) - Fraction(before) == Fraction(refine["epsilon"])
