"""What the images are made of: the locked part of each role, certificates, the proxy's configuration, the timer."""

import re
import socket
import ssl
import subprocess
import sys
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import healthy
import pytest
from backing_up import back_up, due_in, names
from first_token import ensure_token
from images.locked import entries, plain, prune, requirements, restricted
from images.trim import trim
from proxy.certificates import LEAF_DAYS, RENEW_DAYS, Pair, ensure_authority, ensure_certificate
from proxy.start import Settings, configuration
from trusting import joined

from lintra_service.bearer_tokens import token_hash

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
    asked = [line.split("--extras ")[1].split()[0] for line in recipe.splitlines() if "locked.py --extras" in line]
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
    # Both that start from nothing are given the trimmed base.
    assert bases == {"${BASE_IMAGE}", "scratch"}
    assert recipe.count("FROM scratch") == recipe.count("COPY --from=trimmed") == recipe.count("RUN python /trim.py")
    final = recipe[recipe.index("AS base") :]
    building = [line for line in final.splitlines() if line.startswith("RUN") and ("pip" in line or "gcc" in line)]
    assert building == []


def test_what_no_process_opens_is_removed_and_licences_and_the_list_of_packages_stay(tmp_path: Path) -> None:
    kept = [
        "usr/share/doc/libc6/copyright", "var/lib/dpkg/status", "usr/lib/python3.11/json/__init__.py",
        "usr/local/lib/python3.12/encodings/utf_8.py", "usr/lib/x86_64-linux-gnu/libc.so.6",
    ]  # fmt: skip
    gone = [
        "usr/share/doc/libc6/changelog.gz", "usr/bin/apt-get", "usr/lib/python3/dist-packages/pip/__init__.py",
        "usr/local/lib/python3.12/site-packages/pip/__init__.py", "usr/lib/python3.11/test/__init__.py",
        "usr/lib/x86_64-linux-gnu/perl-base/strict.pm",
        "usr/lib/python3.11/json/__pycache__/x.pyc", "usr/share/locale/de/LC_MESSAGES/apt.mo",
    ]  # fmt: skip
    for name in [*kept, *gone]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    trim(tmp_path)
    assert [name for name in kept if not (tmp_path / name).exists()] == []
    assert [name for name in gone if (tmp_path / name).exists()] == []


def test_a_role_keeps_the_parts_of_scipy_that_it_names_and_every_other_role_keeps_all(tmp_path: Path) -> None:
    for name in ("scipy/_lib", "scipy/sparse/tests", "scipy/stats", "scipy.libs", "numpy/tests"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("scipy/version.py", "scipy/stats/_stats.pyi", "scipy/stats/_stats.so"):
        (tmp_path / name).touch()
    prune(tmp_path, [])
    assert {path.name for path in (tmp_path / "scipy/stats").iterdir()} == {"_stats.so"}
    prune(tmp_path, ["sparse"])
    assert {path.name for path in (tmp_path / "scipy").iterdir()} == {"_lib", "sparse", "version.py"}
    assert not (tmp_path / "scipy.libs").exists()
    assert not any(tmp_path.rglob("tests"))


def test_the_first_token_is_made_once_and_only_its_hash_is_kept_beside_the_analyzer(tmp_path: Path) -> None:
    hashes, token = tmp_path / "token-hashes", tmp_path / "token"
    ensure_token(hashes, token)
    made = token.read_text().strip()
    assert hashes.read_text() == token_hash(made) + "\n"
    assert made not in hashes.read_text()
    assert {path.stat().st_mode & 0o777 for path in (hashes, token)} == {0o600}
    ensure_token(hashes, token)
    assert token.read_text().strip() == made
    assert hashes.read_text().count("\n") == 1


def answering(statuses: list[int]) -> tuple[socket.socket, threading.Thread]:
    """Answer one connection after the other with these statuses, once the thread runs."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for status in statuses:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 %d said\r\ncontent-length: 0\r\n\r\n" % status)

    return listening, threading.Thread(target=serve)


@pytest.mark.parametrize(("statuses", "wait", "ended"), [([503, 503, 200], 5.0, 0), ([503], 0.0, 1)])
def test_a_health_check_waits_until_the_service_is_ready_and_fails_after_its_time(
    statuses: list[int], wait: float, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening, thread = answering(statuses)
    monkeypatch.setattr(healthy, "WAIT_SECONDS", wait)
    monkeypatch.setattr(healthy, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(sys, "argv", ["healthy.py", str(listening.getsockname()[1])])
    thread.start()
    with pytest.raises(SystemExit) as status:
        healthy.main()
    assert status.value.code == ended
    thread.join()
    listening.close()


def test_a_health_check_is_given_more_time_by_the_engine_than_it_takes_to_fail() -> None:
    for path in (ROOT / "docker-compose.yml", ROOT / "deploy/operator/docker-compose.yml"):
        given = re.search(r"timeout: (\d+)s", path.read_text())
        assert given is not None
        assert float(given[1]) > healthy.WAIT_SECONDS + healthy.ANSWER_SECONDS


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
