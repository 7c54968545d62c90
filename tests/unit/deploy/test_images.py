"""What the images are made of: the locked part of each role, certificates, the proxy's configuration, the timer."""

import socket
import ssl
import subprocess
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from backing_up import back_up, due_in, names
from images.locked import entries, plain, requirements, restricted
from proxy.certificates import LEAF_DAYS, RENEW_DAYS, Pair, ensure_authority, ensure_certificate
from proxy.start import Settings, configuration
from trusting import joined

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 5, 4, tzinfo=UTC)
LOCK = (ROOT / "requirements.lock").read_text()


def test_a_role_s_part_of_the_lock_file_is_made_of_whole_entries_with_their_hashes() -> None:
    locked = entries(LOCK)
    part = restricted(LOCK, ["NumPy", "pydantic_core"])
    assert part == f"{locked['numpy']}\n{locked['pydantic-core']}\n"
    # Where Pythons take several versions all are kept, each with its marker.
    assert part.count("numpy==") == LOCK.count("\nnumpy==") >= 2
    assert part.count("--hash=sha256:") > 2
    assert sum(entry.count("--hash=") for entry in locked.values()) == LOCK.count("--hash=")


def test_what_is_not_locked_or_has_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="without a hash: nowhere-locked"):
        restricted(LOCK, ["numpy", "nowhere_locked"])
    for text in ("numpy==2.1\n", "numpy>=2 \\\n    --hash=sha256:00\n"):
        with pytest.raises(ValueError, match="numpy is not locked"):
            entries(text)


def test_extras_of_every_image_exist_and_all_they_ask_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "deploy/Dockerfile").read_text()
    asked = [line.split()[-2] for line in recipe.splitlines() if "locked.py --extras" in line]
    assert len(asked) == 5
    for extras in asked:
        wanted = requirements(project, extras.split(","))
        assert {plain(each.split("[")[0].split(">")[0]) for each in wanted} <= entries(LOCK).keys()
    server = requirements(project, ["server", "postgres"])
    assert any(each.startswith("psycopg[binary]") for each in server)
    assert not any(each.startswith(("dask", "pandas", "jinja2")) for each in server)
    assert any(each.startswith("scipy") for each in requirements(project, ["curator"]))  # by another extra


def test_images_are_built_from_one_base_that_an_argument_names_and_nothing_that_builds_stays() -> None:
    recipe = (ROOT / "deploy/Dockerfile").read_text()
    stages = [line.split() for line in recipe.splitlines() if line.startswith("FROM")]
    bases = {words[1] for words in stages if words[1] not in {each[3] for each in stages}}
    assert bases == {"${BASE_IMAGE}"}
    final = recipe[recipe.index("AS base") :]
    building = [line for line in final.splitlines() if line.startswith("RUN") and ("pip" in line or "gcc" in line)]
    assert building == []


def chain(folder: Path, names_: list[str], now: datetime = NOW) -> tuple[Pair, Pair]:
    authority, own = Pair(folder / "ca.pem", folder / "ca.key"), Pair(folder / "tls.crt", folder / "tls.key")
    ensure_authority(authority, names_, now)
    ensure_certificate(own, authority, names_, now)
    return authority, own


def spoken(authority: Pair, own: Pair, name: str) -> str:
    """Connect over TLS as a client that trusts one authority, and return the version that was spoken."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=authority.certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server.load_cert_chain(own.certificate, own.key)
    ends = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(ends[0], server_side=True):
                pass
        except OSError:
            ends[0].close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ends[1], server_hostname=name) as found:
            return str(found.version())
    finally:
        ends[1].close()
        thread.join()


def test_a_certificate_of_the_authority_is_believed_for_its_names_and_for_no_other(tmp_path: Path) -> None:
    authority, own = chain(tmp_path, ["localhost", "127.0.0.1"], datetime.now(UTC))
    assert spoken(authority, own, "localhost") == "TLSv1.3"
    assert spoken(authority, own, "127.0.0.1") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        spoken(authority, own, "elsewhere")
    # Even a certificate that it did sign for another name is not believed.
    other = Pair(tmp_path / "other.crt", tmp_path / "other.key")
    ensure_certificate(other, authority, ["elsewhere"], datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree"):
        spoken(authority, other, "elsewhere")
    assert {path.stat().st_mode & 0o777 for path in (authority.key, own.key)} == {0o600}


def test_a_certificate_is_made_anew_when_it_nears_its_end_and_the_authority_stays(tmp_path: Path) -> None:
    authority, own = chain(tmp_path, ["server-a"])
    first, held = own.certificate.read_bytes(), authority.certificate.read_bytes()
    for days, made in ((1, False), (LEAF_DAYS - RENEW_DAYS - 1, False), (LEAF_DAYS - RENEW_DAYS + 1, True)):
        ensure_authority(authority, ["server-a"], NOW + timedelta(days=days))
        assert ensure_certificate(own, authority, ["server-a"], NOW + timedelta(days=days)) is made
    assert own.certificate.read_bytes() != first
    assert authority.certificate.read_bytes() == held


def test_an_authority_for_other_names_is_not_silently_replaced(tmp_path: Path) -> None:
    authority, _ = chain(tmp_path, ["server-a"])
    with pytest.raises(ValueError, match="made for other names than server-b"):
        ensure_authority(authority, ["server-b"], NOW)


def test_the_proxy_s_configuration_speaks_tls_before_the_named_backend(tmp_path: Path) -> None:
    settings = Settings.of({"PROXY_BACKEND": "analyzer:8700", "PROXY_NAMES": "localhost, ::1"})
    assert settings.names == ("localhost", "::1")
    text = configuration(settings, (tmp_path / "tls.crt", tmp_path / "tls.key"))
    lines = [line.strip() for line in text.splitlines()]
    assert "listen 8443 ssl;" in lines
    assert "server analyzer:8700;" in lines
    assert not any(line.startswith("listen 8101") for line in lines)
    with pytest.raises(ValueError, match="set PROXY_NAMES"):
        Settings.of({"PROXY_BACKEND": "analyzer:8700"})


def test_who_trusts_several_proxies_waits_for_all_of_them(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        assert joined(folders) is None
        folder.mkdir()
        (folder / "ca.pem").write_text(f"{folder.name}\n")
    assert joined(folders) == "a\nb\n"


def test_the_timer_keeps_the_newest_backups_and_loses_none_when_one_fails(tmp_path: Path) -> None:
    def run(command: list[str]) -> int:
        Path(command[-1]).mkdir()
        return subprocess.call(["true" if works else "false"])

    works = True
    assert due_in(tmp_path, 24, 1e9) == 0
    for day in range(4):
        assert back_up(tmp_path / "server.toml", tmp_path, 2, 86_400.0 * day, run)
    assert [each.name[:10] for each in names(tmp_path)] == ["1970-01-03", "1970-01-04"]
    works = False
    assert not back_up(tmp_path / "server.toml", tmp_path, 2, 86_400.0 * 5, run)
    assert len(names(tmp_path)) == 2
    made = names(tmp_path)[-1].stat().st_mtime
    assert due_in(tmp_path, 24, made + 3600) == pytest.approx(23 * 3600)
