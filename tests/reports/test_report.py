"""The report answers a stranger's questions, in every format; what people typed stays text."""

import re
from datetime import UTC, datetime
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.made_up_clinic import fresh_clinic
from tests.refusals import refusing

import sfumato
from sfumato.accounting.loss import PrivacyLoss
from sfumato.cli import main
from sfumato.errors import LedgerDamaged
from sfumato.reports.formats import FORMATS, report_html, report_markdown
from sfumato.reports.promise import guess_chance
from sfumato.reports.report import make_report

BY_DEPT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
NOW = datetime(2026, 1, 2, tzinfo=UTC)

COUNCIL = {
    "Who is protected?": r"Each person in the data, with all their rows together",
    "Can anyone look up my record?": r"Questions for rows of people, or for one group per person, are refused",
    "Which facts about me can be used?": r"visits\.cost",
    "How sure can someone become about me?": r"at most 95\.3 %",
    "And about my family?": r"household of 4 people .* ε = 12",
    "Does the limit come back every month?": r"it does not renew",
    "Who has asked, and how often?": r"research",
    "How much is used?": r"10\.0 % of the budget is used",
    "How much was revealed so far?": r"at most ε = 0\.3, δ = 1e-7",
    "What do we have to trust?": r"departments",
    "Has anyone reviewed it?": r"No independent party has reviewed the code",
    "How can we check later that nothing was changed?": r"sfumato verify POLICY --receipt \d+:[0-9a-f]{64}",
    "Against whom does it not protect?": r"Not against the data owner",
    "Did the owner make exceptions?": r"research .* beyond the budget",
    "Can the employer see what was asked?": r"texts of questions are left out",
}
"""The questions of docs/report.md, and what the report says to each."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policy = fresh_clinic(tmp_path_factory.mktemp("report"))
    with sfumato.open(policy) as database, database.as_analyst("research") as research:
        database.ask(BY_DEPT, epsilon="0.2")
        research.ask(BY_SEX, epsilon="0.1")
        filed = research.requests.file("SELECT COUNT(*) AS n FROM patients", epsilon="1.5", reason="r")
        database.requests.approve(filed.id)
    return policy


def test_a_works_council_finds_each_answer_where_the_page_says(asked: Path) -> None:
    """The page has the questions and the part of the report that answers each; the words are looked for there."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| ([^|]+\?) \| ([^|]+) \|$", page))
    assert rows.keys() == COUNCIL.keys()
    text = report_markdown(make_report(asked, now=NOW))
    for question, heading in rows.items():
        part = re.search(rf"(?ms)^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text)
        assert part, heading
        assert re.search(COUNCIL[question], part[1], re.DOTALL), question


def test_exceptions_are_listed_with_their_state(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    assert "Exceptions" not in report_markdown(make_report(policy))
    with sfumato.open(policy) as database, database.as_analyst("research") as research:
        for place, epsilon in enumerate(("1.125", "1.5", "1.75")):
            filed = research.requests.file(
                "SELECT COUNT(*) AS n FROM patients", epsilon=epsilon, reason="secret reason"
            )
            if place:
                database.requests.approve(filed.id)
        research.ask("SELECT COUNT(*) AS n FROM patients", epsilon="1.75")
    text = report_markdown(make_report(policy))
    assert re.search(r"\| research \| 1\.75 \| used \| beyond the budget \|", text)
    assert re.search(r"\| research \| 1\.5 \| approved \| beyond the budget \|", text)
    assert "1.125" not in text  # it waits: nothing was granted
    assert "secret reason" not in text


def test_html_says_the_same_as_markdown(asked: Path) -> None:
    report = make_report(asked, now=NOW)
    page = re.sub(r"(?s)<style>.*?</style>|<title>.*?</title>", "", report_html(report))
    words = re.findall(r"\w+", re.sub(r"<[^>]+>", " ", page).replace("&quot;", '"').replace("&#x27;", "'"))
    marked = re.sub(r"&#\d+;|\\_", " ", report_markdown(report))
    assert set(words) - set(re.findall(r"\w+", marked)) == set()


def test_totals_are_the_sums_of_the_ledger(asked: Path) -> None:
    text = report_markdown(make_report(asked, now=NOW))
    assert "| visits | 1 | 0.2 | 0 |" in text
    assert "| patients | 1 | 0.1 | 0 |" in text
    assert "| research | 1 | 0.1 | 0 |" in text
    assert re.search(r"\| \d{4}-\d\d \| 2 \| 0\.3 \| 0 \|", text)


def test_every_account_is_listed_with_its_cap_and_no_total_is_below_the_ledgers(asked: Path) -> None:
    text = report_markdown(make_report(asked, now=NOW))
    budgets = text[text.index("Budgets") : text.index("What was answered")]
    assert "| (data owner): the whole dataset | 3 | 10.0 % | 2.7 |" in budgets
    assert "| research | 1 | 10.0 % | 0.9 |" in budgets
    with sfumato.open(asked) as owner:
        found = re.search(r"revealed at most ε = ([0-9.]+), δ", text)
        assert found
        assert Fraction(found[1]) >= owner.budget().spent.epsilon == Fraction("0.3")


@pytest.mark.parametrize("form", ["html", "md"])
def test_texts_of_questions_appear_only_when_the_owner_wants_them(asked: Path, form: str) -> None:
    assert b"FROM visits" not in FORMATS[form](make_report(asked))
    assert b"FROM visits" in FORMATS[form](make_report(asked, questions=True))


def test_the_ledger_contains_the_head_of_the_report(asked: Path) -> None:
    found = re.search(r"--receipt (\d+:[0-9a-f]{64})", report_markdown(make_report(asked)))
    assert found
    assert CliRunner().invoke(main, ["verify", str(asked), "--receipt", found[1]]).exit_code == 0


def test_the_data_may_be_away_and_nothing_is_charged(asked: Path, tmp_path: Path) -> None:
    (asked.parent / "data").rename(tmp_path / "away")
    try:
        before = make_report(asked, now=NOW)
        assert make_report(asked, now=NOW) == before
    finally:
        (tmp_path / "away").rename(asked.parent / "data")


def test_a_dataset_that_was_never_asked_has_a_report(tmp_path: Path) -> None:
    assert "Nothing was answered yet" in report_markdown(make_report(fresh_clinic(tmp_path)))


def test_a_damaged_ledger_has_no_report(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    with sfumato.open(policy) as database:
        database.ask(BY_DEPT, epsilon="0.2")
    ledger = tmp_path / "clinic.ledger"
    content = ledger.read_bytes()
    assert b"GROUP BY dept" in content
    ledger.write_bytes(content.replace(b"GROUP BY dept", b"GROUP BY debt"))
    with pytest.raises(LedgerDamaged):
        make_report(policy)


HOSTILE = "<script>alert(1)< #panic() $x$ | [a](b) `c` *d*"


def _hostile(folder: Path) -> Path:
    policy = fresh_clinic(folder)
    policy.write_text(policy.read_text().replace('name = "clinic"', f'name = "{HOSTILE}"'))
    with sfumato.open(policy) as database:
        question = "SELECT COUNT(*) AS n FROM patients WHERE district = $1".replace("$1", f"'{HOSTILE}'")
        database.ask(question, epsilon="0.1")
    return policy


def test_what_people_typed_is_never_markup(tmp_path: Path) -> None:
    report = make_report(_hostile(tmp_path), questions=True)
    page, text, pdf = (FORMATS[form](report) for form in ("html", "md", "pdf"))
    assert b"<script" not in page
    assert b"&lt;script" in page
    assert b"<script" not in text
    assert b"[a](b)" not in text
    assert pdf.startswith(b"%PDF-")  # "#panic()" as markup would end the compiler


def test_the_page_to_sign_is_one_page(asked: Path) -> None:
    report = make_report(asked, now=NOW)
    pages = len(re.findall(rb"/Type ?/Page\b", FORMATS["pdf"](report)))
    alone = type(report)(report.title, report.subtitle, report.summary, ())
    assert len(re.findall(rb"/Type ?/Page\b", FORMATS["pdf"](alone))) == 2  # the second has the heading alone
    assert pages in (2, 3)


@pytest.mark.parametrize("form", FORMATS)
def test_the_command_writes_each_format(asked: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"report.{form}"
    run = CliRunner().invoke(main, ["report", str(asked), "--output", str(file)])
    assert run.exit_code == 0, run.output
    assert file.stat().st_size > 1000
    assert CliRunner().invoke(main, ["report", str(asked), "--format", form]).exit_code == 0


def test_a_report_is_not_written_among_the_data(asked: Path) -> None:
    run = CliRunner().invoke(main, ["report", str(asked), "-o", str(asked.parent / "data" / "report.md")])
    assert run.exit_code == 2
    assert CliRunner().invoke(main, ["report", str(asked), "-o", "report.docx"]).exit_code == 2


def _randomized_response(epsilon: float, delta: float) -> float:
    """Return the success of the best guess against the worst (ε, δ)-DP mechanism, which is known exactly [KOV15]."""
    return delta + (1 - delta) * exp(epsilon) / (1 + exp(epsilon))


@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "3", "10", "63", "100"])
@pytest.mark.parametrize("delta", ["0", "0.000001", "0.1", "1"])
def test_no_attacker_guesses_better_than_the_report_says(epsilon: str, delta: str) -> None:
    stated = guess_chance(PrivacyLoss(Fraction(epsilon), Fraction(delta)))
    worst = Fraction(_randomized_response(float(epsilon), float(delta)))
    assert worst - Fraction(1, 10**12) <= stated <= 1
    assert stated <= worst + Fraction(1, 10**6)


def test_a_missing_policy_is_refused(tmp_path: Path) -> None:
    with refusing():
        make_report(tmp_path / "nowhere.toml")
