"""Names follow docs/vocabulary.md: one meaning per word, and every name says what it holds.

All laws run on the source and on planted violations of them. What they allow has its reason here; what is still to be
renamed is listed in unclear_names.txt, which only shrinks.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "sfumato"

CLASSES = {
    "Answer": "of a store that sees no plaintext, and of a synthetic table (public in sfumato.synthesis)",
    "Budget": "what a policy grants, and what the ledger says of it",
    "Catalog": "what a query needs of the tables (a Protocol), and what analysis knows of them",
    "Column": "of a table: as a policy declares it, and as a query names it",
    "Entry": "one line of what was written down: of a policy, and of a ledger",
    "Filter": "a term of two fields: of privacy losses, and of rows",
    "Key": "a term of two fields: of a group, and of a cipher (public in sfumato.sealed)",
    "Kind": "how a value is kept: by an engine, and by a source",
    "Plan": "what will be done at which price: of a question, and of a search by prefixes (public in sfumato.local)",
    "Range": "of stored integers, and of a column's public domain (public in sfumato.synthesis)",
    "Table": "as a policy declares it, as a query needs it (a Protocol), and as analysis knows it",
}
FUNCTIONS = {
    "absolute": "of a scalar, and of the interval that it lies in",
    "audit": "one audit each: the same is asked of every one",
    "epsilon": "of an event, by each accountant",
    "main": "what `python -m` runs",
    "modulo": "of scalars, and of the intervals that they lie in",
    "run": "one attack or audit each: the same is asked of every one",
}


@cache
def _definitions(package: Path) -> list[tuple[type, str, Path]]:
    """Return the public classes and functions at the top of every file."""
    return [
        (type(node), node.name, path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]


ENGINE_FOLDERS = ("engines/duckdb", "engines/postgres", "engines/spark")
"""Engines have the same files with the same names, which mean the same in each."""


def _engine_folder(path: Path) -> str:
    return next((folder for folder in ENGINE_FOLDERS if path.is_relative_to(folder)), "")


def _named(package: Path, kind: type) -> dict[str, set[Path]]:
    """Return where each public class or function is defined."""
    places: dict[str, set[Path]] = defaultdict(set)
    for its_kind, name, path in _definitions(package):
        if its_kind is kind:
            places[name].add(path)
    return places


def classes_with_two_meanings(package: Path) -> list[str]:
    """Find public classes of one name anywhere in the package, and inside each folder with words of its own."""
    broken = []
    for name, paths in _named(package, ast.ClassDef).items():
        for country in ("", *ENGINE_FOLDERS):
            here = sorted(path for path in paths if _engine_folder(path) == country)
            if len(here) > 1 and name not in CLASSES:
                broken.append(f"{name}: {', '.join(map(str, here))}")
    return broken


@cache
def private_classes_with_two_meanings(package: Path) -> list[str]:
    """Find private classes of one name in two files of one package: `class: name in package`."""
    places: dict[tuple[str, str], int] = defaultdict(int)
    for path in sorted(package.rglob("*.py")):
        home = _engine_folder(path.relative_to(package)) or path.relative_to(package).parts[0]
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("_"):
                places[node.name, home] += 1
    return [f"class: {name} in {home}" for (name, home), count in sorted(places.items()) if count > 1]


def functions_with_two_meanings(package: Path) -> list[str]:
    """Find public functions of one name in two files of one folder."""
    broken = []
    for name, paths in _named(package, ast.FunctionDef).items():
        folders = [path.parent for path in paths if path.parent != Path()]
        twice = {folder for folder in folders if folders.count(folder) > 1}
        if twice and name not in FUNCTIONS:
            broken.append(f"{name}: {', '.join(str(path) for path in sorted(paths) if path.parent in twice)}")
    return broken


def test_a_class_has_one_meaning_in_the_whole_package() -> None:
    assert classes_with_two_meanings(PACKAGE) == []


def test_a_private_class_has_one_meaning_in_its_package() -> None:
    allowed = set(_unclear_yet())
    assert [name for name in private_classes_with_two_meanings(PACKAGE) if name not in allowed] == []


def test_a_function_has_one_meaning_in_its_folder() -> None:
    assert functions_with_two_meanings(PACKAGE) == []


def test_what_is_allowed_twice_occurs_twice() -> None:
    classes, functions = _named(PACKAGE, ast.ClassDef), _named(PACKAGE, ast.FunctionDef)
    assert [name for name in CLASSES if len(classes[name]) < 2] == []
    assert [name for name in FUNCTIONS if len(functions[name]) < 2] == []


@pytest.mark.parametrize(
    ("texts", "classes", "functions"),
    [
        ({"query/a.py": "class Wave: ...\n", "ledger/b.py": "class Wave: ...\n"}, 1, 0),
        ({"query/a.py": "def wave(): ...\n", "query/b.py": "def wave(): ...\n"}, 0, 1),
        ({"query/a.py": "def wave(): ...\n", "ledger/b.py": "def wave(): ...\n"}, 0, 0),
        ({"engines/spark/a.py": "class Wave: ...\n", "ledger/b.py": "class Wave: ...\n"}, 0, 0),
        ({"engines/spark/a.py": "class Wave: ...\n", "engines/spark/b.py": "class Wave: ...\n"}, 1, 0),
        ({"query/a.py": "class _Wave: ...\n", "ledger/b.py": "class _Wave: ...\n"}, 0, 0),
    ],
)
def test_a_planted_homonym_is_found(tmp_path: Path, texts: dict[str, str], classes: int, functions: int) -> None:
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert len(classes_with_two_meanings(tmp_path)) == classes
    assert len(functions_with_two_meanings(tmp_path)) == functions


@pytest.mark.parametrize(
    ("texts", "homonyms"),
    [
        (("query/a.py", "query/b/c.py"), ["class: _Wave in query"]),
        (("engines/spark/a.py", "engines/spark/b.py"), ["class: _Wave in engines/spark"]),
        (("engines/spark/a.py", "engines/duckdb/a.py"), []),
        (("query/a.py", "ledger/b.py"), []),
    ],
)
def test_a_planted_private_homonym_is_found(tmp_path: Path, texts: tuple[str, ...], homonyms: list[str]) -> None:
    for name in texts:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("class _Wave: ...\n", encoding="utf-8")
    assert private_classes_with_two_meanings(tmp_path) == homonyms


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUPERLATIVES = _word_set(
    """
    alike alone always anew apart beyond close dearer elsewhere endless enough faint far farther few finer further
    hopeless huge later least most much near nearer never often seldom sure tiny together wider worst
    """
)
"""Words that compare without saying what: a limit is MAX_ROWS or MIN_SCALE. So are those in -est and -ly."""

PLAIN_WORDS = _word_set("assembly family manifest poly reply request rest tally test")
"""Nouns in -est and -ly, which do not compare."""

QUANTITIES = _word_set(
    """
    bins bits bisections bytes cells classes columns confidence count days deviations digits epsilon delta exponent
    gamma halvings hours iterations keys level levels lines loss minutes modulus momentum months names nodes octets
    order people percent places points portion postcodes precision prime probability questions rate ratio repeats rounds
    roundoff rows scale seconds share sigma size steps tries unit units values variance weight width words year years
    patients parts infinity zero version
    """
)
"""What a number may be called by one word alone: its unit, or a quantity of the field."""

SIZES = _word_set("batch block buffer burst chunk delay interval length limit max min page patience timeout wait")
"""Words of a count or a size: the name also says of what, as MAX_ROWS or LOCK_TIMEOUT_SECONDS do."""

DIMENSIONLESS = _word_set(
    """
    activation argument base bound confidence contribution depth denominator divisor double error factor failure float
    frequency gain gap gamma growth int integer magnitude margin mask multiple nesting parameter part port position
    power product quotient radius signal step sum summand term tilt value
    """
)
"""Quantities without a unit, which a limit may be of."""

OLD_WORDS = _word_set(
    """
    beside brought crowd crowded desk door found house kept look looked meet meeting meetings met nobody
    rehearsed room shadow shown speaker strangers survivors taken tier tiers told verb whoever wish wishes workshop
    """
)
"""Words of the project's youth, for which docs/vocabulary.md has others."""

OLD_MODULES = _word_set(
    """
    affording after_noise alike alternatives arrivals aside averaged bars beside best_margins biased book books building
    carrying catalog_of cell_numbers characters choices choosing_notes chosen_bounds chosen_levels clock coarser copy
    counted cut cut_off dice drawing each_value effects found harmless job kept layers letters level_places level_totals
    levels loose_rows losses marks matched measuring meeting meetings met missing numbering one_pass one_table
    outline pace paired parquet_mending people places preparing private_files public_first question ranked read_again
    redrawing rehearsing row_counts shadow sheets showing spending spread stacks summed survivors tiers totals
    travelling turns verbs within workshops written written_out
    """
)
"""Names of files that docs/vocabulary.md replaced."""

PUBLIC_NAMES = {
    "local/prefixes.py: Found": "public in sfumato.local",
    "mechanisms/meetings.py: Meetings": "a public mechanism",
    "mechanisms/meetings.py: Meetings.meetings": "the count that the public mechanism releases",
    "errors.py: NotFound": "a refusal, named as HTTP names it",
    "sensitivity/spread.py": "a public import path",
    "mechanisms/meetings.py": "a public import path",
    "lab/attacks/biased.py": "the attack on biased coins, a term of the field",
    "lab/attacks/least_squares.py": "least squares, a term of the field",
    "learn/nearest_centroid.py": "the nearest centroid, a term of the field",
}
"""Names that users or files depend on, with the reason."""

NUMBERED_CODES = (
    "server/wire/oids.py",
    "server/wire/startup.py",
    "server/wire/pg_catalog/relations.py",
    "server/statuses.py",
)
"""Files whose numbers are codes of a protocol, called as the protocol calls them."""


def _words(name: str) -> set[str]:
    """Return the words of a name, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _compares(words: set[str]) -> bool:
    """Tell whether a name holds a bare superlative or an adverb."""
    return any(
        word in SUPERLATIVES or (word.endswith(("est", "ly")) and len(word) > 4 and word not in PLAIN_WORDS)
        for word in words
    )


def _lacks_unit(words: set[str]) -> bool:
    """Tell whether the words speak of a count or a size and not of what: neither a unit nor things in the plural."""
    plural = any(word.endswith("s") and not word.endswith("ss") for word in words)
    return bool(words & SIZES) and not plural and not words & (QUANTITIES | DIMENSIONLESS)


def _is_number(value: ast.expr | None) -> bool:
    """Tell whether an expression is a number that is written out."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.Call(func=ast.Name(id="Fraction" | "Decimal")):
            return True
    return isinstance(value, ast.Name) and value.id.isupper()


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Give the names at the top of a file that are assigned, each with its value; types are among them."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Tuple):
                values = value.elts if isinstance(value, ast.Tuple) else [None] * len(target.elts)
                for part, item in zip(target.elts, values, strict=True):
                    if isinstance(part, ast.Name):
                        yield part.id, item


def _public_members(tree: ast.Module) -> Iterator[str]:
    """Give the public classes and functions of a file, and the public methods of its classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_"):
                    yield f"{node.name}.{member.name}"


@cache
def unclear_names(package: Path) -> list[str]:
    """Find names that do not say what they hold: `file: name`, or the file alone where its own name is one."""
    found = []
    for path in sorted(package.rglob("*.py")):
        file, tree = path.relative_to(package).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
        module = path.parent.name if path.stem == "__init__" and path.parent != package else path.stem
        if module in OLD_MODULES or _compares(_words(module)):
            found.append(file)
        for name, value in _constants(tree):
            single = "_" not in name.strip("_") and name.strip("_").lower() not in QUANTITIES
            bare_number = name.isupper() and _is_number(value) and (single or _lacks_unit(_words(name)))
            if _compares(_words(name)) or (bare_number and file not in NUMBERED_CODES):
                found.append(f"{file}: {name}")
        found += [f"{file}: {name}" for name in _public_members(tree) if _words(name.rpartition(".")[2]) & OLD_WORDS]
    return [name for name in found if name not in PUBLIC_NAMES]


@cache
def types_with_two_meanings(package: Path) -> list[str]:
    """Find public names of types that stand for two types, or for a type and a class: `type: name`."""
    meanings: dict[str, set[str]] = defaultdict(set)
    for path in sorted(package.rglob("*.py")):
        for name, value in _constants(ast.parse(path.read_text(encoding="utf-8"))):
            if name[0].isupper() and not name.isupper() and value is not None and not isinstance(value, ast.Call):
                meanings[name].add(ast.unparse(value).replace("npt.NDArray", "NDArray"))
    classes = _named(package, ast.ClassDef)
    return [f"type: {name}" for name, types in sorted(meanings.items()) if len(types) > 1 or name in classes]


def _unclear_yet() -> list[str]:
    return Path(__file__).with_name("unclear_names.txt").read_text(encoding="utf-8").splitlines()


def test_a_name_says_what_it_holds() -> None:
    allowed = set(_unclear_yet())
    assert [name for name in unclear_names(PACKAGE) if name not in allowed] == []


def test_a_type_has_one_meaning() -> None:
    allowed = set(_unclear_yet())
    assert [name for name in types_with_two_meanings(PACKAGE) if name not in allowed] == []


def test_what_is_still_unclear_occurs() -> None:
    unclear = {
        *unclear_names(PACKAGE),
        *types_with_two_meanings(PACKAGE),
        *private_classes_with_two_meanings(PACKAGE),
    }
    assert sorted(set(_unclear_yet()) - unclear) == [], "Renamed: take these out of unclear_names.txt."


@pytest.mark.parametrize(
    ("file", "text", "unclear"),
    [
        ("a.py", "_LARGEST = 3\n", True),
        ("a.py", "MOST_ROWS = 3\n", True),
        ("a.py", "_FEW, MAX_ROWS = 3, 4\n", True),
        ("a.py", "_SURE: float = 0.5\n", True),
        ("a.py", "_LATER = ('a', 'b')\n", True),
        ("a.py", "_FINE = 1 << 20\n", True),
        ("a.py", "_FINE = Fraction(1, 20)\n", True),
        ("a.py", "_PATIENCE = -5.0\n", True),
        ("a.py", "Farthest = tuple[int, int]\n", True),
        ("a.py", "_COARSEST_PLACES = 3\n", True),
        ("a.py", "_FULLY_LISTED = frozenset()\n", True),
        ("a.py", "HISTORY_PAGE = 100\n", True),
        ("a.py", "_MAX_CLOSING = 8\n", True),
        ("a.py", "LOCK_TIMEOUT = 5.0\n", True),
        ("a.py", "HISTORY_PAGE_ROWS = 100\nMAX_SESSIONS = 8\nMAX_NESTING = 3\nMIN_RATIO = 0.5\n", False),
        ("a.py", "_MAX_REPLY_BYTES = 8\nMANIFEST = 'a'\nWAIT = 'w'\n", False),
        (
            "a.py",
            "MAX_ROWS = 3\n_TIMEOUT_SECONDS = 5.0\n_DIGITS = 20\n_FORMS = {1: 2}\nRange = tuple[int, int]\n",
            False,
        ),
        ("a.py", "class OwnerDesk: ...\n", True),
        ("a.py", "def read_wish(): ...\n", True),
        ("a.py", "class Ledger:\n    def told(self): ...\n", True),
        ("a.py", "class _Room: ...\ndef _told(): ...\nclass Ledger:\n    def _kept(self): ...\n", False),
        ("a.py", "def founded(): ...\nclass Bedroom: ...\n", False),
        ("kept.py", "", True),
        ("cut_off.py", "", True),
        ("rounding.py", "", False),
        ("nearest_value.py", "", True),
        ("family.py", "", False),
    ],
)
def test_a_planted_unclear_name_is_found(tmp_path: Path, file: str, text: str, unclear: bool) -> None:
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert bool(unclear_names(tmp_path)) == unclear


@pytest.mark.parametrize(
    ("first", "second", "homonyms"),
    [
        ("Wave = tuple[int, int]\n", "Wave = list[int]\n", ["type: Wave"]),
        ("Wave = tuple[int, int]\n", "class Wave: ...\n", ["type: Wave"]),
        ("Wave = tuple[int, int]\n", "Wave = tuple[int, int]\n", []),
        ("_Wave = tuple[int, int]\n", "_Wave = list[int]\n", []),
        ("T = TypeVar('T')\n", "T = TypeVar('T', bound=int)\n", []),
    ],
)
def test_a_planted_type_with_two_meanings_is_found(
    tmp_path: Path, first: str, second: str, homonyms: list[str]
) -> None:
    (tmp_path / "a.py").write_text(first, encoding="utf-8")
    (tmp_path / "b.py").write_text(second, encoding="utf-8")
    assert types_with_two_meanings(tmp_path) == homonyms
