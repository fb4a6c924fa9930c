"""What a server and a command line give as JSON: promised numbers are exact text, and all reads back."""

import json
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from sfumato.accounting.event import Neighbours, Pure
from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.ledger import Budget, Entry, Verified
from sfumato.opening import open
from sfumato.release.rendering.account_documents import budget_document, entry_document, verified_document
from sfumato.release.rendering.documents import quote_document, release_document
from sfumato.release.rendering.encoding import encoded
from sfumato.release.rendering.escaping import to_json

THIRD = PrivacyLoss(Fraction(1, 3), Fraction(1, 10**9))
EXACT = {"epsilon": "1/3", "delta": "1/1000000000"}


def test_a_release_and_its_quote_say_the_same_price_and_read_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "visits.csv").write_text("id,dept\n" + "".join(f"{row},er\n" for row in range(50)), encoding="utf-8")
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder / 'visits.csv'}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": 3, "delta": 0},
        "tables": {
            "visits": {
                "unit": "id",
                "rows_per_unit": 1,
                "columns": {"id": {"type": "integer"}, "dept": {"type": "text", "values": ["er", "icu"]}},
            }
        },
    }
    asked = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
    with open(policy) as database:
        quote = quote_document(database.explain(asked, epsilon="1/3"))
        release = database.ask(asked, epsilon="1/3")
        document, wider = release_document(release), release_document(release, 0.99)
    assert quote["loss"] == document["loss"] == {"epsilon": "1/3", "delta": "0"}
    assert json.loads(to_json(document)) == json.loads(encoded(release, "json"))
    assert (document["level"], wider["level"]) == (0.95, 0.99)
    assert document["intervals"] != wider["intervals"]
    assert json.loads(to_json(quote)) == quote


def test_budgets_charges_and_what_was_verified_are_exact() -> None:
    when, event = datetime(2026, 1, 2, tzinfo=UTC), Pure(THIRD.epsilon, Neighbours.ADD_REMOVE)
    entry = Entry(7, when, "research", "SELECT 1", event, THIRD, "p", "v", "r", "settled", None, "h")
    documents = [
        budget_document(Budget(THIRD, THIRD, THIRD, Fraction(1, 3))),
        entry_document(entry),
        verified_document(Verified(7, "h", THIRD)),
    ]
    assert documents[0] == {"used": "1/3", **dict.fromkeys(("total", "spent", "remaining"), EXACT)}
    assert {"sequence": 7, "time": "2026-01-02T00:00:00+00:00", **EXACT}.items() <= documents[1].items()
    assert documents[2] == {"entries": 7, "head": "h", "spent": EXACT}
    assert all(json.loads(to_json(document)) == document for document in documents)


def test_only_who_is_told_learns_that_the_source_has_changed() -> None:
    budget = Budget(THIRD, THIRD, THIRD, Fraction(1, 3))
    assert "source_changed" not in budget_document(budget)
    assert budget_document(budget, True)["source_changed"] is True
