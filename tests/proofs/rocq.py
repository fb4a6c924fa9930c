"""Run Rocq on the sources of proofs/rocq, and read what it says.

The sources are compiled in a temporary folder, in the order of `_CoqProject`, so that the repository stays clean.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from shutil import copy, which
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "proofs" / "rocq"
RECORD = SOURCES / "checked.json"
"""What the last full check found: a digest of each source, and the axioms behind each theorem."""

ALLOWED = frozenset(
    {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
        "Classical_Prop.classic",
    }
)
"""The axioms of Rocq's real numbers. No theorem may rest on another one."""
PROGRAMS = ("coqc", "coqchk")
_THEOREM = re.compile(r"(?m)^Theorem (\w+)")
_AXIOM = re.compile(r"([\w.']+)(?: : .*)?")
_CLOSED = "Closed under the global context"


@dataclass(frozen=True, slots=True)
class Record:
    """A full check: the version of Rocq, a digest of each source, and the axioms behind each theorem."""

    version: str
    sources: dict[str, str]
    theorems: dict[str, list[str]]

    @staticmethod
    def read(path: Path = RECORD) -> "Record":
        return Record(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path = RECORD) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def files(folder: Path = SOURCES) -> list[Path]:
    """Return the sources in the order in which they are compiled."""
    lines = (folder / "_CoqProject").read_text(encoding="utf-8").splitlines()
    return [folder / line for line in lines if line.endswith(".v")]


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def theorems(path: Path) -> list[str]:
    """Return the theorems of a source, as `File.theorem`."""
    return [f"{path.stem}.{name}" for name in _THEOREM.findall(path.read_text(encoding="utf-8"))]


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if which(name) is None]


@contextmanager
def compiled(folder: Path = SOURCES) -> Iterator[Path]:
    """Compile all sources, in a folder that exists as long as the block does."""
    with TemporaryDirectory() as place:
        for path in files(folder):
            copy(path, place)
            coqc(Path(place), Path(path.name))
        yield Path(place)


def coqc(folder: Path, source: Path) -> str:
    """Compile one source beside the others, and return what it prints."""
    done = subprocess.run(
        ["coqc", "-Q", ".", "Sfumato", str(source)], cwd=folder, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"{source.name} does not compile.\n{done.stderr}")
    return done.stdout


def rechecked(folder: Path) -> None:
    """Check the compiled files once more with the stand-alone checker, and all of Rocq's library that they use."""
    modules = [f"Sfumato.{path.stem}" for path in files()]
    command = ["coqchk", "-silent", "-Q", ".", "Sfumato", *modules]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"coqchk refuses the compiled files.\n{done.stdout}{done.stderr}")


def evaluated(folder: Path, requires: str, definitions: str, expression: str) -> object:
    """Return the normal form of an expression of numbers, truth values, pairs and lists, as lists.

    Several may be evaluated at the same time: each has a file of its own.
    """
    text = (
        "From Coq Require Import ZArith QArith List Arith Bool.\n"
        f"From Sfumato Require Import {requires}.\nImport ListNotations.\nOpen Scope Z_scope.\n"
        f"Set Printing Width 1000000.\nSet Printing Depth 1000000.\n{definitions}\nEval vm_compute in ({expression}).\n"
    )
    source = Path(f"Evaluated{sha256(text.encode()).hexdigest()}.v")
    (folder / source).write_text(text, encoding="utf-8")
    said = coqc(folder, source)
    shown = said.split("= ", 1)[1].rsplit("\n     : ", 1)[0]
    shown = re.sub(r"%(nat|Z|positive)", "", shown)
    return json.loads(shown.translate(str.maketrans("();", "[],")))


def assumptions(folder: Path) -> dict[str, list[str]]:
    """Return the axioms behind every theorem, as `Print Assumptions` lists them."""
    names = [name for path in files() for name in theorems(path)]
    modules = " ".join(path.stem for path in files())
    lines = [f"From Sfumato Require {modules}."]
    for name in names:
        lines += [f'Goal True. idtac "== {name}". Abort.', f"Print Assumptions Sfumato.{name}."]
    (folder / "Assumed.v").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = coqc(folder, Path("Assumed.v"))
    found = {}
    for part in re.split(r"(?m)^== ", said)[1:]:
        name, _, rest = part.partition("\n")
        found[name] = read_axioms(rest)
    return found


def read_axioms(said: str) -> list[str]:
    """Read one answer: it says that nothing is assumed, or names axioms, each at the beginning of a line."""
    heading, *lines = [line for line in said.splitlines() if line and not line.startswith(" ")]
    if heading == _CLOSED and not lines:
        return []
    named = [_AXIOM.fullmatch(line) for line in lines]
    if heading != "Axioms:" or not named or None in named:
        raise RuntimeError(f"These assumptions cannot be read.\n{said}")
    return sorted({match[1] for match in named if match})


def version() -> str:
    said = subprocess.run(["coqc", "--print-version"], capture_output=True, encoding="utf-8", check=True).stdout
    return said.split()[0]
