"""What the documentation shows, runs; what it names, exists; and every theorem in use has its page."""

import ast
import contextlib
import doctest
import io
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sfumato.demo.tour import QUESTIONS
from sfumato.errors import REFUSALS

REPOSITORY = Path(__file__).resolve().parent.parent
SECTIONS = ("Claim", "Assumes", "Proof", "Code it licenses")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LONGEST_EXAMPLE = 60

Law = Callable[[Path], list[str]]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the text block right behind it, if there is one."""

    language: str
    text: str
    line: int
    shown: str | None


def _blocks(page: Path, root: Path) -> list[Block]:
    """Return the fenced blocks of a page; a line `--8<-- "PATH"` is replaced by that file of the repository."""
    text = _with_snippets(page.read_text(encoding="utf-8"), root)
    fences = list(re.finditer(r"(?ms)^```(\w*)\n(.*?)^```[ ]*$", text))
    blocks = []
    for fence, after in zip(fences, [*fences[1:], None][: len(fences)], strict=True):
        next_to = after if after and after[1] == "text" and not text[fence.end() : after.start()].strip() else None
        line = text.count("\n", 0, fence.start()) + 1
        blocks.append(Block(fence[1], fence[2], line, next_to[2] if next_to else None))
    return blocks


def _with_snippets(text: str, root: Path) -> str:
    return re.sub(
        r'(?m)^--8<-- "([^"\n]+)"$', lambda found: (root / found[1]).read_text(encoding="utf-8").rstrip(), text
    )


def _pages(root: Path) -> list[Path]:
    return [page for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))] if page.exists()]


def _markdown(root: Path) -> list[Path]:
    return [
        *sorted(root.glob("*.md")),
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "proofs").rglob("*.md")),
    ]


def _sources(root: Path) -> list[Path]:
    return sorted((root / "src").rglob("*.py"))


# --- what is shown, runs ---


def python_blocks_run(root: Path) -> list[str]:
    """Run the blocks of a page in turn, in one namespace and one folder: prompts are doctests, the rest is a script.

    A policy that begins with a comment `# NAME.toml` is a file of that folder.
    """
    broken = []
    for page in _pages(root):
        names: dict[str, object] = {"__name__": "__main__"}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for block in _blocks(page, root):
                if block.language == "toml" and (named := re.match(r"# (\w+\.toml)\n", block.text)):
                    Path(named[1]).write_text(block.text, encoding="utf-8")
                elif block.language == "python":
                    found = _doctest(block, names, page) if ">>> " in block.text else _script(block, names, page)
                    broken += [f"{page.relative_to(root)}:{block.line} {found}"] if found else []
    return broken


def _doctest(block: Block, names: dict[str, object], page: Path) -> str:
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
    test.globs = names  # a page is one story: later blocks use what earlier ones made
    said = io.StringIO()
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.write, clear_globs=False)
    return said.getvalue()


def _script(block: Block, names: dict[str, object], page: Path) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(block.text, str(page), "exec"), names)  # noqa: S102  (our own pages)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return "" if block.shown is None else _difference(block.shown, _with_shown_noise(said.getvalue(), block.shown))


_NOISY = re.compile(r"(-?[\d,]+) ± ([\d,]+)")


def _with_shown_noise(said: str, shown: str) -> str:
    """Put the noisy numbers that a page shows in place of those that were drawn, where the margins are the same.

    They may be 6 margins apart: for Laplace noise that is 18 scales, and happens once in ten million numbers.
    """
    pairs = zip(_NOISY.findall(said), _NOISY.findall(shown), strict=False)
    near = iter([_near(drawn, printed) for drawn, printed in pairs])
    return _NOISY.sub(lambda found: next(near, None) or found[0], said)


def _near(drawn: tuple[str, str], printed: tuple[str, str]) -> str:
    (drew, margin), (value, same) = ([int(number.replace(",", "")) for number in pair] for pair in (drawn, printed))
    return f"{printed[0]} ± {printed[1]}" if margin == same and abs(drew - value) <= 6 * margin else ""


def commands_run(root: Path) -> list[str]:
    broken = []
    for page in _pages(root):
        for block in _blocks(page, root):
            if block.language not in {"console", "sh"}:
                continue
            for command, shown in _commands(block.text):
                found = _command(command, shown, root)
                broken += [f"{page.relative_to(root)}:{block.line} $ {command}\n{found}"] if found else []
    return broken


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"(?m)^\$ ", text)[1:]:
        command, _, shown = part.partition("\n")
        yield command.partition("  #")[0].strip(), shown


def _command(command: str, shown: str, root: Path) -> str:
    first, *rest = shlex.split(command)
    if first == "make":  # this is what runs the tests: a target must exist, and is not run again inside itself
        makefile = (root / "Makefile").read_text(encoding="utf-8")
        missing = [target for target in rest if not re.search(rf"(?m)^{re.escape(target)}:", makefile)]
        return f"the Makefile has no {missing}" if missing else ""
    programs = {"sfumato": [sys.executable, "-m", "sfumato"], "python": [sys.executable]}
    if first not in programs:
        return "is no command that this test knows"
    run = subprocess.run(
        [*programs[first], *rest], capture_output=True, encoding="utf-8", cwd=root, check=False, timeout=60
    )
    if run.returncode not in {0, 2} or "Traceback" in run.stderr:
        return f"exits with {run.returncode}: {run.stderr}"
    return _difference(shown, run.stdout + run.stderr) if shown.strip() else ""


def _difference(shown: str, said: str) -> str:
    checker = doctest.OutputChecker()
    if checker.check_output(shown, said, FLAGS):
        return ""
    return checker.output_difference(doctest.Example("", shown), said, doctest.REPORT_NDIFF)


# --- what is named, exists ---


def links_lead_somewhere(root: Path) -> list[str]:
    broken = []
    for page in _markdown(root):
        prose = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\[[^\]\n]*\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                broken.append(f"{page.relative_to(root)}: {target} is no file")
            elif anchor and anchor not in _anchors(file):
                broken.append(f"{page.relative_to(root)}: {target} is no heading")
    return broken


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def files_named_in_prose_exist(root: Path) -> list[str]:
    folders = "benchmarks|docs|examples|proofs|src|tests"
    return [
        f"{page.relative_to(root)}: `{name}` does not exist"
        for page in _markdown(root)
        if page.parent.name != "proofs"
        for name in re.findall(rf"`((?:{folders})/[\w/.-]*)`", page.read_text(encoding="utf-8"))
        if not (root / name).exists()
    ]


def proofs_named_in_the_source_exist(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}: {name} does not exist"
        for path in _sources(root)
        for name in sorted(set(re.findall(r"proofs/[\w/-]+\.md", path.read_text(encoding="utf-8"))))
        if not (root / name).exists()
    ]


def proofs_are_whole(root: Path) -> list[str]:
    broken = []
    for page in sorted((root / "proofs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        sections = re.findall(r"(?m)^##+ (.+)$", text)
        if not text.startswith("# ") or sections != list(SECTIONS):
            broken.append(f"{page.name}: its sections are not {', '.join(SECTIONS)}, in this order")
        broken += [f"{page.name}: {found}" for found in _unlicensed(root, text.rpartition(f"## {SECTIONS[-1]}")[2])]
    return broken


def _unlicensed(root: Path, section: str) -> list[str]:
    """Look for the files that a section names: by their path, or by their name beside one named before."""
    names = re.findall(r"[\w/]+\.py\b", section)
    folders = [root, root / "src", root / "src" / "sfumato"]
    broken = [] if names else ["“Code it licenses” names no file"]
    for name in names:
        found = [folder / name for folder in folders if (folder / name).is_file()]
        folders += [path.parent for path in found]
        broken += [] if found else [f"licenses {name}, which does not exist"]
    return broken


def a_proof_relies_on_tests_that_exist(root: Path) -> list[str]:
    return [
        f"{page.name}: relies on {name}, which does not exist"
        for page in sorted((root / "proofs").rglob("*.md"))
        for name in sorted(set(re.findall(r"tests/[\w/]+\.py\b", page.read_text(encoding="utf-8"))))
        if not (root / name).is_file()
    ]


def proofs_are_used(root: Path) -> list[str]:
    named = {name for path in _sources(root) for name in re.findall(r"proofs/[\w/-]+\.md", path.read_text("utf-8"))}
    pages = {str(page.relative_to(root)) for page in (root / "proofs").rglob("*.md")}
    return [f"{page}: no source file names it" for page in sorted(pages - named)]


def mechanisms_name_their_proof(root: Path) -> list[str]:
    """A public frozen dataclass with `release` is a mechanism; without a written proof it does not ship (P20)."""
    broken = []
    for path in sorted((root / "src" / "sfumato" / "mechanisms").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and _is_mechanism(node):
                named = re.findall(r"proofs/[\w/-]+\.md", ast.get_docstring(node) or "")
                if not any((root / name).is_file() for name in named):
                    broken.append(f"{path.name}: {node.name} names no proof that exists")
    return broken


def _is_mechanism(node: ast.ClassDef) -> bool:
    frozen = any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    releases = any(isinstance(part, ast.FunctionDef) and part.name == "release" for part in node.body)
    return frozen and releases and not node.name.startswith("_")


def refusals_are_documented(root: Path) -> list[str]:
    pages = sorted((root / "docs" / "refusals").glob("*.md"))
    found = [
        part
        for page in pages
        for part in re.findall(r"(?ms)^## `(\w+)`\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"))
    ]
    sections = dict(found)
    codes = {kind.code for kind in REFUSALS}
    broken = [f"{code}: is not in docs/refusals/" for code in sorted(codes - set(sections))]
    broken += [f"{code}: is in docs/refusals/ and nowhere else" for code in sorted(set(sections) - codes)]
    broken += [f"{code}: has two sections" for code, section in found if sections[code] is not section]
    for code, section in found:
        if "```python" not in section or "**What to do.**" not in section:
            broken.append(f"{code}: docs/refusals/ shows no example or no remedy")
    return broken


RELEASE = re.compile(r"(?m)^## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)$")
VERSIONS = {
    "pyproject.toml": r'(?m)^version = "([\d.]+)"$',
    "src/sfumato/__init__.py": r'(?m)^__version__ = "([\d.]+)"$',
    "CITATION.cff": r"(?m)^version: ([\d.]+)$",
    "SECURITY.md": r"version (\d+\.\d+\.\d+)",
    "CHANGES.md": r"(?m)^## \[([\d.]+)\]",
}
"""Every file that names the current version, and where."""


def versions_agree(root: Path) -> list[str]:
    """Compare the current version in all files that name it, and the date of the release."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in VERSIONS if (root / name).exists()}
    found = {name: re.search(VERSIONS[name], text) for name, text in texts.items()}
    broken = [f"{name}: names no version" for name, match in found.items() if match is None]
    versions = {name: match[1] for name, match in found.items() if match}
    broken += [f"different versions: {versions}"] if len(set(versions.values())) > 1 else []
    released = re.search(r"(?m)^date-released: ([\d-]+)$", texts.get("CITATION.cff", ""))
    newest = RELEASE.search(texts.get("CHANGES.md", ""))
    if released and newest and released[1] != newest[4]:
        broken.append(f"CITATION.cff was released on {released[1]}, CHANGES.md on {newest[4]}")
    return broken


KINDS_OF_CHANGE = ("Security", "Added", "Changed", "Deprecated", "Removed", "Fixed")


def the_changelog_keeps_its_form(root: Path) -> list[str]:
    """Check the headings of CHANGES.md: releases with their dates, newest first, and kinds of change in their order."""
    page = root / "CHANGES.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    broken = [line for line in re.findall(r"(?m)^## .*$", text) if not RELEASE.fullmatch(line)]
    order = [tuple(map(int, numbers)) for *numbers, _ in RELEASE.findall(text)]
    broken += ["releases are not newest first"] if order != sorted(set(order), reverse=True) else []
    for release in re.split(r"(?m)^## ", text)[1:]:
        kinds = re.findall(r"(?m)^### (.*)$", release)
        if kinds != [kind for kind in KINDS_OF_CHANGE if kind in kinds]:
            broken.append(f"{release.partition(chr(10))[0]}: {kinds} are not kinds of change in their order")
    return [f"CHANGES.md: {found}" for found in broken]


LAWS: tuple[Law, ...] = (
    python_blocks_run,
    commands_run,
    links_lead_somewhere,
    files_named_in_prose_exist,
    proofs_named_in_the_source_exist,
    proofs_are_whole,
    a_proof_relies_on_tests_that_exist,
    proofs_are_used,
    mechanisms_name_their_proof,
    refusals_are_documented,
    versions_agree,
    the_changelog_keeps_its_form,
)

_PROOF = "# A\n\n## Claim\n\nc\n\n## Assumes\n\na\n\n## Proof\n\np\n\n## Code it licenses\n\n`exact.py`\n"
_MECHANISM = "@dataclass(frozen=True, slots=True)\nclass Loud:\n    def release(self) -> None: ...\n"
PLANTED: tuple[tuple[Law, str, str], ...] = (
    (python_blocks_run, "README.md", "```python\nraise ValueError\n```\n"),
    (python_blocks_run, "README.md", "```python\nprint(1)\n```\n\n```text\n2\n```\n"),
    (python_blocks_run, "docs/deep/a.md", "```python\n>>> 1 + 1\n3\n```\n"),
    (python_blocks_run, "README.md", "```python\nprint('100 ± 3')\n```\n\n```text\n101 ± 4\n```\n"),
    (python_blocks_run, "README.md", "```python\nprint('100 ± 3')\n```\n\n```text\n130 ± 3\n```\n"),
    (commands_run, "README.md", "```console\n$ sfumato paint\nUsage: nothing\n```\n"),
    (commands_run, "README.md", "```sh\n$ make coffee\n```\n"),
    (commands_run, "README.md", "```console\n$ rm -rf nothing\n```\n"),
    (commands_run, "README.md", '```console\n$ python -c "print(1)"\n2\n```\n'),
    (links_lead_somewhere, "README.md", "[a](docs/missing.md)\n"),
    (links_lead_somewhere, "README.md", "# One\n\n[a](#two)\n"),
    (files_named_in_prose_exist, "SECURITY.md", "held by `tests/test_missing.py`\n"),
    (proofs_named_in_the_source_exist, "src/sfumato/exact.py", "# proofs/missing.md\n"),
    (proofs_are_whole, "proofs/a.md", _PROOF.replace("Assumes", "Hopes")),
    (proofs_are_whole, "proofs/a.md", _PROOF.replace("## Claim\n\nc", "**Claim.** c")),
    (proofs_are_whole, "proofs/a.md", _PROOF + "\n## Remarks\n"),
    (proofs_are_whole, "proofs/a.md", _PROOF.replace("exact.py", "truncation_bias.py")),
    (proofs_are_whole, "proofs/a.md", _PROOF.replace("exact.py", "exact")),
    (a_proof_relies_on_tests_that_exist, "proofs/a.md", _PROOF + "tests/test_missing.py\n"),
    (proofs_are_used, "proofs/b.md", _PROOF),
    (mechanisms_name_their_proof, "src/sfumato/mechanisms/loud.py", _MECHANISM),
    (versions_agree, "CHANGES.md", "## [1.0.1] - 2026-01-31\n"),
    (versions_agree, "CHANGES.md", "## [1.0.0] - 2026-01-30\n"),
    (versions_agree, "SECURITY.md", "This page is about version 0.9.9.\n"),
    (versions_agree, "pyproject.toml", "version = 1\n"),
    (the_changelog_keeps_its_form, "CHANGES.md", "## 1.0.0\n"),
    (the_changelog_keeps_its_form, "CHANGES.md", "## [0.9.0] - 2026-01-30\n## [1.0.0] - 2026-01-31\n"),
    (the_changelog_keeps_its_form, "CHANGES.md", "## [1.0.0] - 2026-01-31\n### Added\n### Security\n"),
    (the_changelog_keeps_its_form, "CHANGES.md", "## [1.0.0] - 2026-01-31\n### Kinder\n"),
    (refusals_are_documented, "docs/refusals/more.md", "## `no_such_code`\n```python\n```\n**What to do.** This.\n"),
    (refusals_are_documented, "docs/refusals/more.md", "## `raw_rows`\n```python\n```\n**What to do.** That.\n"),
    (refusals_are_documented, "docs/refusals/query.md", ""),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_documentation_obeys(law: Law) -> None:
    assert law(REPOSITORY) == []


@pytest.mark.parametrize(("law", "name", "text"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_violation_is_caught(law: Law, name: str, text: str, tmp_path: Path) -> None:
    refusals = "".join(f"## `{kind.code}`\n```python\n```\n**What to do.** This.\n" for kind in REFUSALS)
    sound = {
        "CHANGES.md": "## [1.0.0] - 2026-01-31\n### Security\n### Fixed\n",
        "CITATION.cff": "version: 1.0.0\ndate-released: 2026-01-31\n",
        "Makefile": "tea:\n",
        "README.md": "```python\n>>> 1 + 1\n2\n```\n\n```sh\n$ make tea\n```\n[a](docs/refusals/query.md)\n",
        "docs/refusals/query.md": refusals,
        "proofs/a.md": _PROOF,
        "src/sfumato/exact.py": "# proofs/a.md\n",
        "src/sfumato/mechanisms/quiet.py": _MECHANISM.replace(":\n    def", ':\n    """proofs/a.md"""\n    def'),
    }
    for path, content in sound.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, encoding="utf-8")
    assert law(tmp_path) == []
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert law(tmp_path) != []


def test_every_law_has_a_planted_violation() -> None:
    assert {law for law, *_ in PLANTED} == set(LAWS)


EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < LONGEST_EXAMPLE
    assert ast.get_docstring(ast.parse(text))
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_there_are_examples_and_the_index_names_each() -> None:
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    assert EXAMPLES
    assert [path.name for path in EXAMPLES if path.name not in index] == []


def test_every_page_is_reached_from_the_index() -> None:
    """The index links to each page; a page of a folder may be linked from the index of that folder instead."""
    docs = REPOSITORY / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    missing = []
    for page in sorted(docs.rglob("*.md")):
        own = page.parent / "index.md"
        near = own.read_text(encoding="utf-8") if own.exists() and own != page else ""
        if page != docs / "index.md" and f"({page.relative_to(docs)})" not in index and f"({page.name})" not in near:
            missing.append(str(page.relative_to(docs)))
    assert missing == []


def test_the_screen_in_the_readme_is_a_screen_of_the_tour() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"(?m)^(\d  .*)$", readme)
    titles = [f"{number}  {question.title}" for number, question in enumerate(QUESTIONS, 1)]
    assert shown
    assert [title for title in shown if title not in titles] == []
