"""A provider of OpenID Connect on this machine: real keys, real signatures, PKCE, and keys that can be replaced."""

import json
import threading
import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

AUDIENCE = "sfumato"


class Provider:
    """One provider; use it as a context manager."""

    def __init__(self) -> None:
        self.person = "research"
        self.extra: dict[str, Any] = {}
        """Further claims of the tokens of log-ins."""
        self.fetched: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.keys: list[Any] = []
        self.rotate()

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.fetched.append(urlsplit(self.path).path)
                provider.answer(self, None)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                provider.answer(self, self.rfile.read(length).decode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def rotate(self) -> None:
        """Sign with a new key from now on, and publish no other."""
        self.keys = [jwk.generate_key("RSA", 2048, {"kid": token_urlsafe(6), "use": "sig"}, auto_kid=False)]

    def claims(self, **more: object) -> dict[str, object]:
        now = int(time.time())
        found = {"iss": self.issuer, "aud": AUDIENCE, "sub": "1", "email": self.person, "iat": now, "exp": now + 300}
        return {name: value for name, value in (found | more).items() if value is not None}

    def token(self, key: Any = None, alg: str = "RS256", header: dict[str, Any] | None = None, **more: object) -> str:
        key = key or self.keys[0]
        return jwt.encode({"alg": alg, "kid": key.kid, **(header or {})}, self.claims(**more), key, algorithms=[alg])

    def answer(self, request: BaseHTTPRequestHandler, form: str | None) -> None:
        parts = urlsplit(request.path)
        fields = {name: values[0] for name, values in parse_qs(form if form is not None else parts.query).items()}
        match parts.path:
            case "/.well-known/openid-configuration":
                ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
                document: Any = {"issuer": self.issuer} | {name: self.issuer + end for name, end in ends.items()}
            case "/keys":
                document = {"keys": [key.as_dict(private=False) for key in self.keys]}
            case "/authorize":
                code = token_urlsafe(12)
                self.codes[code] = fields
                back = urlencode({"code": code, "state": fields["state"]})
                request.send_response(302)
                request.send_header("Location", f"{fields['redirect_uri']}?{back}")
                request.end_headers()
                return
            case "/token":
                asked = self.codes.pop(fields.get("code", ""), None)
                challenge = urlsafe_b64encode(sha256(fields.get("code_verifier", "").encode()).digest()).rstrip(b"=")
                if asked is None or asked["code_challenge"].encode() != challenge:
                    document = {"error": "invalid_grant"}
                else:
                    document = {"id_token": self.token(nonce=asked["nonce"], aud=asked["client_id"], **self.extra)}
            case _:
                document = {}
        content = json.dumps(document).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
