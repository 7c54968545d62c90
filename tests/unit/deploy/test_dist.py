"""What a version consists of has the same bytes on every machine, and a list that says what it contains."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import dist
import pytest

from support.pages import ROOT


def folder_of(where: Path, files: dict[str, str]) -> Path:
    """Write some files into a new folder."""
    for name, content in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return where


def test_an_archive_depends_on_names_and_contents_alone(tmp_path: Path) -> None:
    files = {"index.html": "one", "how-to/a.html": "two"}
    first = folder_of(tmp_path / "first", files)
    second = folder_of(tmp_path / "second", dict(reversed(files.items())))
    os.utime(second / "index.html", (1, 1))
    (second / "index.html").chmod(0o600)
    made = dist.archive(first, "site", 1000)
    assert made == dist.archive(second, "site", 1000)
    (second / "index.html").write_text("another")
    assert made != dist.archive(second, "site", 1000)


def test_an_archive_leaves_out_what_no_reader_opens(tmp_path: Path) -> None:
    files = {"index.html": "one", ".doctrees/a.doctree": "x", "jupyter_execute/a.ipynb": "x", ".buildinfo": "x"}
    made = dist.archive(folder_of(tmp_path, files), "site", 1000)
    with tarfile.open(fileobj=BytesIO(made)) as read:
        assert read.getnames() == ["site/index.html"]


def test_what_an_installation_contains_follows_extras_of_extras() -> None:
    alone, client = dist.contained(["pydantic>=2"]), dist.contained(["lintra[client-cli]"])
    assert {"pydantic", "pydantic-core", "typing-extensions"} <= alone
    assert "httpx2" not in alone
    assert {"lintra", "httpx2", "rich", "numpy", "pydantic-core"} <= client
    assert "sqlalchemy" not in client


def test_a_package_that_is_not_installed_is_no_silent_gap() -> None:
    with pytest.raises(SystemExit, match="no-such-package-of-ours is not installed"):
        dist.contained(["no-such-package-of-ours"])


def test_the_sums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    folder_of(tmp_path, {"b": "two", "a": "one", "SHA256SUMS": "old"})
    assert dist.sums(tmp_path) == "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in (("a", b"one"), ("b", b"two"))
    )


def clone(tmp_path: Path) -> Path:
    """Return a clone of this repository with the commit that is checked out."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path)], check=True)
    return tmp_path


def built(where: Path, into: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a clone, with this environment's packages."""
    command = [sys.executable, str(where / "deploy/dist.py"), str(into), *options]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_files_that_differ_from_the_commit_are_refused(tmp_path: Path) -> None:
    where = clone(tmp_path / "clone")
    (where / "README.md").write_text("changed")
    said = built(where, tmp_path / "dist", "--without-site")
    assert said.returncode == 1
    assert "commit first; these files differ from the commit" in said.stderr
    assert "README.md" in said.stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("cyclonedx_py") is None, reason="needs the group bill: make .venv/.more")
def test_two_clean_clones_give_the_same_bytes_and_the_sums_are_true(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        said = built(clone(tmp_path / name), tmp_path / f"dist-{name}", "--without-site")
        assert said.returncode == 0, said.stderr
        made.append({path.name: path.read_bytes() for path in (tmp_path / f"dist-{name}").iterdir()})
    assert made[0] == made[1]
    names = {name.rpartition(".")[2] for name in made[0]}
    assert names == {"whl", "gz", "json", "SHA256SUMS"} | ({"tgz"} if shutil.which("npm") else set())
    (bill,) = (json.loads(content) for name, content in made[0].items() if name.endswith(".cdx.json"))
    components = {each["name"] for each in bill["components"]}
    assert {"numpy", "cryptography", "pydantic", "fastapi"} <= components
    assert not {"pytest", "hypothesis", "ruff"} & components


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the group docs: make .venv/.more")
def test_two_builds_of_the_site_have_the_same_bytes(tmp_path: Path) -> None:
    where = clone(tmp_path / "clone")
    sums = []
    for name in ("one", "two"):
        said = built(where, tmp_path / name)
        assert said.returncode == 0, said.stderr
        sums.append((tmp_path / name / "SHA256SUMS").read_text("utf-8"))
    assert sums[0] == sums[1]
