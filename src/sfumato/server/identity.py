"""OpenID Connect: signed tokens of the provider that the policy names, and the console's log-in by it.

Nothing is fetched at start. The provider's addresses and keys are fetched when they are first needed, kept for an hour,
and fetched again when a token names an unknown key, at most every ten seconds. A provider that is away lets no new
person in; keys that are known still count. Proof: proofs/access.md
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest, digest
from threading import Lock
from time import time
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from joserfc import jwk, jwt
from joserfc.errors import JoseError

from sfumato.policy.canonical import identity_digest
from sfumato.policy.identity_keys import is_provider_address
from sfumato.policy.server_settings import Identity
from sfumato.randomness.source import Source, read_exactly, system_source

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key. `none` and shared secrets are not among them."""
MAX_TOKEN_CHARS = 16 << 10
LEEWAY_SECONDS = 60
KEYS_SECONDS = 3600.0
"""How long fetched keys are used."""
FETCH_SECONDS = 10.0
"""Between two looks for an unknown key."""
FLOW_SECONDS = 600.0
"""How long a person may take to log in at the provider."""
_MAX_KNOWN_TOKENS = 1024
_MAX_ROLES = 256
"""Roles of a token that are looked at."""
_MAX_DOCUMENT_BYTES = 1 << 20
_TIMEOUT_SECONDS = 5.0
_DISCOVERY = "/.well-known/openid-configuration"
_KEY_TYPES = ("RSA", "EC", "OKP")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

JsonFetcher = Callable[[str, Mapping[str, str] | None], Any]
"""Gets a JSON document, or posts a form for one; OSError or ValueError where that fails."""


class IdentityError(Exception):
    """A token that counts for nothing, or a provider that cannot be used. It is never shown."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person whom the provider vouches for."""

    name: str
    expires: float
    roles: tuple[str, ...] | None = None
    """The roles that the token names; None where the policy does not ask for them."""
    identity: str = ""
    """Digest of the settings under which the provider vouched."""


@dataclass(frozen=True, slots=True)
class LoginFlow:
    """A log-in at the provider that has begun."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect: str


class IdentityProvider:
    """The provider of one policy. Its methods may fetch: they are called in worker threads."""

    def __init__(
        self,
        settings: Identity,
        fetch: JsonFetcher | None = None,
        clock: Callable[[], float] = time,
        source: Source | None = None,
        secret: Callable[[], bytes] | None = None,
        once: Callable[[str, float], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._source = source or system_source()
        self._fetching = Lock()
        self._document: dict[str, Any] | None = None
        self._keys: dict[str, Any] = {}
        self._fetched = float("-inf")
        self._looked = float("-inf")
        self._known: dict[str, Person] = {}
        """Tokens that were verified, by their digest."""
        own_secret, own_uses = read_exactly(self._source, 32), _Uses(clock)
        self._secret = secret or (lambda: own_secret)
        """Authenticates log-ins under way. Servers with the same grants share it, so any of them can finish one."""
        self._once = once or own_uses.use_once
        """Notes what counts once, by its digest and until it expires; False where it was used before."""

    def known(self, token: str) -> Person | None:
        """Return whose token this is if it was verified before; nothing is fetched."""
        person = self._known.get(_digest(token))
        return person if person is not None and self._clock() < person.expires else None

    def person_of(self, token: str, nonce: str | None = None) -> Person:
        """Verify a token: signature, issuer, audience, times and, where one is expected, the nonce."""
        settings, now = self._settings, self._clock()
        claims = self._claims(token)
        audiences = claims.get("aud")
        named = audiences if isinstance(audiences, list) else [audiences]
        wanted = {settings.audience} if nonce is None else {settings.audience, settings.client_id or settings.audience}
        expires = _number(claims, "exp")
        if claims.get("iss") != settings.issuer or not wanted.intersection(map(str, named)):
            raise IdentityError
        if now >= expires + LEEWAY_SECONDS or any(
            _number(claims, key) > now + LEEWAY_SECONDS for key in ("nbf", "iat") if key in claims
        ):
            raise IdentityError
        if nonce is not None and not compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise IdentityError
        roles = None if settings.roles is None else _roles(claims, settings.roles)
        person = Person(_name(claims, settings.analyst), expires, roles, identity_digest(settings))
        if nonce is None:
            self._remember(token, person)
        return person

    def exchange(self, token: str) -> Person:
        """Verify a token that is used once: the same one again counts for nothing."""
        person = self.person_of(token)
        if not self._once(_digest(token), person.expires + LEEWAY_SECONDS):
            raise IdentityError
        return person

    def begin(self, redirect: str) -> tuple[LoginFlow, str]:
        """Begin a log-in, and return it with the provider's address to go to."""
        begun = f"{_draw_token(self._source)}.{int(self._clock())}"
        flow = self._flow(f"{begun}.{self._derive_secret('state', begun, redirect)}", redirect)
        challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id or self._settings.audience,
            "redirect_uri": redirect,
            "scope": "openid email profile",
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = self._endpoint("authorization_endpoint")
        return flow, f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def finish(self, state: str, code: str, redirect: str) -> Person:
        """Exchange the code of a log-in that has begun here or on a server with the same grants; return who it is.

        A state counts once. It is noted when the provider has vouched for a person, so that others fill no memory.
        """
        begun, _, seal = state.rpartition(".")
        began = begun.rpartition(".")[2]
        if not compare_digest(seal.encode(), self._derive_secret("state", begun, redirect).encode()):
            raise IdentityError
        if not -LEEWAY_SECONDS <= self._clock() - int(began) <= FLOW_SECONDS:
            raise IdentityError
        flow = self._flow(state, redirect)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": flow.redirect,
            "client_id": self._settings.client_id or self._settings.audience,
            "code_verifier": flow.verifier,
        }
        reply = self._get(self._endpoint("token_endpoint"), form)
        token = reply.get("id_token")
        if not isinstance(token, str):
            raise IdentityError
        person = self.person_of(token, flow.nonce)
        if not self._once(_digest(state), int(began) + FLOW_SECONDS + 1):
            raise IdentityError
        return person

    def _flow(self, state: str, redirect: str) -> LoginFlow:
        return LoginFlow(state, self._derive_secret("nonce", state), self._derive_secret("verifier", state), redirect)

    def _derive_secret(self, *words: str) -> str:
        text = "\x00".join(words).encode("utf-8", "surrogatepass")
        return urlsafe_b64encode(digest(self._secret(), text, "sha256")).rstrip(b"=").decode()

    def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN_CHARS or _TOKEN.fullmatch(token) is None:
            raise IdentityError
        try:
            header = json.loads(urlsafe_b64decode(token.partition(".")[0] + "=="))
        except (Error, ValueError, RecursionError):
            raise IdentityError from None
        if not isinstance(header, dict) or header.get("alg") not in ALGORITHMS or "crit" in header:
            raise IdentityError
        try:
            decoded = jwt.decode(token, self._key(header.get("kid")), algorithms=[header["alg"]])
        except (JoseError, ValueError, TypeError, RecursionError):
            raise IdentityError from None
        return dict(decoded.claims)

    def _key(self, kid: object) -> Any:
        """Return the key that a token names, and look for it at the provider where it is unknown."""
        name = kid if isinstance(kid, str) else ""
        with self._fetching:
            now = self._clock()
            stale = now - self._fetched > KEYS_SECONDS
            if (stale or self._discover(name) is None) and now - self._looked >= FETCH_SECONDS:
                self._looked = now
                try:
                    self._fetch_keys(now)
                except IdentityError:
                    if now - self._fetched > 24 * KEYS_SECONDS:
                        raise
            key = self._discover(name)
        if key is None:
            raise IdentityError
        return key

    def _discover(self, name: str) -> Any:
        if name:
            return self._keys.get(name)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _fetch_keys(self, now: float) -> None:
        self._document = None  # its addresses may have changed, too
        listed = self._get(self._endpoint("jwks_uri")).get("keys")
        keys = {}
        for index, entry in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(entry, dict) and entry.get("kty") in _KEY_TYPES and entry.get("use", "sig") == "sig":
                try:
                    keys[str(entry.get("kid") or f"key {index}")] = jwk.import_key(entry)
                except (JoseError, ValueError, TypeError):
                    continue
        self._keys, self._fetched = keys, now
        self._known.clear()  # a key that was taken back vouches for no one

    def _endpoint(self, name: str) -> str:
        if self._document is None:
            document = self._get(self._settings.issuer.rstrip("/") + _DISCOVERY)
            if document.get("issuer") != self._settings.issuer:
                raise IdentityError
            self._document = document
        address = self._document.get(name)
        if not isinstance(address, str) or not is_provider_address(urlsplit(address)._replace(query="").geturl()):
            raise IdentityError
        return address

    def _get(self, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        try:
            document = self._fetch(address, form)
        except (OSError, ValueError, RecursionError):
            raise IdentityError from None
        if not isinstance(document, dict):
            raise IdentityError
        return document

    def _remember(self, token: str, person: Person) -> None:
        if len(self._known) >= _MAX_KNOWN_TOKENS:
            self._known.clear()
        self._known[_digest(token)] = person


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: an address is what the policy or the provider's document says."""


def fetch_json(address: str, form: Mapping[str, str] | None) -> Any:
    """Get a JSON document, or post a form for one."""
    data = None if form is None else urlencode(form).encode()
    request = Request(address, data, {"Accept": "application/json"})  # noqa: S310 - https, or this machine
    with build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_SECONDS) as reply:
        content = reply.read(_MAX_DOCUMENT_BYTES + 1)
    if len(content) > _MAX_DOCUMENT_BYTES:
        raise ValueError
    return json.loads(content)


class _Uses:
    """What was used once, in the memory of one server."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._noting = Lock()
        self._expires: dict[str, float] = {}

    def use_once(self, key: str, expires: float) -> bool:
        """Note a use until it expires; False where it was used before, or too many are noted."""
        now = self._clock()
        with self._noting:
            self._expires = {known: end for known, end in self._expires.items() if end > now}
            if key in self._expires or len(self._expires) >= 64 * _MAX_KNOWN_TOKENS:
                return False
            self._expires[key] = expires
            return True


def _roles(claims: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Return the roles that a claim lists, or the one that it names; none where it is missing."""
    value = _claim(claims, path)
    if isinstance(value, str):
        return (value,)
    return tuple(role for role in value if isinstance(role, str))[:_MAX_ROLES] if isinstance(value, list) else ()


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    value: Any = claims
    for part in path.split(".")[1:]:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _name(claims: Mapping[str, Any], path: str) -> str:
    value = _claim(claims, path)
    if not isinstance(value, str) or not value or (path == "claims.email" and claims.get("email_verified") is False):
        raise IdentityError
    return value


def _number(claims: Mapping[str, Any], key: str) -> float:
    value = claims.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise IdentityError
    return float(value)


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _draw_token(source: Source) -> str:
    return urlsafe_b64encode(read_exactly(source, 32)).rstrip(b"=").decode()
