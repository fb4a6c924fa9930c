"""The files of `deploy/` as data: what a container, a unit or a chart would run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import yaml
from tests.deployment.environments import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
CHART = DEPLOY / "helm" / "sfumato"
STATE = "/var/lib/sfumato"
SECRETS = "/run/secrets"


def container_steps() -> list[tuple[str, str]]:
    """Return the instructions of the container file: word and rest."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^\s*#.*\n", "", text)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for line in lines if line.strip() for word, _, rest in [line.partition(" ")]]


def container_value(word: str) -> str:
    """Return the last value of an instruction, which is the one that counts."""
    return [rest for found, rest in container_steps() if found == word][-1]


def container_command() -> list[str]:
    """Return what the container runs when nothing else is asked for."""
    both: list[str] = [*json.loads(container_value("ENTRYPOINT")), *json.loads(container_value("CMD"))]
    return both


def unit() -> dict[str, dict[str, list[str]]]:
    """Return the sections of the systemd unit; a key may occur more than once."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (DEPLOY / "systemd" / "sfumato@.service").read_text(encoding="utf-8").splitlines():
        if RawConfigParser.SECTCRE.match(line):
            section = line.strip("[]")
            found[section] = {}
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[section].setdefault(key, []).append(value)
    return found


def unit_command() -> list[str]:
    """Return what the unit starts, for the dataset `clinic`."""
    return shlex.split(unit()["Service"]["ExecStart"][0].replace("%i", "clinic"))


def compose() -> dict[str, Any]:
    """Return the compose file."""
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    return read


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart."""
    program = shutil.which("helm", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    assert program, "helm comes with the extra `test`"
    verb, *rest = words
    names = {"lint": [str(CHART)], "template": ["clinic", str(CHART)]}[verb]
    return subprocess.run([program, verb, *names, *rest], capture_output=True, encoding="utf-8", check=False)


def rendered(*settings: str) -> dict[str, dict[str, Any]]:
    """Return the objects that the chart renders, by kind."""
    done = helm("template", *settings)
    assert done.returncode == 0, done.stderr
    return {found["kind"]: found for found in yaml.safe_load_all(done.stdout) if found}
