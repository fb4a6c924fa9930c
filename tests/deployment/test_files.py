"""Container, compose file, unit and chart: linted, confined, and started by options that `sfumato serve` has."""

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.deployment.files import (
    DEPLOY,
    SECRETS,
    STATE,
    compose,
    container_command,
    container_steps,
    container_value,
    helm,
    rendered,
    unit,
    unit_command,
)

from sfumato.commands.serving import serve
from sfumato.policy.reading import read_policy

NEEDED = ("--set", "image.tag=1.2.3", "--set", "host=db.example", "--set", "tlsSecret=tls")
POLICY = ("--set-file", f"policy={DEPLOY / 'compose' / 'policy.toml'}")
EVERYTHING = (
    *(
        "--set",
        "image.tag=sha256:" + "0" * 64,
        "--set",
        "environmentSecret=passwords",
        "--set",
        "storage.className=fast",
    ),
    *("--set", "data.persistentVolumeClaim.claimName=files", "--set", "options={--audit-copy,stdout}"),
    *("--set", "allowFrom[0].podSelector.matchLabels.app=proxy", "--set", "imagePullSecrets[0].name=registry"),
    *("--set", "podAnnotations.team=data", "--set", "nodeSelector.disk=encrypted", "--set", "tolerations[0].key=data"),
)


def parsed(command: list[str], folder: Path) -> dict[str, Any]:
    """Return the options of a command line, read by the command itself; files that it names are made first."""
    at = command.index("serve")
    words = []
    for word in command[at + 1 :]:
        option, equals, value = word.rpartition("=")
        if value.startswith("/"):
            file = folder / value.strip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            value = str(file)
        words.append(f"{option}{equals}{value}")
    return serve.make_context("serve", words).params


def helm_command() -> list[str]:
    """Return what the chart's container runs, with every value set."""
    container = pod(rendered(*NEEDED, *POLICY, *EVERYTHING))["containers"][0]
    return ["sfumato", *container["args"]]


def pod(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = objects["StatefulSet"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("command", [container_command, unit_command, helm_command], ids=lambda made: made.__name__)
def test_every_deployment_starts_with_options_that_the_server_has(command: Any, tmp_path: Path) -> None:
    options = parsed(command(), tmp_path)
    assert options["host"] == "0.0.0.0"  # noqa: S104 - and with a certificate
    assert options["tls_cert"].name == "tls.crt"
    assert options["tls_key"].name == "tls.key"
    assert options["log_json"]


# --- the container ---


def test_the_container_file_has_no_finding_of_hadolint() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", DEPLOY / "Containerfile"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_installs_by_hash_and_runs_as_nobody_else() -> None:
    installs = re.findall(
        r"(?m)install (?=--no-cache)(.*?)(?= &&|$)", "\n".join(r for w, r in container_steps() if w == "RUN")
    )
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--no-index --no-deps" in install, install
    user, group = container_value("USER").split(":")
    assert user.isdecimal()
    assert group.isdecimal()
    assert int(user) >= 1000
    assert STATE in container_value("VOLUME")
    assert container_value("HEALTHCHECK").endswith('CMD ["healthcheck", "8000"]')


def test_what_the_container_copies_is_in_its_context() -> None:
    allowed = [line[1:] for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = [rest.split() for word, rest in container_steps() if word == "COPY" and "--from" not in rest]
    sources = {name for words in copies for name in words[:-1] if not name.startswith("--")}
    assert sources <= set(allowed)
    assert all((DEPLOY.parent / name).exists() for name in sources)


# --- compose ---


def test_the_compose_file_confines_the_server_and_gives_it_no_password() -> None:
    services = compose()["services"]
    server = services["sfumato"]
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]
    assert "db" in server["depends_on"]
    assert "ports" not in services["db"]
    assert compose()["networks"]["inside"]["internal"] is True
    assert not any("PASSWORD" in key for key in server["environment"])
    assert f"{SECRETS}/" in server["environment"]["PGPASSFILE"]
    named = {name for service in services.values() for name in service["secrets"]}
    assert named == set(compose()["secrets"])


def test_the_compose_file_mounts_what_is_there() -> None:
    folder = DEPLOY / "compose"
    for service in compose()["services"].values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert source in compose()["volumes"] or (folder / source).exists(), mount
    assert (folder / compose()["services"]["sfumato"]["build"]["context"]).resolve() == DEPLOY.parent
    assert (folder / "initdb.sh").stat().st_mode & stat.S_IXUSR
    policy = read_policy(folder / "policy.toml")
    assert policy.source.scheme == policy.ledger.scheme == "postgresql"


# --- the unit ---


def test_the_unit_is_hardened() -> None:
    service = {key: values[-1] for key, values in unit()["Service"].items()}
    for key in (
        *("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups"),
        *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectHostname", "LockPersonality"),
        *("MemoryDenyWriteExecute", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "RemoveIPC"),
    ):
        assert service[key] == "yes", key
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"
    assert service["User"] not in ("root", "0")
    assert int(service["LimitNOFILE"]) >= 4096
    assert service["MemoryMax"]


def test_systemd_accepts_the_unit_and_finds_little_exposure(tmp_path: Path) -> None:
    """Where systemd is at hand. It wants the program to exist, so this copy of the unit names another one."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return  # the test above reads the same file without systemd
    text = (DEPLOY / "systemd" / "sfumato@.service").read_text().replace("/opt/sfumato/bin/sfumato", sys.executable)
    file = tmp_path / "sfumato@.service"
    file.write_text(text)
    done = subprocess.run([analyze, "verify", "--man=no", file], capture_output=True, encoding="utf-8", check=False)
    assert "sfumato@" not in done.stderr, done.stderr
    secured = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=20", "--no-pager", file], capture_output=True, check=False
    )
    assert secured.returncode == 0, secured.stdout[-200:]


# --- the chart ---


@pytest.mark.parametrize("more", [(), EVERYTHING], ids=["fewest values", "all values"])
def test_the_chart_is_accepted_by_helm_and_its_pod_is_confined(more: tuple[str, ...]) -> None:
    linted = helm("lint", "--strict", *NEEDED, *POLICY, *more)
    assert linted.returncode == 0, linted.stdout
    objects = rendered(*NEEDED, *POLICY, *more)
    found = pod(objects)
    (container,) = found["containers"]
    assert found["automountServiceAccountToken"] is False
    assert found["securityContext"]["runAsNonRoot"] is True
    assert str(found["securityContext"]["runAsUser"]) == container_value("USER").split(":")[0]
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    claims = objects["StatefulSet"]["spec"].get("volumeClaimTemplates", [])
    volumes = {volume["name"] for volume in found["volumes"]} | {claim["metadata"]["name"] for claim in claims}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert container["volumeMounts"][0]["mountPath"] == STATE
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["httpHeaders"] == [{"name": "Host", "value": "db.example"}]
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    names = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} == names
    selector = objects["StatefulSet"]["spec"]["selector"]["matchLabels"]
    assert selector == objects["Service"]["spec"]["selector"]
    assert selector.items() <= objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    assert ("NetworkPolicy" in objects) == bool(more)


def test_the_chart_carries_the_policy_and_restarts_when_it_changes(tmp_path: Path) -> None:
    text = (DEPLOY / "compose" / "policy.toml").read_text()
    (tmp_path / "changed.toml").write_text(text + "\n[analysts.press]\nepsilon = 1\n")
    first, second = (
        rendered(*NEEDED, "--set-file", f"policy={file}")
        for file in (DEPLOY / "compose" / "policy.toml", tmp_path / "changed.toml")
    )
    assert first["ConfigMap"]["data"]["policy.toml"] == text
    sums = [
        objects["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]["checksum/policy"]
        for objects in (first, second)
    ]
    assert sums[0] != sums[1]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("--set", "image.tag=latest"), "image.tag"),
        (("--set", "host="), "host"),
        (("--set", "tlsSecret="), "tlsSecret"),
        (("--set", "policy="), "policy"),
        (("--set", "replicas=2"), "replicas"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_the_chart_refuses_values_that_cannot_work(wrong: tuple[str, ...], named: str) -> None:
    policy = () if named == "policy" else POLICY
    done = helm("template", *NEEDED, *policy, *wrong)
    assert done.returncode != 0
    assert named in done.stderr


def test_every_test_that_the_page_about_production_names_exists() -> None:
    page = (DEPLOY.parent / "docs" / "production.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 30
    assert [f"{path}::{name}" for path, name in named if f"def {name}(" not in (DEPLOY.parent / path).read_text()] == []
