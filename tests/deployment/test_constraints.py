"""Pinned packages: complete, by hash, from nowhere in particular; and the bill of materials lists exactly them."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.deployment.environments import REPOSITORY, requirements

import sfumato

CONSTRAINTS = REPOSITORY / "deploy" / "constraints"
FILES = {
    "server": lambda: requirements(("server", "postgres", "plot", "report")),
    "all": lambda: requirements(("all",)),
    "build": lambda: [Requirement("hatchling")],
}
RENEW = "run: make constraints sbom"
LINUX = {
    "python_version": "3.11",
    "python_full_version": "3.11.9",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package at one version, and how many files of it are accepted."""

    name: str
    version: str
    hashes: int
    on_linux: bool


def faults(text: str) -> list[str]:
    """Return the lines that are not a pin with hashes: an address, an option, a range."""
    return [
        line
        for line in _logical_lines(text)
        if not re.fullmatch(rf"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+( ; [^\\\n]*?)?( {HASH.pattern})+", line)
        or "://" in line
    ]


def pins(text: str) -> Iterator[Pin]:
    """Read the pins of a constraints file."""
    for line in _logical_lines(text):
        needed = Requirement(HASH.sub("", line))
        ((operator, version),) = ((part.operator, part.version) for part in needed.specifier)
        assert operator == "=="
        applies = needed.marker is None or needed.marker.evaluate(LINUX)
        yield Pin(canonicalize_name(needed.name), version, len(HASH.findall(line)), applies)


def _logical_lines(text: str) -> list[str]:
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("name", FILES)
def test_every_line_is_one_version_with_hashes_and_no_address(name: str) -> None:
    text = (CONSTRAINTS / f"{name}.txt").read_text(encoding="utf-8")
    assert faults(text) == []
    assert len(list(pins(text))) >= 5


def test_other_lines_are_noticed() -> None:
    good = f"click==8.1 \\\n    --hash=sha256:{'0' * 64}\n"
    assert faults(good) == []
    for bad in (
        "click==8.1\n",
        good.replace("==", ">="),
        "--index-url https://packages.example/simple\n" + good,
        "click @ https://packages.example/click.whl \\\n    --hash=sha256:" + "0" * 64,
    ):
        assert faults(bad), bad


@pytest.mark.parametrize("name", FILES)
def test_every_package_that_the_project_asks_for_is_pinned_within_its_range(name: str) -> None:
    pinned = {pin.name: pin.version for pin in pins(_text(name)) if pin.on_linux}
    wanted: Callable[[], list[Requirement]] = FILES[name]
    for needed in wanted():
        version = pinned.get(canonicalize_name(needed.name))
        assert version is not None, f"{needed.name} is not in deploy/constraints/{name}.txt; {RENEW}"
        assert needed.specifier.contains(version, prereleases=True), f"{needed} excludes {version}; {RENEW}"


def test_all_files_pin_the_same_version() -> None:
    versions: dict[str, set[str]] = {}
    for name in FILES:
        for pin in pins(_text(name)):
            if pin.on_linux:
                versions.setdefault(pin.name, set()).add(pin.version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_bill_of_materials_keeps_to_its_schema() -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(_bill_text()) is None
    broken = _bill_text().replace('"bomFormat": "CycloneDX"', '"bomFormat": "another"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(broken) is not None


def test_the_bill_of_materials_lists_exactly_the_pinned_packages() -> None:
    bill = _bill()
    listed = {canonicalize_name(component["name"]): component["version"] for component in bill["components"]}
    assert listed == {pin.name: pin.version for pin in pins(_text("server")) if pin.on_linux}, RENEW
    assert all(component["licenses"] and component["purl"] for component in bill["components"])
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("sfumato", sfumato.__version__), RENEW


def test_every_listed_package_is_there_for_a_reason() -> None:
    bill = _bill()
    following = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    reached, waiting = set(), [bill["metadata"]["component"]["bom-ref"]]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += following[name]
    assert {component["bom-ref"] for component in bill["components"]} <= reached


def _text(name: str) -> str:
    return (CONSTRAINTS / f"{name}.txt").read_text(encoding="utf-8")


def _bill_text() -> str:
    return (REPOSITORY / "deploy" / "sbom.cdx.json").read_text(encoding="utf-8")


def _bill() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(_bill_text())
    return read
