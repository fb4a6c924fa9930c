"""A server as people start it: a process of its own, and requests to it as they travel."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sfumato.policy.reading import read_policy
from sfumato.server.grants import Grants, Secrets

PAGE = re.compile(r"^(https?)://([^:/\s]+|\[[^\]\s]+\]):(\d+)/$", re.MULTILINE)
WIRE = re.compile(r"^postgresql://([^@\s]+)@([^:/\s]+|\[[^\]\s]+\]):(\d+)/(\S+)$", re.MULTILINE)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition, however busy the machine is; fail after a minute."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.01)


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


FREE_PORTS = ("--http-port", "0", "--pg-port", "0")


@dataclass
class Running:
    """One server; use it as a context manager."""

    policy: Path
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ("research",)
    secrets: dict[str, Secrets] = field(default_factory=dict)
    out: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> "Running":
        grants = Grants(read_policy(self.policy), self.policy)
        self.secrets = {name: grants.grant(name) for name in self.names} if not self.secrets else self.secrets
        grants.close()
        self.begin()
        return self

    def begin(self) -> None:
        command = [sys.executable, "-m", "sfumato", "serve", str(self.policy), *FREE_PORTS, *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.out, self.cookies = "", {}
        for line in self.process.stdout:
            self.out += line
            if line.startswith("Stop it"):
                break
        found = PAGE.search(self.out)
        if found is None:
            self.process.wait(10)
            raise RuntimeError(self.out)
        self.scheme, self.host, self.port = found[1], found[2], int(found[3])

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self, how: int = signal.SIGTERM) -> float:
        """Stop it, and say how many seconds that took."""
        begun = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.out += self.process.communicate(timeout=60)[0]
        return time.monotonic() - begun

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/"

    def token(self, name: str = "research") -> str:
        return self.secrets[name].token

    def cookie(self, name: str = "research") -> str:
        """Log in to the console, once, and return the cookie."""
        if name not in self.cookies:
            form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.url.rstrip("/")}
            reply = self.request("POST", "/login", urlencode({"token": self.token(name)}), form, None)
            assert reply.status == 303
            self.cookies[name] = reply.headers["set-cookie"].partition(";")[0]
        return self.cookies[name]

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = "research",
        seconds: float = 30,
    ) -> Reply:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        given = {"Authorization": f"Bearer {self.token(name)}"} if name else {}
        try:
            connection.request(method, path, body, {**given, **(headers or {})})
            reply = connection.getresponse()
            return Reply(reply.status, {key.lower(): value for key, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, name: str | None = "research", **headers: str) -> Reply:
        return self.request("GET", path, None, headers, name)

    def post(self, path: str, body: object, name: str | None = "research", **headers: str) -> Reply:
        """Send JSON, or bytes and text as they are."""
        content = body if isinstance(body, bytes | str) else json.dumps(body)
        content = content if isinstance(content, bytes) else content.encode()
        kind = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        return self.request("POST", path, content, kind, name)

    def form(self, path: str, fields: Mapping[str, str], cookie: str) -> Reply:
        """Send a form as the console's own page does."""
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.url.rstrip("/"), "Cookie": cookie}
        return self.request("POST", path, urlencode(fields), form, None)

    def ask(self, sql: str, name: str | None = "research", **price: object) -> Reply:
        return self.post("/ask", {"sql": sql, **price}, name)

    def raw(self, content: bytes, seconds: float = 10, most: int = 1 << 20) -> bytes:
        """Send bytes, and return what comes back until the server closes or falls silent."""
        with socket.create_connection((self.host, self.port), timeout=seconds) as connection:
            received = b""
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                while len(received) < most and (part := connection.recv(65536)):
                    received += part
            except OSError:
                pass
            return received

    def memory(self) -> int:
        """Return the resident bytes of the server."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def spent(self, name: str = "research") -> str:
        reply = self.get("/budget", name)
        assert reply.status == 200, reply.body
        return str(reply.json["spent"]["epsilon"])
