"""An authority, and certificates of it, as a cluster with mutual TLS has them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lintra_server.batches.key_broker import Certificates


def certificates(folder: Path, name: str) -> Certificates:
    """Make an authority of this name, and a certificate of it."""
    (own,) = certificates_of(folder, f"{name} authority", name)
    return own


def certificates_of(folder: Path, authority: str, *names: str) -> list[Certificates]:
    """Make an authority, and a certificate of it for each of some parties."""
    root_key, found = generate_private_key(SECP256R1()), list[Certificates]()
    root = _certificate(authority, root_key, authority, root_key, is_authority=True)
    for name in names:
        key = generate_private_key(SECP256R1())
        own = _certificate(name, key, authority, root_key, is_authority=False)
        files = [folder / f"{name}-{part}.pem" for part in ("authority", "certificate", "key")]
        files[0].write_bytes(root.public_bytes(Encoding.PEM))
        files[1].write_bytes(own.public_bytes(Encoding.PEM))
        files[2].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        found.append(Certificates(*files))
    return found


def _certificate(
    name: str, key: EllipticCurvePrivateKey, issuer: str, issuer_key: EllipticCurvePrivateKey, *, is_authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, SHA256())
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
