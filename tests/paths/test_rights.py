"""What a role may not use does not exist for its analysts, in every interface; a right never changes an answer.

Hidden names hold the letters `zzq`. They may stand in a refusal only where the analyst typed them.
"""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.server.running import WIRE, Running

import sfumato
from sfumato.agents.tools import Tools
from sfumato.database import Database
from sfumato.errors import BadPolicy, EngineFailed, Refusal, UnknownName
from sfumato.lab.audits.subject import schema_of
from sfumato.lab.generators.questions import questions
from sfumato.learn import PCA
from sfumato.measure import prepare_measurement
from sfumato.policy.canonical import canonical_text, policy_hash
from sfumato.policy.policy import HiddenUnit
from sfumato.policy.reading import read_policy
from sfumato.policy.rights import visible_policy
from sfumato.prepare import RequestedPrice
from sfumato.server.tables import tables_document
from sfumato.server.wire.pg_catalog.catalogue import Catalogue
from sfumato.synthesis import synthesize
from sfumato.terminal.prompt import completion_words

HIDDEN = "zzq"
POLICY: dict[str, Any] = {
    "name": "clinic",
    "answers": "shared",
    "preview": "synthetic",
    "budget": {"epsilon": 1000, "delta": "1e-6"},
    "tables": {
        "visits": {
            "unit": "zzq_person",
            "rows_per_unit": 3,
            "groups_per_unit": 2,
            "columns": {
                "zzq_person": {"type": "integer"},
                "dept": {"type": "text", "values": ["er", "icu"]},
                "cost": {"type": "integer", "bounds": [0, 9]},
                "ward": {"type": "text", "values": "zzq_wards.zzq_name"},
                "zzq_diagnosis": {"type": "text", "values": ["a", "b"]},
                "zzq_weight": {"type": "integer", "bounds": [0, 200], "total_per_unit": 300},
            },
        },
        "items": {
            "unit": "visits.zzq_person via visit = zzq_visit",
            "rows_per_unit": 4,
            "columns": {"visit": {"type": "integer"}, "amount": {"type": "integer", "bounds": [0, 9]}},
        },
        "staff": {"public": True},
        "zzq_wards": {"public": True, "columns": {"zzq_name": {"type": "text"}}},
        "zzq_bills": {"unit": "rows", "columns": {"sum": {"type": "integer", "bounds": [0, 9]}}},
    },
    "roles": {
        "statistician": {
            "tables": ["visits", "items", "Staff"],
            "columns": ["visits.dept", "cost", "visits.ward", "items.*", "staff.name"],
            "epsilon": 400,
            "price": "1%",
        },
    },
    "owners": ["vera"],
    "analysts": {
        "anna": {"roles": ["statistician"]},
        "zzq_otto": {"epsilon": 400, "price": 4},
    },
}
POLICY["tables"]["visits"]["columns"]["zzq_visit"] = {"type": "integer"}


def _write(place: Path, policy: dict[str, Any]) -> dict[str, Any]:
    folder = place / "data"
    folder.mkdir()
    rows = [f"{person % 30},{'er' if person % 3 else 'icu'},{person % 10},east,a,70,{person}" for person in range(90)]
    header = "zzq_person,dept,cost,ward,zzq_diagnosis,zzq_weight,zzq_visit"
    (folder / "visits.csv").write_text("\n".join([header, *rows]) + "\n")
    items = "\n".join(f"{row % 90},{row % 7}" for row in range(120))
    (folder / "items.csv").write_text(f"visit,amount\n{items}\n")
    (folder / "staff.csv").write_text("name,zzq_salary\nada,1\nbo,2\n")
    (folder / "zzq_wards.csv").write_text("zzq_name\neast\nwest\n")
    (folder / "zzq_bills.csv").write_text("sum\n1\n")
    return {**policy, "source": f"csv:{folder}", "ledger": f"sqlite:{place}/clinic.ledger"}


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with sfumato.open(_write(tmp_path_factory.mktemp("rights"), POLICY)) as database:
        yield database


@pytest.fixture(scope="module")
def anna(owner: Database) -> Iterator[Database]:
    with owner.as_analyst("Anna") as database:
        yield database


@pytest.fixture(scope="module")
def otto(owner: Database) -> Iterator[Database]:
    with owner.as_analyst("zzq_otto") as database:
        yield database


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The same dataset with an owner who never declared what is hidden; only a unit cannot be left out."""
    policy = deepcopy(POLICY)
    for name in [name for name in policy["tables"] if name.startswith(HIDDEN)]:
        if name != "zzq_wards":  # the values of `ward`
            del policy["tables"][name]
    del policy["tables"]["visits"]["columns"]["zzq_diagnosis"]
    policy["tables"]["visits"]["columns"].pop("zzq_weight")
    policy["roles"] = {"statistician": {"epsilon": 400, "price": "1%"}}  # may use all that is declared
    policy["analysts"] = {"anna": {"roles": ["statistician"]}}
    with sfumato.open(_write(tmp_path_factory.mktemp("without"), policy), analyst="anna") as database:
        yield database


def _outcome(action: Callable[[], object]) -> str:
    try:
        return str(action())
    except EngineFailed:
        raise
    except Refusal as refusal:
        return f"{refusal.code}: {refusal}"


def _corpus(owner: Database) -> list[str]:
    typed = questions(schema_of(owner.catalog))
    odd = [
        "SELECT * FROM visits",
        "SELECT * FROM staff",
        "SELECT COUNT(*), * FROM staff GROUP BY ALL",
        "SELECT person, COUNT(*) FROM visits GROUP BY person",
        "SELECT COUNT(DISTINCT diagnosis) FROM visits",
        "SELECT AVG(n) FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) AS t",
        "SELECT v.dept, COUNT(*) FROM visits v JOIN items i USING (visit) GROUP BY v.dept",
        "SELECT COUNT(*) FROM visits NATURAL JOIN items",
        "SELECT dept, cost, COUNT(*) FROM visits GROUP BY 1, 2",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=id) COUNT(*) FROM visits",
        "SELECT dept, SUM(cost) OVER () FROM visits",
        "SELECT COUNT(*) FROM wards",
        "SELECT COUNT(*) FROM bill",
        'SELECT SUM(removed_rows) FROM "visits.removed"',
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.dept = b.dept",
        "SELECT dept FROM visits LIMIT 3",
    ]
    return [*odd, *typed]


def test_a_hidden_name_is_refused_as_a_name_that_nobody_declared(owner: Database, anna: Database) -> None:
    """Replacing it by another name of the same length changes the refusal in that name alone."""
    unknown = "zzx"
    tried = 0
    for sql in _corpus(owner):
        if HIDDEN not in sql:
            continue
        tried += 1
        other = sql.replace(HIDDEN, unknown)
        refused = _outcome(partial(anna.explain, sql, epsilon=1))
        assert refused.startswith(UnknownName.code), (sql, refused)
        assert refused.replace(HIDDEN, unknown) == _outcome(partial(anna.explain, other, epsilon=1))
    assert tried > 60


def test_nothing_that_is_visible_names_what_is_hidden(owner: Database, anna: Database) -> None:
    for sql in _corpus(owner):
        if HIDDEN not in sql:
            assert HIDDEN not in _outcome(partial(anna.explain, sql)), sql
            assert HIDDEN not in _outcome(partial(anna.describe, sql, {})), sql


def test_what_may_be_asked_is_what_a_policy_without_the_rest_answers(
    owner: Database, anna: Database, without: Database
) -> None:
    """Refusals and quotes are those of a dataset whose owner never declared the hidden columns and tables."""
    same = 0
    for sql in _corpus(owner):
        if HIDDEN not in sql and "staff" not in sql and "wards" not in sql and "unit_column" not in sql:
            here, there = (_outcome(partial(database.explain, sql, epsilon=1)) for database in (anna, without))
            if HIDDEN not in there and "*" not in sql.replace("(*)", ""):  # there, the unit is a column
                assert here == there, sql
                same += 1
    assert same > 40


def test_a_right_never_changes_a_plan(owner: Database, anna: Database, otto: Database) -> None:
    compared = 0
    for sql in _corpus(owner):
        if HIDDEN in sql:
            continue
        try:
            restricted = anna.prepare(sql, None, RequestedPrice("1"))
        except EngineFailed:
            raise
        except Refusal:
            continue
        whole = otto.prepare(sql, None, RequestedPrice("1"))
        assert restricted.plan.event == whole.plan.event
        assert restricted.names.measured == whole.names.measured
        compared += 1
    assert compared > 40


def test_no_interface_shows_what_is_hidden(anna: Database) -> None:
    catalogue = Catalogue(anna.visible_policy, anna.columns(), "anna")
    shown = {
        "tables": json.dumps(tables_document(anna.visible_policy, anna.catalog)),
        "columns": str(anna.columns()),
        "page": anna._repr_html_(),
        "completion": str(completion_words(anna)),
        "agent": json.dumps(Tools(anna).tables()),
        "catalogue": str([rows() for rows in catalogue.shadow.contents.values()]),
        "descriptions": str(catalogue.shadow.descriptions),
        "repr": repr(anna),
        "budget": str(anna.budget()),
        "history": str(anna.history()),
    }
    assert [name for name, text in shown.items() if HIDDEN in text] == []
    assert all("dept" in shown[name] for name in ("catalogue", "tables", "completion"))
    ward = next(c for t in json.loads(shown["tables"])["tables"] for c in t["columns"] if c["name"] == "ward")
    assert ward["values"] == ["east", "west"]


def test_extension_packages_resolve_names_in_the_same_place(anna: Database) -> None:
    for action in (
        lambda: prepare_measurement(anna, "SELECT zzq_weight FROM visits"),
        lambda: PCA(1, epsilon=1, delta="1e-8").fit(anna, "SELECT cost, zzq_weight FROM visits"),
        lambda: synthesize(anna, "zzq_bills", columns=["sum"], epsilon=1, delta="1e-8"),
        lambda: synthesize(anna, "visits", columns=["zzq_diagnosis"], epsilon=1, delta="1e-8"),
        lambda: anna.ask_all(["SELECT COUNT(*) FROM visits", "SELECT COUNT(*) FROM zzq_bills"], epsilon=1),
    ):
        with pytest.raises(UnknownName) as refused:
            action()
        said = str(refused.value)
        typed = re.findall(r"zzq_\w+", said)
        assert len(set(typed)) == 1, said


def test_an_answer_is_the_same_with_and_without_a_role_and_its_receipt_names_no_hidden_unit(
    anna: Database, otto: Database
) -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
    paid = otto.ask(sql, epsilon=2)
    free = anna.ask(sql, epsilon=2)  # answers are shared
    assert free.rows() == paid.rows()
    assert free.receipt.id == paid.receipt.id
    assert "zzq_person" in paid.receipt.units
    assert free.receipt.units == "visits: each person"
    assert anna.reopen(paid.receipt.id).rows() == paid.rows()


def test_a_shared_answer_about_hidden_tables_cannot_be_reopened(anna: Database, otto: Database) -> None:
    paid = otto.ask("SELECT COUNT(*) FROM zzq_bills", epsilon=1)
    refused = _outcome(lambda: anna.reopen(paid.receipt.id))
    assert refused == _outcome(lambda: anna.reopen("0" * 32))


def test_several_roles_add_up_and_caps_come_from_them() -> None:
    policy = deepcopy(POLICY) | {"source": "csv:x.csv"}
    policy["roles"]["clerk"] = {"columns": ["zzq_bills.sum"], "epsilon": 500, "delta": "1e-7", "price": 2}
    policy["analysts"]["bea"] = {"roles": ["Statistician", "clerk"]}
    read = read_policy(policy)
    bea = read.analyst("bea")
    assert bea is not None
    assert [str(bea.epsilon), str(bea.delta), bea.price] == ["500", "1/10000000", "1%"]
    seen = visible_policy(read, "bea")
    assert sorted(table.name for table in seen.tables) == ["items", "staff", "visits", "zzq_bills"]
    assert [analyst.name for analyst in seen.analysts] == ["bea"]
    assert (seen.roles, seen.owners) == ((), ())
    visits = seen.table("visits")
    assert visits is not None
    assert isinstance(visits.unit, HiddenUnit)
    assert visible_policy(read, "") is read


def test_rights_are_part_of_the_hash_and_prices_are_not() -> None:
    policy = POLICY | {"source": "csv:x.csv"}
    before = policy_hash(read_policy(policy))
    for edit, changed in (({"tables": ["visits"]}, True), ({"price": 1}, False), ({"columns": ["cost"]}, True)):
        other = deepcopy(policy)
        other["roles"]["statistician"] |= {"columns": ["visits.cost"]} | edit if "tables" in edit else edit
        assert (policy_hash(read_policy(other)) != before) is changed, edit
    assert "[roles" not in canonical_text(
        read_policy({k: v for k, v in policy.items() if k != "roles"} | {"analysts": {"anna": {"epsilon": 1}}})
    )


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda p: p["roles"]["statistician"].update(tables=["visit"]), "no table"),
        (lambda p: p["roles"]["statistician"].update(columns=["visits.age"]), "no column of visits"),
        (lambda p: p["roles"]["statistician"].update(columns=["age"]), "no column of the tables"),
        (lambda p: p["roles"]["statistician"].update(columns=["zzq_bills.sum"]), "no column of the tables"),
        (lambda p: p["roles"]["statistician"].update(tables="visits"), "list"),
        (lambda p: p["roles"]["statistician"].update(price=500), "above the budget"),
        (lambda p: p["roles"]["statistician"].update(tables=["visits", "Visits"]), "once more"),
        (lambda p: p["analysts"]["anna"].update(roles=["nurse"]), "must be declared"),
        (lambda p: p["analysts"]["anna"].update(roles=[]), "epsilon is missing"),
        (lambda p: p.update(owners=["ANNA"]), "also an analyst"),
    ],
)
def test_mistakes_in_roles_are_refused(edit: Callable[[dict[str, Any]], None], says: str) -> None:
    policy = deepcopy(POLICY) | {"source": "csv:x.csv"}
    edit(policy)
    with pytest.raises(BadPolicy, match=says):
        read_policy(policy)


def test_psql_and_http_show_only_what_exists(tmp_path: Path) -> None:
    written = _write(tmp_path, {})
    path = tmp_path / "clinic.toml"
    path.write_text(
        f'source = "{written["source"]}"\n[budget]\nepsilon = 9\ndelta = 0\n'
        '[tables.visits]\nunit = "zzq_person"\nrows_per_unit = 3\n[tables.visits.columns]\n'
        'zzq_person = { type = "integer" }\ndept = { type = "text", values = ["er", "icu"] }\n'
        "[tables.zzq_wards]\npublic = true\n"
        '[roles.reader]\ncolumns = ["visits.dept"]\n[analysts.research]\nepsilon = 9\nroles = ["reader"]\n'
    )
    with Running(path) as server:
        assert [table["name"] for table in server.get("/tables").json["tables"]] == ["visits"]
        assert HIDDEN not in server.get("/tables").body.decode()
        found = WIRE.search(server.out)
        assert found is not None
        with psycopg.connect(
            host=found[2], port=int(found[3]), user="research", dbname=found[4],
            password=server.secrets["research"].password, sslmode="prefer",
        ) as connection:  # fmt: skip
            named = connection.execute(
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            ).fetchall()
            assert named == [("visits", "dept")]
            classes = connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r'").fetchall()
            assert all(HIDDEN not in name for (name,) in classes)
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("SELECT * FROM zzq_wards")


def test_names_are_resolved_in_one_place() -> None:
    """No other file reads an engine's catalog, which has every name. `tune` and the audits are the owner's."""
    package = Path(sfumato.__file__).parent
    readers = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(r"engine\.catalog\b", file.read_text(encoding="utf-8"))
    }
    owners = {name for name in readers if name.startswith("lab/audits/")}
    assert readers - owners == {"prepare.py", "terminal/tuning_trial.py"}
