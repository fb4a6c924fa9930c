"""Each scheme is declared once, by its engine. Entry points and the built-in table agree; other packages can add."""

import ast
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import sfumato
from sfumato.engines.engine import Backend
from sfumato.engines.opening import backend_of
from sfumato.errors import BadPolicy, BadSource
from sfumato.policy import schemes
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy
from sfumato.policy.schemes import (
    GROUP,
    Scheme,
    SourceScheme,
    built_in_schemes,
    change_evidence,
    source_scheme,
    source_schemes,
)

PACKAGE = Path(sfumato.__file__).parent
OUTSIDE = SourceScheme("mirror", backend="sfumato.engines.duckdb.opening:BACKEND")
MISNAMED = SourceScheme("other")
NO_MODULE = SourceScheme("mirror", backend="no_such_driver.opening:BACKEND", install="mirror-engine")
NO_BACKEND = SourceScheme("mirror", backend="sfumato.engines.duckdb.opening:inspect")


def _policy(source: str) -> Policy:
    table = {"unit": "p", "rows_per_unit": 1, "columns": {"p": {"type": "integer"}}}
    budget = {"epsilon": 1, "delta": 0}
    return read_policy({"source": source, "ledger": "sqlite:x.ledger", "budget": budget, "tables": {"t": table}})


def _install(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    entry_points = [EntryPoint(name, value, GROUP) for name, value in points]
    monkeypatch.setattr(schemes, "entry_points", lambda group: entry_points if group == GROUP else [])


def test_entry_points_and_the_built_in_table_declare_the_same_schemes() -> None:
    file = Path(__file__).parents[2] / "pyproject.toml"
    written = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
    assert {name: EntryPoint(name, value, GROUP).load() for name, value in written.items()} == {
        scheme.name: scheme for scheme in built_in_schemes()
    }


def test_an_extra_that_a_scheme_names_exists() -> None:
    file = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {scheme.install for scheme in built_in_schemes()} <= {"", *(f"sfumato[{extra}]" for extra in extras)}


def test_no_file_outside_of_an_engine_decides_by_a_scheme() -> None:
    names = {scheme.name for scheme in built_in_schemes()}
    own = ("engines/duckdb/", "engines/postgres/", "engines/spark/", "lab/generators/")  # the last writes such files
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    broken = {
        name: lines for name, text in files.items() if not name.startswith(own) and (lines := _asked(text, names))
    }
    assert len(files) > 400
    assert broken == {}


@pytest.mark.parametrize(
    "text", ['policy.source.scheme == "spark"', 'scheme not in ("csv", "files")', 'x = scheme in {"csv"}']
)
def test_a_decision_by_a_scheme_is_noticed(text: str) -> None:
    assert _asked(text, {scheme.name for scheme in built_in_schemes()})


def _asked(text: str, names: set[str]) -> list[int]:
    """Return the lines that compare a scheme with a name of one."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        and any(getattr(side, "attr", getattr(side, "id", "")) == "scheme" for side in (node.left, *node.comparators))
        and any(isinstance(child, ast.Constant) and child.value in names for child in ast.walk(node))
    ]


def test_a_scheme_of_another_package_is_read_and_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadPolicy, match="not known here"):
        _policy("mirror:/x")
    _install(monkeypatch, ("mirror", f"{__name__}:OUTSIDE"), ("unused", "no.such:MODULE"))
    policy = _policy("Mirror:/x")
    assert (policy.source.scheme, policy.source.path) == ("mirror", Path("/x"))
    assert isinstance(backend_of(policy), Backend)


def test_a_message_names_the_schemes_of_other_packages_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, ("mirror", "no.such:MODULE"))
    with pytest.raises(BadPolicy, match="spark:, mirror:"):
        _policy("mirrors:/x")
    assert source_schemes("other")[-1] == Scheme("mirror")


def test_another_package_cannot_take_the_place_of_a_built_in_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, *((scheme.name, f"{__name__}:OUTSIDE") for scheme in built_in_schemes()))
    assert all(source_scheme(scheme.name) is scheme for scheme in built_in_schemes())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["no.such:MODULE"], "cannot be loaded"),
        ([f"{__name__}:ABSENT"], "cannot be loaded"),
        ([f"{__name__}:MISNAMED"], "cannot be loaded"),
        ([f"{__name__}:PACKAGE"], "cannot be loaded"),
        ([f"{__name__}:OUTSIDE", f"{__name__}:NO_MODULE"], "Several installed engines"),
    ],
)
def test_a_wrong_declaration_is_refused(monkeypatch: pytest.MonkeyPatch, values: list[str], message: str) -> None:
    _install(monkeypatch, *(("mirror", value) for value in values))
    with pytest.raises(BadSource, match=message):
        _policy("mirror:/x")


@pytest.mark.parametrize(
    ("declared", "message"), [("NO_MODULE", "pip install 'mirror-engine'"), ("NO_BACKEND", "is not a Backend")]
)
def test_a_backend_that_cannot_be_loaded_is_refused(
    monkeypatch: pytest.MonkeyPatch, declared: str, message: str
) -> None:
    _install(monkeypatch, ("mirror", f"{__name__}:{declared}"))
    with pytest.raises(BadSource, match=message):
        backend_of(_policy("mirror:/x"))


def test_a_source_says_by_what_it_tells_that_it_has_changed() -> None:
    assert change_evidence("csv") == change_evidence("parquet") == "the names, sizes or times of its files"
    assert change_evidence("postgresql") == "the server's counters of changed rows, which may be late"
