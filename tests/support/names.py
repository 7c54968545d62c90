"""Host names of examples on this machine: a proxy that answers for them over TLS and leads to ports on loopback.

`https://stats.a.example` of a page is reached as the page writes it: clients find the proxy and its certificate in
their environment (`HTTPS_PROXY`, `SSL_CERT_FILE`, `CURL_CA_BUNDLE`), as behind many companies' walls.
"""

import asyncio
import contextlib
import datetime
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, names: list[str]) -> tuple[Path, Path]:
    """Write a key, and a certificate for some names that signs itself; return where the certificate and the key are."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "examples")])
    today = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "names.pem", folder / "names.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return files


@contextlib.contextmanager
def answering(folder: Path, ports: Mapping[str, int]) -> Iterator[dict[str, str]]:
    """Answer for names over TLS until the block ends; give the environment in which clients find them.

    Args:
        folder: for the certificate.
        ports: where on this machine each name leads.
    """
    chain, key = certificate(folder, list(ports))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().split()[1].rpartition(":")[0]
        while (await reader.readline()).strip():
            pass
        if name not in ports:
            writer.write(b"HTTP/1.1 502 No such example\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await writer.drain()
        with contextlib.suppress(OSError):
            await writer.start_tls(context)
            there, back = await asyncio.open_connection("127.0.0.1", ports[name])
            await asyncio.gather(pipe(reader, back), pipe(there, writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = asyncio.run_coroutine_threadsafe(asyncio.start_server(tunnel, "127.0.0.1", 0), loop).result(10)
    address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    try:
        yield {"HTTPS_PROXY": address, "SSL_CERT_FILE": str(chain), "CURL_CA_BUNDLE": str(chain)}
    finally:
        asyncio.run_coroutine_threadsafe(_ended(proxy), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _ended(proxy: asyncio.Server) -> None:
    proxy.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
