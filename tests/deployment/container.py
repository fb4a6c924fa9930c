"""Build the container file and serve from the image: `python -m tests.deployment.container` (some minutes, network).

Where podman, buildah or docker is at hand the image is built by it. Elsewhere, or with `--steps`, the instructions of
the container file are run one by one in a folder: the same packages by the same hashes, the same wheel and command.
"""

import argparse
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deployment.environments import REPOSITORY, Environment
from tests.deployment.files import DEPLOY, SECRETS, STATE, container_command, container_steps, container_value
from tests.deployment.test_production import COUNT, started
from tests.deployment.test_wheel import POLICY
from tests.server.running import until
from tests.server.test_serving import certificate

import sfumato

IMAGE = "sfumato-under-test"
PORT = 8000


def find_builder() -> str | None:
    """Return a program that builds images and can do so now."""
    for name in ("podman", "buildah", "docker"):
        if shutil.which(name) and not subprocess.run([name, "info"], capture_output=True, check=False).returncode:
            return name
    return None


def prepare(root: Path) -> Path:
    """Write a policy, its data and a certificate where the container expects them, and return the policy."""
    state, secrets = root / STATE.strip("/"), root / SECRETS.strip("/")
    state.mkdir(parents=True, exist_ok=True)
    secrets.mkdir(parents=True)
    for made, name in zip(certificate(root), ("tls.crt", "tls.key"), strict=True):
        shutil.move(made, secrets / name)
    visits = [f"{visit % 600},{('er', 'icu')[visit % 2]}" for visit in range(900)]
    (state / "visits.csv").write_text("\n".join(["patient_id,dept", *visits]) + "\n")
    (state / "policy.toml").write_text(POLICY)
    user, group = map(int, container_value("USER").split(":"))
    if os.geteuid() == 0:
        root.chmod(0o755)
        for path in (state, secrets, *state.iterdir(), *secrets.iterdir()):
            os.chown(path, user, group)
    return state / "policy.toml"


def run_steps(root: Path) -> Environment:
    """Run the instructions of the container file in a folder that stands for the root of the image."""
    folder = root
    for word, rest in container_steps():
        if word == "FROM":
            folder = root
        elif word == "WORKDIR":
            folder = root / rest.strip("/")
            folder.mkdir(parents=True, exist_ok=True)
        elif word == "COPY" and "--from=" not in rest:
            *sources, target = [part for part in rest.split() if not part.startswith("--")]
            place = Path(_below(root, target)) if target.startswith("/") else folder / target
            for source in sources:
                _copy(REPOSITORY / source, place, target.endswith("/"))
        elif word == "RUN":
            for command in rest.split(" && "):
                if not command.strip().startswith(("groupadd", "useradd")):  # the user of this machine runs it
                    command = re.sub(r"--(owner|group)=\d+ ", "", _below(root, command))
                    subprocess.run(["sh", "-euc", command], cwd=folder, check=True, env=_variables(), umask=0o022)
    return Environment(root / "opt" / "sfumato")


def _variables() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _below(root: Path, text: str) -> str:
    """Return the text with the image's absolute paths moved below `root`."""
    return re.sub(r"(?<![\w./])(?=/(build|opt/sfumato|dist|source|var/lib/sfumato)\b)", str(root), text)


def _copy(source: Path, target: Path, into: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target / source.name if into else target)


@contextmanager
def image_running(builder: str, root: Path) -> Iterator[list[str]]:
    """Build the image and run it without any option but its volumes; give the words that run a program in it."""
    subprocess.run([builder, "build", "--file", DEPLOY / "Containerfile", "--tag", IMAGE, REPOSITORY], check=True)
    volumes = [f"--volume={root / path.strip('/')}:{path}" for path in (STATE, SECRETS)]
    if builder == "buildah":
        name = subprocess.run([builder, "from", IMAGE], check=True, capture_output=True, text=True).stdout.strip()
        inside = [builder, "run", *volumes, name, "--"]
        server = subprocess.Popen([*inside, *container_command()])
    else:
        name = IMAGE
        confined = ["--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
        published = [f"--publish={PORT}:{PORT}"]
        server = subprocess.Popen([builder, "run", "--rm", "--name", name, *confined, *published, *volumes, IMAGE])
        inside = [builder, "exec", name]
    try:
        yield inside
    finally:
        server.terminate()
        server.wait(30)
        removal = ["rm"] if builder == "buildah" else ["rm", "--force"]
        subprocess.run([builder, *removal, name], check=False, capture_output=True)


def ask(port: int, token: str, certificate_file: Path) -> None:
    """Ask one question over HTTPS and print the answer."""
    trusted = ssl.create_default_context(cafile=certificate_file)
    with sfumato.connect(f"https://127.0.0.1:{port}/", token=token, context=trusted) as database:
        release = database.ask(COUNT, epsilon="0.5")
    assert [row["dept"] for row in release.rows()] == ["er", "icu"]
    print(release)


def main() -> None:
    """Build, serve, check its health, grant, ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", action="store_true", help="run the instructions even if a builder is at hand")
    builder = None if parser.parse_args().steps else find_builder()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sfumato-container-") as folder:
        root = Path(folder)
        trusted = root / SECRETS.strip("/") / "tls.crt"
        if builder is None:
            environment = run_steps(root)
            policy = prepare(root)
            granted = environment.run(environment.program, "grant", policy, "research", cwd=policy.parent).stdout
            with started(environment, root) as (_, port):
                check = (environment.python, environment.folder / "bin" / "healthcheck", str(port))
                until(lambda: environment.run(*check, cwd=root).returncode == 0)
                ask(port, granted.split()[1], trusted)
        else:
            prepare(root)
            with image_running(builder, root) as inside:

                def run(*words: str) -> subprocess.CompletedProcess[str]:
                    return subprocess.run([*inside, *words], capture_output=True, text=True, check=False)

                until(lambda: run("healthcheck", str(PORT)).returncode == 0, 120)
                ask(PORT, run("sfumato", "grant", f"{STATE}/policy.toml", "research").stdout.split()[1], trusted)
    print(f"{builder or 'steps'}: built, started, healthy and answered in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
