"""Stored texts stay as they are: what was paid for before a change of the code is repeated free after it."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import policy, write
from tests.stored.records import ANSWERS, CHANGED, TEXTS, answers, restore, texts, world

import sfumato


@pytest.fixture(scope="module")
def computed() -> dict[str, Any]:
    return json.loads(json.dumps(texts()))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["policies", "fingerprints", "streams", "local"])
def test_a_stored_text_is_what_it_was(kind: str, computed: dict[str, Any]) -> None:
    assert computed[kind] == json.loads(TEXTS.read_text(encoding="utf-8"))[kind]


def test_every_answer_of_an_older_ledger_is_repeated_free(tmp_path: Path) -> None:
    write(tmp_path, world())
    with sfumato.open(policy(tmp_path)):
        pass
    restore(tmp_path)
    stored = json.loads(ANSWERS.read_text(encoding="utf-8"))
    with sfumato.open(policy(tmp_path)) as database:
        assert database.version == stored["version"]
        verified, budget = database.verify(), database.budget()
        charged = {entry.receipt for entry in database.history(limit=1000)}
        given = json.loads(json.dumps(answers(database)))
        paid = {
            label: answer
            for label, answer in stored["answers"].items()
            if answer[0] in charged and label not in CHANGED
        }
        assert len(paid) > 100
        assert {label: given[label] for label in paid} == paid
        assert (database.verify(), database.budget()) == (verified, budget)
        reopened = {
            label for label, (receipt, _) in paid.items() if "workload" not in label and database.reopen(receipt)
        }
        assert len(reopened) > 100
