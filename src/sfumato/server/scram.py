"""Verifier of a password: SCRAM-SHA-256 (RFC 5802, RFC 7677), as PostgreSQL stores one."""

import hmac
from dataclasses import dataclass
from hashlib import pbkdf2_hmac, sha256

ITERATIONS = 4096
"""As in PostgreSQL. Passwords are drawn, 190 bits each, so that no number of iterations protects them better."""
SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Verifier:
    """Enough to check a proof of the password, and to prove in return that it was kept; the password is not in it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "Verifier()"  # who reads a log learns nothing to compute with


def make_verifier(password: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
    """Return the verifier of a password of ASCII letters, which SASLprep leaves as it is."""
    salted = pbkdf2_hmac("sha256", password.encode("ascii"), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(salt, iterations, sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


def salt_of(secret: bytes, account: str) -> bytes:
    """Return the salt of an account, granted or not: the same name always has the same one, so that it says nothing."""
    return hmac.digest(secret, b"salt " + account.encode("utf-8", "surrogatepass"), "sha256")[:SALT_BYTES]


def no_verifier(secret: bytes, account: str) -> Verifier:
    """Return the verifier of an account without a grant; no password fits."""
    drawn = hmac.digest(secret, b"user " + account.encode("utf-8", "surrogatepass"), "sha512")
    return Verifier(salt_of(secret, account), ITERATIONS, drawn[32:], drawn[:32])


def is_proof(verifier: Verifier, message: bytes, proof: bytes) -> bool:
    """Tell whether `proof` is the client's proof over the authentication message (RFC 5802, section 3)."""
    if len(proof) != len(verifier.stored_key):
        return False
    signature = hmac.digest(verifier.stored_key, message, "sha256")
    client_key = bytes(first ^ second for first, second in zip(proof, signature, strict=True))
    return hmac.compare_digest(sha256(client_key).digest(), verifier.stored_key)


def server_signature(verifier: Verifier, message: bytes) -> bytes:
    """Return the server's proof."""
    return hmac.digest(verifier.server_key, message, "sha256")
