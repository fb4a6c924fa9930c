"""A PostgreSQL of our own: started from the machine's binaries, on loopback, and removed after."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDERS = "/usr/lib/postgresql"


def binaries() -> Path | None:
    """Return the folder of initdb and pg_ctl; `make test` installs them where it may."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    return next((path.parent for path in sorted(Path(_FOLDERS).glob("*/bin/initdb"), reverse=True)), None)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a server whose files lie in a folder of its own, and give the URL of an empty database."""
    home = Path(tempfile.mkdtemp(prefix="sfumato-postgres-"))
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to be run by root
    if user:
        shutil.chown(home, user)
    port = _free_port()
    data, log = home / "data", home / "log"
    try:
        _run(user, folder / "initdb", "-D", data, "-U", "sfumato", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c max_connections=200"
        _run(user, folder / "pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start")
        try:
            yield f"postgresql://sfumato@127.0.0.1:{port}/postgres"
        finally:
            _run(user, folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(user: str | None, *command: object) -> None:
    groups = [pwd.getpwnam(user).pw_gid] if user else None
    subprocess.run(
        [str(part) for part in command],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        user=user,
        group=groups[0] if groups else None,
        extra_groups=[] if groups else None,
        timeout=60,
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
