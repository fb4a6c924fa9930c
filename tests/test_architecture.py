"""The house has rooms, and imports flow one way: every law runs on the source and on a planted violation of it."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "sfumato"

MATHEMATICS = ("errors", "exact", "caches", "certified", "randomness", "accounting", "sensitivity", "mechanisms")
PATH = (
    "secure_files",
    "diagnostics",
    "policy",
    "query",
    "language",
    "analysis",
    "planning",
    "engines",
    "ledger",
    "accounts",
    "release",
    "rehearsal",
    "dataset",
    "question_cohorts",
    "plan_choice",
    "prepare",
    "granted_texts",
    "stored_answer",
    "kept_answers",
    "views",
    "gaussian_refining",
    "refining",
    "pilots",
    "approvals",
    "database",
    "opening",
    "measure",
)
INTERFACES = (
    *("reports", "dashboards", "server", "agents", "backups", "notebook"),
    *("policy_draft", "terminal", "demo", "commands", "cli"),
)
EXTENSIONS = ("lab", "local", "streams", "learn", "synthesis", "sealed")
LIBRARIES = ("local", "streams", "learn", "synthesis", "sealed")
"""Workshops that people import from: their __init__ may name its public classes, each loaded when it is used."""
LAYERS = (*MATHEMATICS, *PATH, *INTERFACES, *EXTENSIONS)
"""From the ground up: a room imports only rooms named before it. Rooms that are not built yet have their place."""

LAZY_LAYERS = frozenset({"commands", "__init__"})
"""A verb of the command line and a public name import what they need when they are used: `--help` answers at once."""
LAZY_FILES = frozenset(
    {"accounting/calibrate.py", "release/intervals/noise_law.py", "sensitivity/bounded_flow.py"}
    | {"sensitivity/matching.py", "secure_files.py"}
    | {"accounting/binomial.py", "accounting/estimate.py", "rehearsal/policy.py"}
    | {"engines/sql/statements.py", "engines/post_processing/duckdb.py", "engines/sql/held_buckets.py"}
    | {"engines/duckdb/opening.py", "engines/duckdb/registration.py"}
)
"""The PLD engines need a second to import, and SciPy a third of one: on the way to an answer hardly ever needed. Locks
are not there on every system, and a file that needs them says so. A budget is read without NumPy, and a question that
has its snapshot is answered without PyArrow and without what builds copies: tests/test_imports.py."""
MEANINGLESS_NAMES = frozenset(
    {"util", "utils", "helper", "helpers", "common", "core", "base", "misc"}
    | {"manager", "managers", "handler", "handlers", "registry"}
)
MAX_FILE_LINES = 500

Law = Callable[[Path], list[str]]


def _files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def _tree(path: Path) -> ast.Module:
    return _parsed(path.read_text(encoding="utf-8"))


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _layer(path: Path, package: Path) -> str:
    """Return the room of a file: its folder below the package, or its own name."""
    return path.relative_to(package).parts[0].removesuffix(".py")


def _module(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Give every imported dotted name; of `from a import b` it is a.b, which may be a module or a name in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from ((node, f"{origin}.{alias.name}") for alias in node.names)


def _ours(tree: ast.Module) -> Iterator[tuple[ast.stmt, list[str]]]:
    """Give what is imported from the package, as the parts after `sfumato`."""
    for node, name in _imported(tree):
        first, *rest = name.split(".")
        if first == "sfumato":
            yield node, rest


def layers_are_known(package: Path) -> list[str]:
    found = {_layer(path, package) for path in _files(package)} - {"__init__", "__main__"}
    return [f"{room}: has no place in ROOMS" for room in sorted(found - set(LAYERS))]


def imports_go_up(package: Path) -> list[str]:
    broken = []
    for path in _files(package):
        room = _layer(path, package)
        if room == "__init__":
            continue  # public names: see the_package_root_holds_public_names
        for node, rest in _ours(_tree(path)):
            target = rest[0] if rest else ""
            if target != room and target not in _above(room):
                broken.append(f"{_module(path, package)}:{node.lineno} imports {'.'.join(['sfumato', *rest])}")
    return broken


def _above(room: str) -> tuple[str, ...]:
    if room == "__main__":
        return ("cli",)
    if room in EXTENSIONS:
        return tuple(other for other in LAYERS if other not in EXTENSIONS)  # workshops never import each other
    return LAYERS[: LAYERS.index(room)] if room in LAYERS else ()


def files_of_a_layer_form_no_cycle(package: Path) -> list[str]:
    modules = {_module(path, package): path for path in _files(package)}
    graph = {}
    for module, path in modules.items():
        named = [".".join(["sfumato", *rest]) for _, rest in _ours(_tree(path))]
        graph[module] = {name if name in modules else name.rpartition(".")[0] for name in named} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" → ".join(error.args[1])]
    return []


def imports_are_absolute_and_come_first(package: Path) -> list[str]:
    broken = []
    for path in _files(package):
        tree = _tree(path)
        first = [node for node, rest in _leading(tree) if rest] + _for_annotations(tree)
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)):
            where = f"{_module(path, package)}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and node.level:
                broken.append(f"{where} is a relative import")
            if node not in first:
                if _is_lazy(path, package) and node not in tree.body:
                    continue
                broken.append(f"{where} imports below the top of the file")
    return broken


def _for_annotations(tree: ast.Module) -> list[ast.stmt]:
    """Return the imports of other packages that only type checkers see: they name what a function returns."""
    return [
        node
        for block in tree.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.Import) and all(not alias.name.startswith("sfumato") for alias in node.names)
    ]


def _is_lazy(path: Path, package: Path) -> bool:
    room, name = _layer(path, package), path.relative_to(package).as_posix()
    return room in LAZY_LAYERS or name in LAZY_FILES or (room in LIBRARIES and name == f"{room}/__init__.py")


def _leading(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool]]:
    """Give the docstring and the imports at the top, until anything else comes; those for type checkers come last."""
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from ((inner, isinstance(inner, ast.Import | ast.ImportFrom)) for inner in node.body)
            return
        importing = isinstance(node, ast.Import | ast.ImportFrom)
        if not importing and not _is_docstring(node):
            return
        yield node, importing


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def a_package_opens_with_one_sentence(package: Path) -> list[str]:
    broken = []
    for path in _files(package):
        if path.name != "__init__.py" or path.parent == package:
            continue
        tree = _tree(path)
        text = ast.get_docstring(tree) or ""
        more = tree.body[1:] if _layer(path, package) in LIBRARIES else []
        if len(tree.body) - len(more) != 1 or "\n" in text or not text.endswith(".") or ". " in text:
            broken.append(f"{_module(path, package)}: its __init__.py is more or less than one sentence")
        broken += [
            f"{_module(path, package)}:{node.lineno} is no public name that is loaded when it is used"
            for node in more
            if not _names_for_later(node)
        ]
    return broken


def _names_for_later(node: ast.stmt) -> bool:
    """Whether a statement of a library's __init__ names public classes without importing them."""
    match node:
        case ast.ImportFrom(module="typing" | "importlib") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "_HOMES")]) | ast.FunctionDef(name="__getattr__" | "__dir__"):
            return True
    return False


def the_package_root_holds_public_names(package: Path) -> list[str]:
    tree = _tree(package / "__init__.py")
    broken, imported, public = [], [], []
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("sfumato."):
                imported += [alias.asname or alias.name for alias in names]
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                public = ast.literal_eval(value)
            case ast.Assign(targets=[ast.Name(id="__version__")]) | ast.FunctionDef(name="__getattr__"):
                pass
            case ast.ImportFrom(module="typing" | "importlib") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.If(
                test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id="TYPE_CHECKING")),
                body=[ast.FunctionDef(name="__getattr__")],
            ):
                pass
            case _ if not _is_docstring(node):
                broken.append(f"sfumato/__init__.py:{node.lineno} is not a public name")
    return broken + [f"sfumato/__init__.py: {name} is imported and not public" for name in {*imported} - {*public}]


def names_say_what_they_hold(package: Path) -> list[str]:
    paths = [path for path in sorted(package.rglob("*")) if path.suffix == ".py" or path.is_dir()]
    return [
        f"{path.relative_to(package.parent)}: this name says nothing"
        for path in paths
        if MEANINGLESS_NAMES & set(path.relative_to(package).with_suffix("").name.split("_"))
    ]


def files_stay_short(package: Path) -> list[str]:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in _files(package)}
    return [f"{path.name}: {length} lines" for path, length in lengths.items() if length > MAX_FILE_LINES]


def mathematics_knows_no_database(package: Path) -> list[str]:
    """No SQL, no terminal, no network and no files where the theorems are."""
    outside = {"click", "duckdb", "http", "pathlib", "pyarrow", "rich", "shutil", "socket", "sqlglot", "sqlite3"}
    return [
        f"{_module(path, package)}:{node.lineno} imports {name}"
        for path in _files(package)
        if _layer(path, package) in MATHEMATICS
        for node, name in _imported(_tree(path))
        if name.split(".")[0] in outside
    ]


def statements_know_no_engine(package: Path) -> list[str]:
    """What is SQL for every engine, and what the path needs of one, imports no driver and no engine's own folder."""
    shared = (
        "engines/sql/",
        "engines/engine.py",
        "engines/opening.py",
        "engines/build_catalog.py",
        "database.py",
        "opening.py",
    )
    return [
        f"{_module(path, package)}:{node.lineno} imports {name}"
        for path in _files(package)
        if path.relative_to(package).as_posix().startswith(shared)
        for node, name in _imported(_tree(path))
        if name.split(".")[0] in _DRIVERS
        or (name.split(".")[:2] == ["sfumato", "engines"] and name.split(".")[2] in _OWN)
    ]


_DRIVERS = {"duckdb", "psycopg", "pyspark"}
_OWN = {"duckdb", "postgres", "spark"}


def shared_sql_leaves_features_to_dialects(package: Path) -> list[str]:
    """What not every engine has, or spells in the same way, is an entry of the dialect."""
    forms = (package / "engines/sql/dialect.py", package / "engines/sql/constant.py")
    return [
        f"{_module(path, package)}:{at} writes {found[0]}"
        for path in _files(package)
        if path.relative_to(package).as_posix().startswith("engines/sql/") and path not in forms
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := _FEATURES.search(line))
    ]


_FEATURES = re.compile(r"FILTER \(|(?<!\.)bit_or\(|generate_series\(|AS BIGINT|\"BIGINT\"")


def noise_has_one_source(package: Path) -> list[str]:
    """No generator but the one of randomness/source.py: a seed somewhere is noise that somebody can subtract."""
    broken = []
    for path in _files(package):
        module, tree = _module(path, package), _tree(path)
        if module == "sfumato.randomness.source":
            continue
        names = [(node.lineno, name) for node, name in _imported(tree)]
        names += [
            (node.lineno, f"{node.value.id}.{node.attr}")
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]
        broken += [f"{module}:{line} uses {name}" for line, name in names if _is_generator(name)]
    return broken


def _is_generator(name: str) -> bool:
    first, _, rest = name.partition(".")
    return (
        first in {"random", "secrets"}
        or (first in {"np", "numpy", "scipy"} and rest.split(".")[0] in {"random", "stats"})
        or name in {"os.urandom", "os.getrandom"}
    )


def charges_have_one_path(package: Path) -> list[str]:
    """Only `Payer.charge_and_publish` builds a request and charges a ledger. Proof: proofs/ledger.md"""
    broken = []
    for path in _files(package):
        module, tree = _module(path, package), _tree(path)
        if _layer(path, package) != "ledger":
            imported = [(node.lineno, name) for node, name in _imported(tree)]
            broken += [f"{module}:{line} imports {name}" for line, name in imported if "sfumato.ledger.request" in name]
        if module != "sfumato.ledger.payer":
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            broken += [f"{module}:{call.lineno} charges a ledger" for call in calls if _charges_ledger(call.func)]
    return broken


def _charges_ledger(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr == "charge" and _last_name(called.value).endswith("ledger")


def _last_name(value: ast.expr) -> str:
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def databases_keep_their_private_members(package: Path) -> list[str]:
    """Other modules use the public members of an open database."""
    return [
        f"{_module(path, package)}:{node.lineno} uses {node.attr} of a database"
        for path in _files(package)
        if _layer(path, package) != "database"
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and _last_name(node.value).endswith("database")
    ]


LAWS: tuple[Law, ...] = (
    layers_are_known,
    imports_go_up,
    files_of_a_layer_form_no_cycle,
    imports_are_absolute_and_come_first,
    a_package_opens_with_one_sentence,
    the_package_root_holds_public_names,
    names_say_what_they_hold,
    files_stay_short,
    mathematics_knows_no_database,
    statements_know_no_engine,
    shared_sql_leaves_features_to_dialects,
    noise_has_one_source,
    charges_have_one_path,
    databases_keep_their_private_members,
)

PLANTED: tuple[tuple[Law, dict[str, str]], ...] = (
    (layers_are_known, {"cellar.py": ""}),
    (imports_go_up, {"exact.py": "from sfumato.mechanisms.laplace import Laplace\n"}),
    (imports_go_up, {"accounting/pure.py": "def f() -> None:\n    from sfumato.mechanisms import laplace\n"}),
    (imports_go_up, {"lab/attack.py": "import sfumato.learn.descent\n"}),
    (imports_go_up, {"ledger/chain.py": "import sfumato.lab.attack\n"}),
    (imports_go_up, {"exact.py": "from sfumato import Refusal\n"}),
    (imports_go_up, {"exact.py": "import sfumato\n"}),
    (imports_go_up, {"__main__.py": "from sfumato.database import Database\n"}),
    (files_of_a_layer_form_no_cycle, {"exact.py": "import sfumato.errors\n", "errors.py": "import sfumato.exact\n"}),
    (
        files_of_a_layer_form_no_cycle,
        {"query/a.py": "from sfumato.query.b import f\n", "query/b.py": "from sfumato.query import a\n"},
    ),
    (imports_are_absolute_and_come_first, {"query/a.py": "from .b import f\n"}),
    (imports_are_absolute_and_come_first, {"cli.py": "def f() -> None:\n    import json\n"}),
    (imports_are_absolute_and_come_first, {"exact.py": "def f() -> None:\n    import json\n"}),
    (imports_are_absolute_and_come_first, {"exact.py": "ONE = 1\nimport json\n"}),
    (imports_are_absolute_and_come_first, {"exact.py": "try:\n    import json\nexcept ImportError:\n    pass\n"}),
    (imports_are_absolute_and_come_first, {"commands/ask.py": "ONE = 1\nimport json\n"}),
    (a_package_opens_with_one_sentence, {"query/__init__.py": ""}),
    (a_package_opens_with_one_sentence, {"query/__init__.py": '"""One. Two."""\n'}),
    (a_package_opens_with_one_sentence, {"query/__init__.py": '"""One."""\nfrom sfumato.query.a import f\n'}),
    (a_package_opens_with_one_sentence, {"learn/__init__.py": '"""One."""\nfrom sfumato.learn.a import A\n'}),
    (a_package_opens_with_one_sentence, {"learn/trees/__init__.py": '"""One. Two."""\n'}),
    (a_package_opens_with_one_sentence, {"lab/__init__.py": '"""One."""\n__all__ = ["a"]\n'}),
    (the_package_root_holds_public_names, {"__init__.py": "def open() -> None: ...\n"}),
    (the_package_root_holds_public_names, {"__init__.py": "import os\n"}),
    (the_package_root_holds_public_names, {"__init__.py": "from sfumato.errors import Refusal\n__all__ = []\n"}),
    (names_say_what_they_hold, {"utils.py": ""}),
    (names_say_what_they_hold, {"query/sql_helpers.py": ""}),
    (names_say_what_they_hold, {"core/noise.py": ""}),
    (files_stay_short, {"exact.py": "\n" * (MAX_FILE_LINES + 1)}),
    (mathematics_knows_no_database, {"accounting/stored.py": "import sqlite3\n"}),
    (statements_know_no_engine, {"database.py": "from sfumato.engines.duckdb.engine import DuckDB\n"}),
    (statements_know_no_engine, {"engines/sql/flow.py": "import psycopg\n"}),
    (shared_sql_leaves_features_to_dialects, {"engines/sql/flow.py": 'SQL = f"count(*) FILTER (WHERE {x})"\n'}),
    (shared_sql_leaves_features_to_dialects, {"engines/sql/flow.py": 'SQL = f"bit_or({x})"\n'}),
    (noise_has_one_source, {"release/a.py": "import random\n"}),
    (noise_has_one_source, {"release/a.py": "import numpy as np\n\nNOISE = np.random.default_rng()\n"}),
    (noise_has_one_source, {"release/a.py": "from numpy.random import default_rng\n"}),
    (noise_has_one_source, {"release/a.py": "import os\n\nBITS = os.urandom(8)\n"}),
    (charges_have_one_path, {"streams/a.py": "from sfumato.ledger.request import Request\n"}),
    (charges_have_one_path, {"measure.py": "def f(payer):\n    payer.ledger.charge(None)\n"}),
    (databases_keep_their_private_members, {"measure.py": "def f(database):\n    return database._engine\n"}),
    (databases_keep_their_private_members, {"sealed/a.py": "def f(one):\n    return one._database._prepare\n"}),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_source_obeys(law: Law) -> None:
    assert _files(PACKAGE)
    assert law(PACKAGE) == []


@pytest.mark.parametrize(("law", "files"), PLANTED, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_violation_is_caught(law: Law, files: dict[str, str], tmp_path: Path) -> None:
    package = tmp_path / "sfumato"
    package.mkdir()
    (package / "__init__.py").write_text('"""A house."""\n', encoding="utf-8")
    assert law(package) == []
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    assert law(package) != []


def test_every_law_has_a_planted_violation() -> None:
    assert {law for law, _ in PLANTED} == set(LAWS)


@pytest.mark.parametrize("folder", ["tests", "examples", "benchmarks"])
def test_the_other_folders_keep_names_and_lengths_too(folder: str) -> None:
    assert names_say_what_they_hold(REPOSITORY / folder) + files_stay_short(REPOSITORY / folder) == []


def test_a_verb_of_the_command_line_may_import_late(tmp_path: Path) -> None:
    package = tmp_path / "sfumato"
    verb = package / "commands" / "demo.py"
    verb.parent.mkdir(parents=True)
    verb.write_text("def demo() -> None:\n    from sfumato.demo import tour\n", encoding="utf-8")
    assert imports_are_absolute_and_come_first(package) + imports_go_up(package) == []


def test_a_workshop_may_name_its_public_classes_and_load_them_when_used(tmp_path: Path) -> None:
    room = tmp_path / "sfumato" / "learn"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text(
        '"""Models."""\n\nfrom importlib import import_module\nfrom typing import TYPE_CHECKING\n\n'
        "if TYPE_CHECKING:\n    from sfumato.learn.linear import LinearRegression\n\n"
        '__all__ = ["LinearRegression"]\n_HOMES = {"LinearRegression": "sfumato.learn.linear"}\n\n\n'
        "def __getattr__(name: str) -> object:\n    return getattr(import_module(_HOMES[name]), name)\n",
        encoding="utf-8",
    )
    package = tmp_path / "sfumato"
    assert a_package_opens_with_one_sentence(package) + imports_are_absolute_and_come_first(package) == []
