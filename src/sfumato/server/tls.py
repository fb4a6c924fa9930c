"""The certificate of a server: read at the start and whenever its files change.

A new certificate counts for new handshakes; connections that are open keep theirs. One that no client would accept is
refused, and the one before it stays in force.
"""

import os
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from sfumato.errors import BadParameter, Refusal, quote_value

_HTTP_PROTOCOL = "http/1.1"


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with its key, ready for connections."""

    context: ssl.SSLContext = field(repr=False)
    names: tuple[str, ...]
    """The hosts that it is for, in lower case."""
    certificate: bytes
    """The server's own, in DER."""

    @property
    def is_valid(self) -> bool:
        """Whether it has not expired."""
        return datetime.now(UTC) < x509.load_der_x509_certificate(self.certificate).not_valid_after_utc


class CertificateFiles:
    """The certificate in force, and the files that it is read from. It belongs to one event loop."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._seen = _versions(self._files)
        self.current = read_tls(certificate, key)
        self.is_readable = True
        """Whether the files could be read when they last changed."""

    @property
    def is_valid(self) -> bool:
        """Whether the certificate in force has not expired, and its files hold no unusable one."""
        return self.is_readable and self.current.is_valid

    def read_again(self) -> Refusal | None:
        """Use the certificate that the files hold now for new handshakes.

        Where it cannot be used, the one before it stays, and the reason is returned.
        """
        self._seen = _versions(self._files)
        try:
            self.current = read_tls(*self._files)
        except Refusal as refusal:
            self.is_readable = False
            return refusal
        self.is_readable = True
        return None

    def have_changed(self) -> bool:
        """Tell whether the files are others than those that were read last."""
        return _versions(self._files) != self._seen

    def http_context(self) -> ssl.SSLContext:
        """Return a context that gives each handshake the certificate in force at that time."""

        def choose(connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self.current.context

        context = _context(*self._files)
        context.set_alpn_protocols([_HTTP_PROTOCOL])
        context.sni_callback = choose
        return context


def _versions(files: tuple[Path, ...]) -> tuple[tuple[int, ...], ...]:
    """Return what changes when a file is written or replaced; empty where it is missing."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            found.append(())
        else:
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


def read_tls(certificate: Path, key: Path) -> Tls:
    """Read a certificate chain and its private key, in PEM."""
    parsed = _valid(certificate)
    try:
        return Tls(_context(certificate, key), _hosts(parsed), parsed.public_bytes(Encoding.DER))
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        pass
    raise BadParameter(
        f"The key {quote_value(str(key))} cannot be used with the certificate.",
        "It is missing, is encrypted, or belongs to another certificate.",
        "Give the private key of this certificate, in PEM, without a password.",
    )


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key, password=_no_password)
    return context


def _no_password() -> str:
    raise ValueError  # no one is there to type one


def _valid(path: Path) -> x509.Certificate:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        certificate = None
    if certificate is None:
        raise BadParameter(
            f"The certificate {quote_value(str(path))} cannot be read.",
            "It is missing, or not in PEM.",
            "Give a file that begins with -----BEGIN CERTIFICATE-----.",
        )
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        began = certificate.not_valid_before_utc <= now
        day = certificate.not_valid_after_utc if began else certificate.not_valid_before_utc
        raise BadParameter(
            f"The certificate {quote_value(str(path))} {'expired on' if began else 'is not valid before'} "
            f"{day:%Y-%m-%d}.",
            "No client would trust it.",
            "Give one that is valid today.",
        )
    return certificate


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(str(attribute.value).lower() for attribute in common)
    hosts = [name.lower() for name in named.get_values_for_type(x509.DNSName)]
    return (*hosts, *(str(address) for address in named.get_values_for_type(x509.IPAddress)))
