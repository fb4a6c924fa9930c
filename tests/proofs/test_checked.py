"""What the pages say is machine-checked was checked, from these sources, and rests on no other axiom.

Rocq itself runs in `make proofs`, which compares the record with what it says. Here the record is held against the
sources by their digests. Every law runs on the repository and on a planted violation of it.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
from tests.proofs.rocq import ALLOWED, REPOSITORY, Record, digest, files, read_axioms, theorems

Law = Callable[[Path], list[str]]
PAGE = "docs/machine_checked.md"
_NAME = re.compile(r"`(\w+\.\w+)`")
_UNPROVED = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjecture|bypass_check|type_in_type|Unset\s+\w+\s+Checking)\b"
)


def _rocq(root: Path) -> Path:
    return root / "proofs" / "rocq"


def _record(root: Path) -> Record:
    return Record.read(_rocq(root) / "checked.json")


def pages_say_what_checks_them(root: Path) -> list[str]:
    """The first line under the title names theorems, or says that none does."""
    broken = []
    for page in sorted((root / "proofs").glob("*.md")):
        lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line]
        said = [line for line in lines if line.startswith("Checked:")]
        if len(said) != 1 or lines[1] != said[0] or not (_NAME.search(said[0]) or said[0] == "Checked: none."):
            broken.append(f"{page.name}: its second line does not say `Checked: File.theorem`, or `Checked: none.`")
    return broken


def theorems_that_pages_name_exist(root: Path) -> list[str]:
    known = _record(root).theorems
    pages = {page: re.findall(r"(?m)^Checked:.*$", page.read_text("utf-8")) for page in (root / "proofs").glob("*.md")}
    return [
        f"{page.name}: {name} was not checked"
        for page, lines in sorted(pages.items())
        for line in lines
        for name in _NAME.findall(line)
        if name not in known
    ]


def the_record_is_of_these_sources(root: Path) -> list[str]:
    folder, record = _rocq(root), _record(root)
    found = {path.name: digest(path) for path in folder.glob("*.v")}
    broken = [] if found.keys() == {path.name for path in files(folder)} else ["_CoqProject does not name every source"]
    changed = sorted(
        name for name in found.keys() | record.sources.keys() if found.get(name) != record.sources.get(name)
    )
    return broken + [f"{name} is not the source that was checked: run make proofs" for name in changed]


def every_theorem_was_checked(root: Path) -> list[str]:
    stated = {name for path in files(_rocq(root)) for name in theorems(path)}
    return [
        f"{name} is stated and not checked, or the reverse" for name in sorted(stated ^ _record(root).theorems.keys())
    ]


def theorems_rest_on_allowed_axioms(root: Path) -> list[str]:
    return [
        f"{name} rests on {axiom}"
        for name, axioms in _record(root).theorems.items()
        for axiom in axioms
        if axiom not in ALLOWED
    ]


def sources_leave_nothing_unproved(root: Path) -> list[str]:
    return [
        f"{path.name}: {found[0]}"
        for path in sorted(_rocq(root).glob("*.v"))
        for found in _UNPROVED.finditer(re.sub(r"(?s)\(\*.*?\*\)", "", path.read_text(encoding="utf-8")))
    ]


def fixtures_are_of_these_sources(root: Path) -> list[str]:
    return [
        f"{path.name} was made from another {name}"
        for path in sorted((root / "tests" / "proofs" / "fixtures").glob("*.json"))
        for name, made_from in json.loads(path.read_text(encoding="utf-8"))["sources"].items()
        if digest(_rocq(root) / name) != made_from
    ]


def the_page_lists_every_theorem(root: Path) -> list[str]:
    listed = _NAME.findall((root / PAGE).read_text(encoding="utf-8"))
    checked = _record(root).theorems.keys()
    files_named = {name.partition(".")[0] for name in checked}
    broken = [f"{name} is not in {PAGE}" for name in checked if name not in listed]
    return broken + [
        f"{PAGE}: {name} was not checked"
        for name in listed
        if name.partition(".")[0] in files_named and name not in checked
    ]


def the_page_counts_right(root: Path) -> list[str]:
    text, record = (root / PAGE).read_text(encoding="utf-8"), _record(root)
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files(_rocq(root)))
    free = sum(not axioms for axioms in record.theorems.values())
    figures = (
        f"{len(record.theorems)} theorems, {lines:,} lines in {len(record.sources)} files",
        f"{free} of the theorems need none of them",
    )
    broken = [f"{PAGE} does not say “{figure}”" for figure in figures if figure not in text]
    linked = f"[{len(record.theorems)} theorems](docs/machine_checked.md)"
    return broken + (
        [] if linked in (root / "README.md").read_text(encoding="utf-8") else ["README.md counts otherwise"]
    )


LAWS: tuple[Law, ...] = (
    pages_say_what_checks_them,
    theorems_that_pages_name_exist,
    the_record_is_of_these_sources,
    every_theorem_was_checked,
    theorems_rest_on_allowed_axioms,
    sources_leave_nothing_unproved,
    fixtures_are_of_these_sources,
    the_page_lists_every_theorem,
    the_page_counts_right,
)
PLANTED: tuple[tuple[Law, str, str, str], ...] = (
    (pages_say_what_checks_them, "proofs/filter.md", "Checked: `Renyi", "Seen: `Renyi"),
    (pages_say_what_checks_them, "proofs/guide.md", "Checked: none.", "Checked: mostly."),
    (theorems_that_pages_name_exist, "proofs/filter.md", "Filter.pure_filter_adaptive", "Filter.pure_filter"),
    (the_record_is_of_these_sources, "proofs/rocq/Filter.v", "Qle_bool (spent + cost) budget", "true"),
    (the_record_is_of_these_sources, "proofs/rocq/_CoqProject", "Flow.v\n", ""),
    (every_theorem_was_checked, "proofs/rocq/Flow.v", "Theorem flow_bound", "Theorem flow_limit"),
    (theorems_rest_on_allowed_axioms, "proofs/rocq/checked.json", "Classical_Prop.classic", "Filter.trust_me"),
    (sources_leave_nothing_unproved, "proofs/rocq/Flow.v", "Qed.", "Admitted."),
    (sources_leave_nothing_unproved, "proofs/rocq/Flow.v", "Section Flow.", "Axiom easy : False.\nSection Flow."),
    (fixtures_are_of_these_sources, "proofs/rocq/Grid.v", "Lt => k", "Lt => k + 1"),
    (the_page_lists_every_theorem, PAGE, "`Flow.flow_bound`", "the flow bound"),
    (the_page_lists_every_theorem, PAGE, "`Flow.flow_bound`", "`Flow.flow_bound`, `Flow.flow_limit`"),
    (the_page_counts_right, "proofs/rocq/Flow.v", "Section Flow.", "\nSection Flow."),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_holds(law: Law) -> None:
    assert law(REPOSITORY) == []


@pytest.mark.parametrize(("law", "file", "old", "new"), PLANTED, ids=lambda part: getattr(part, "__name__", None))
def test_a_violation_is_noticed(law: Law, file: str, old: str, new: str, tmp_path: Path) -> None:
    for folder in ("proofs", "tests/proofs/fixtures"):
        copytree(REPOSITORY / folder, tmp_path / folder)
    (tmp_path / "docs").mkdir()
    for page in (PAGE, "README.md"):
        (tmp_path / page).write_bytes((REPOSITORY / page).read_bytes())
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new), encoding="utf-8")
    assert law(tmp_path) != []


def test_what_rocq_says_of_axioms_is_read() -> None:
    assert read_axioms("Closed under the global context\n") == []
    assert read_axioms("Axioms:\nA.b : forall x,\n  x = x\nc\n  : nat\n") == ["A.b", "c"]
    for unknown in ("Axioms:\n", "fix is assumed to be guarded.\n", "Axioms:\nA.b is assumed to be positive.\n"):
        with pytest.raises(RuntimeError):
            read_axioms(unknown)
