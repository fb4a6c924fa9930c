"""Run the tests of the packages that differ from main: `make quick`, in about a minute."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
ALWAYS = ("tests/test_architecture.py", "tests/test_words.py", "tests/test_seeds.py")
"""Laws of the whole tree that take a few seconds."""


SPLIT_PACKAGES = ("server",)
"""Packages whose subpackages have tests of their own, which are enough for a change there."""


OTHER_TESTS = {"commands": "tests/test_cli.py", "demo": "tests/test_demo.py"}
"""Tests of packages that have no folder of tests."""


def changed_files() -> list[str]:
    """Return the files that differ from where this branch left main, committed or not."""
    start = _git("merge-base", "HEAD", "main") or _git("rev-parse", "HEAD")
    tracked = _git("diff", "--name-only", start).splitlines()
    return [*tracked, *_git("ls-files", "--others", "--exclude-standard").splitlines()]


def tests_for(files: list[str]) -> list[str]:
    """Return the test files and folders that mirror the changed sources, and the changed tests themselves."""
    found = set(ALWAYS)
    for name in files:
        parts = Path(name).parts
        if name.startswith("tests/") and Path(name).name.startswith("test_") and name.endswith(".py"):
            found.add(name)
        elif name.startswith("src/sfumato/"):
            found.update(_mirrors(parts[2:]))
            if name.endswith(".py"):
                found.add(name)  # its doctests
    return sorted(name for name in found if (REPOSITORY / name).exists())


def _mirrors(parts: tuple[str, ...]) -> list[str]:
    """Return the tests that mirror a file of the package; some of them may not exist."""
    package, *inner = (Path(part).stem for part in parts)
    if not inner:
        return [f"tests/test_{package}.py"]
    if package in SPLIT_PACKAGES and len(inner) > 1:
        return [f"tests/{package}/{inner[0]}", *(f"tests/{package}/test_{part}.py" for part in inner)]
    return [OTHER_TESTS.get(package, f"tests/{package}")]


def _git(*words: str) -> str:
    run = subprocess.run(["git", *words], capture_output=True, encoding="utf-8", cwd=REPOSITORY, check=False)
    return run.stdout.strip() if run.returncode == 0 else ""


def main() -> int:
    """Run them, and stop at the first five failures."""
    chosen = tests_for(changed_files())
    print("tests:", *chosen)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "--maxfail=5", *chosen]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
