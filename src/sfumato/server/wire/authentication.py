"""SCRAM-SHA-256 (RFC 5802, RFC 7677) as PostgreSQL speaks it: what the server says, and what it makes of the replies.

An unknown user, a revoked one and a wrong password take the same steps, and the same time.
"""

import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass

from sfumato.server.scram import Verifier, is_proof, server_signature
from sfumato.server.wire.sqlstates import WireError, violation

PLAIN = "SCRAM-SHA-256"
BOUND = "SCRAM-SHA-256-PLUS"
_FIRST = re.compile(r"(?P<flag>n|y|p=tls-server-end-point),(a=[^,]*)?,(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]{8,256}))")
_LAST = re.compile(r"(?P<signed>c=(?P<bound>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)),p=(?P<proof>[A-Za-z0-9+/=]+)")


def failed(user: str) -> WireError:
    """Say no, in the same words to everybody."""
    return WireError("28P01", f'password authentication failed for user "{printable_name(user)}"', fatal=True)


def printable_name(name: str) -> str:
    """Return a name that was sent, printable and no longer than a name is."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:63])


def mechanisms(binding: bytes | None) -> tuple[str, ...]:
    """Return what is offered: the binding to a certificate only where there is one."""
    return (BOUND, PLAIN) if binding is not None else (PLAIN,)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A conversation after the client's first message."""

    user: str
    verifiers: tuple[Verifier, ...]
    """The verifiers that the password may fit; all have one salt."""
    header: str
    bare: str
    challenge: str
    nonce: str
    binding: bytes

    def final(self, data: bytes) -> tuple[int, bytes]:
        """Check the client's proof; return which verifier it fits, and the server's proof."""
        match = _LAST.fullmatch(data.decode("ascii", "replace"))
        if match is None:
            raise violation("The last message of the authentication cannot be read.")
        message = f"{self.bare},{self.challenge},{match['signed']}".encode()
        try:
            bound, proof = b64decode(match["bound"], validate=True), b64decode(match["proof"], validate=True)
        except (Error, ValueError):
            raise violation("The last message of the authentication is not base64.") from None
        fits = [is_proof(verifier, message, proof) for verifier in self.verifiers]  # as many for everybody
        right, place = any(fits), fits.index(True) if True in fits else 0
        same = hmac.compare_digest(match["nonce"].encode(), self.nonce.encode())
        if not (right and same and hmac.compare_digest(bound, self.header.encode() + self.binding)):
            raise failed(self.user)
        return place, b"v=" + b64encode(server_signature(self.verifiers[place], message))


def begin(
    user: str, verifiers: tuple[Verifier, ...], mechanism: str, data: bytes, server_nonce: bytes, binding: bytes | None
) -> Exchange:
    """Read the client's first message; `challenge` of what is returned is the answer to it.

    `binding` is the digest of the server's certificate, None without TLS or where it is not known.
    """
    if mechanism not in mechanisms(binding):
        raise violation("This way of authentication is not offered.")
    text = data.decode("utf-8", "replace")  # names may be sent; it is the one of the start-up that counts
    match = _FIRST.fullmatch(text)
    if match is None:
        raise violation("The first message of the authentication cannot be read.")
    flag = match["flag"]
    if (flag[0] == "p") != (mechanism == BOUND) or (flag == "y" and binding is not None):
        raise violation("The channel binding is not one that the server offered.")
    nonce = match["nonce"] + b64encode(server_nonce).decode()
    challenge = f"r={nonce},s={b64encode(verifiers[0].salt).decode()},i={verifiers[0].iterations}"
    header = text[: match.start("bare")]
    bound = (binding or b"") if flag[0] == "p" else b""
    return Exchange(user, verifiers, header, match["bare"], challenge, nonce, bound)
