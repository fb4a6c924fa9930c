"""Python environments as a user has them: the built wheel, and of all other packages only those that it asks for.

Nothing is downloaded. A package is linked from the environment of the tests, so that it has the version that is tested.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEVELOPERS = frozenset({"docs", "test", "bench", "release"})
"""Extras of people who work on sfumato, not with it."""
EXTRAS = tuple(extra for extra in PROJECT["optional-dependencies"] if extra not in DEVELOPERS | {"all"})


def requirements(extras: Iterable[str] = ()) -> list[Requirement]:
    """Return what the project asks for, with these extras; extras of extras are resolved."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        for line in PROJECT["optional-dependencies"][extra]:
            needed = Requirement(line)
            lines += map(str, requirements(needed.extras)) if needed.name == PROJECT["name"] else [line]
    return [Requirement(line) for line in dict.fromkeys(lines)]


@cache
def installed(name: str) -> Distribution | None:
    """Return an installed package, or None."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def closure(needed: Iterable[Requirement]) -> dict[str, Distribution]:
    """Return every installed package that these requirements lead to, by canonical name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(requirement, extra) for requirement in needed for extra in ("", *requirement.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        package = installed(name)
        if package is None or (name, extra) in seen:
            continue
        seen.add((name, extra))
        found[name] = package
        for line in package.requires or []:
            following = Requirement(line)
            if following.marker is None or following.marker.evaluate({"extra": extra}):
                waiting += [(following, more) for more in ("", *following.extras)]
    return found


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel and chosen packages."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def program(self) -> Path:
        """The program `sfumato`."""
        return self.folder / "bin" / "sfumato"

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program as a user would: without the paths and settings of the tests."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8", **variables},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )


def build(folder: Path, target: str, source: Path = REPOSITORY) -> Path:
    """Build a wheel or an sdist with the backend that `pyproject.toml` names, and return its file."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def make_environment(folder: Path, wheel: Path, extras: Iterable[str]) -> Environment:
    """Make a virtual environment without pip, link the packages that are needed, and install the wheel."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    environment = Environment(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in closure(requirements(extras)).values():
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            link, target = packages / top, Path(str(package.locate_file(top)))
            if not link.exists() and target.exists():
                link.symlink_to(target)
    pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "install"]
    subprocess.run(
        [*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True, capture_output=True
    )
    return environment
