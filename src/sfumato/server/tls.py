"""The certificate of a server: read, looked at, and refused with plain words if no client would take it."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from sfumato.errors import BadParameter, quote_value


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with its key, ready for connections."""

    context: ssl.SSLContext = field(repr=False)
    names: tuple[str, ...]
    """The hosts that it is for, in lower case."""
    certificate: bytes
    """The server's own, in DER."""


def read_tls(certificate: Path, key: Path) -> Tls:
    """Read a certificate chain and its private key, in PEM."""
    parsed = _valid(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
        return Tls(context, _hosts(parsed), parsed.public_bytes(Encoding.DER))
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        pass
    raise BadParameter(
        f"The key {quote_value(str(key))} cannot be used with the certificate.",
        "It is missing, is encrypted, or belongs to another certificate.",
        "Give the private key of this certificate, in PEM, without a password.",
    )


def _no_password() -> str:
    raise ValueError  # nobody is there to type one


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
