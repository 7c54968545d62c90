"""An authority of one's own, and the certificates it signs.

For where no public authority signs: a trial on one machine, or a network without names on the internet. An authority
can sign for the names it was made for and for nothing else, so that whoever trusts it trusts it with those only.
"""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
LEAF_DAYS = 90
RENEW_DAYS = 30
"""A certificate with fewer days left is made anew."""


@dataclass(frozen=True)
class Pair:
    """Where a certificate and its private key lie."""

    certificate: Path
    key: Path


def ensure_authority(pair: Pair, names: list[str], now: datetime) -> None:
    """Make an authority for some names, unless there is one.

    Raises:
        ValueError: there is one, for other names: a certificate of these would not be believed.
    """
    if pair.certificate.exists():
        held = _loaded(pair.certificate).extensions.get_extension_for_class(x509.NameConstraints).value
        if set(held.permitted_subtrees or ()) != set(_subtrees(names)):
            raise ValueError(
                f"{pair.certificate} was made for other names than {', '.join(names)}: remove it and its key, and give "
                "the new one to everybody who trusts the old one"
            )
        return
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"Lintra, authority of {names[0]}")
    builder = _builder(subject, subject, key, now, AUTHORITY_DAYS).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(x509.NameConstraints(_subtrees(names), None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    _write(pair, key, builder.sign(key, hashes.SHA256()))


def ensure_certificate(pair: Pair, authority: Pair, names: list[str], now: datetime, client: bool = False) -> bool:
    """Make a certificate for some names, unless there is one that is theirs and lasts; return whether one was made.

    Args:
        pair: where it lies.
        authority: who signs it.
        names: DNS names and IP addresses.
        now: the time.
        client: whether its holder also shows it when asking, as members of a cluster do.
    """
    issuer = _loaded(authority.certificate)
    if pair.certificate.exists() and _serves(_loaded(pair.certificate), issuer, names, now):
        return False
    signer = serialization.load_pem_private_key(authority.key.read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{authority.key} holds no key of an elliptic curve")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_subject(names[0]), issuer.subject, key, now, LEAF_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else [])]
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    _write(pair, key, builder.add_extension(of_issuer, critical=False).sign(signer, hashes.SHA256()))
    return True


def _serves(held: x509.Certificate, issuer: x509.Certificate, names: list[str], now: datetime) -> bool:
    known = held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    try:
        held.verify_directly_issued_by(issuer)
    except Exception:  # whatever is wrong with it: a new one is made
        return False
    lasts = held.not_valid_before_utc <= now < held.not_valid_after_utc - timedelta(days=RENEW_DAYS)
    return lasts and set(known) == {_general(name) for name in names}


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    # Clocks of those who look at it may be a little behind.
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subtrees(names: list[str]) -> list[x509.GeneralName]:
    """Return what an authority may sign for: of addresses, networks that hold one each."""
    general = [_general(name) for name in names]
    return [x509.IPAddress(ip_network(each.value)) if isinstance(each, x509.IPAddress) else each for each in general]


def _loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _write(pair: Pair, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # The certificate last: where there is one, there is its key.
    for path, data, mode in (
        (pair.key, secret, 0o600),
        (pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644),
    ):
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        new.replace(path)
