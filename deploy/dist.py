"""What a version consists of, in dist/: `make dist`. Files get the time of the commit, so that builds can be compared.

| file | is |
| --- | --- |
| lintra-V-py3-none-any.whl, lintra-V.tar.gz | the Python packages, and their source |
| lintra-client-V.tgz | the client in TypeScript as npm takes it, where Node is installed |
| lintra-V-site.tar.gz | the site of this version |
| lintra-V.cdx.json | what an installation with all extras contains, in CycloneDX |
| lintra-V-ROLE.image.tar.gz | the images, with --images and a container engine; their bytes follow their base |
| SHA256SUMS | the sums of all the others |
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from images.locked import plain, requirements, restricted
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
ROLES = ("server", "analyzer", "client")
UNSTABLE = (".doctrees", ".buildinfo", ".buildinfo.bak", "jupyter_execute")
"""Parts of a built site that no reader opens."""


def project() -> dict[str, str]:
    """Return the table `project` of pyproject.toml."""
    table: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def commit_time() -> int:
    """Return when the commit was made, in seconds since 1970: the time that every file in dist/ gets.

    Raises:
        SystemExit: this is no clone, or files differ from the commit, so that the version would have no name.
    """
    changed = _said("git", "status", "--porcelain", "--untracked-files=no")
    if changed:
        raise SystemExit(f"commit first; these files differ from the commit:\n{changed}")
    return int(_said("git", "log", "-1", "--format=%ct"))


def contained(wanted: Iterable[str]) -> set[str]:
    """Return the names of the packages that requirements lead to in this environment, extras of extras included."""
    found, waiting = set[tuple[str, str]](), [(Requirement(text), "") for text in wanted]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = plain(requirement.name)
        for asked in {"", *requirement.extras} - {seen for package, seen in found if package == name}:
            found.add((name, asked))
            try:
                waiting += [(Requirement(text), asked) for text in requires(name) or ()]
            except PackageNotFoundError as missing:
                raise SystemExit(f"{name} is not installed; make .venv/.stamp sets this environment up") from missing
    return {name for name, _ in found}


def packages(folder: Path) -> None:
    """Build the wheel and the source of the Python packages."""
    _run("hatchling", "build", "-d", str(folder), "-t", "wheel", "-t", "sdist")


def client(folder: Path, version: str) -> None:
    """Pack the client in TypeScript, or say that Node is missing.

    Raises:
        SystemExit: npm cannot pack it; the message is npm's.
    """
    if shutil.which("npm") is None:
        print("the client in TypeScript is left out: Node is not installed")
        return
    packing = subprocess.run(
        ["make", "-C", "client/typescript", "release"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if packing.returncode:
        raise SystemExit(f"the client in TypeScript cannot be packed:\n{packing.stdout}{packing.stderr}")
    packed = ROOT / f"client/typescript/lintra-client-{version}.tgz"
    packed.replace(folder / packed.name)


def site(folder: Path, version: str, when: int) -> None:
    """Build the site into one archive."""
    built = ROOT / "build/site"
    shutil.rmtree(built, ignore_errors=True)
    _run("sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(built))
    (folder / f"lintra-{version}-site.tar.gz").write_bytes(archive(built, f"lintra-{version}-site", when))


def archive(folder: Path, name: str, when: int) -> bytes:
    """Return a folder as a compressed archive whose bytes depend on the names and contents of its files alone."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _files(folder):
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mtime, entry.mode = path.stat().st_size, when, 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    return gzip.compress(raw.getvalue(), 9, mtime=when)


def bill(folder: Path, version: str) -> None:
    """Write what an installation with all extras contains, with its hashes."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = contained(requirements(table, ["all"]))
    pinned = restricted((ROOT / "requirements.lock").read_text("utf-8"), names)
    path = folder / f"lintra-{version}.cdx.json"
    asked = ["--output-reproducible", "--short-PURLs", "--pyproject", "pyproject.toml", "--of", "JSON", "-o", str(path)]
    made = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", *asked, "-"]
    subprocess.run(made, cwd=ROOT, check=True, input=pinned.encode())


def images(folder: Path, version: str) -> None:
    """Build an image of each role and save it.

    Raises:
        SystemExit: no container engine answers.
    """
    engine = shutil.which("docker")
    if engine is None or subprocess.run([engine, "info"], capture_output=True, check=False).returncode:
        raise SystemExit("no container engine answers; build the images where one runs, or leave out --images")
    for role in ROLES:
        tag = f"lintra-{role}:{version}"
        build = [engine, "build", "-q", "-f", "deploy/Dockerfile", "--target", role, "-t", tag, "."]
        subprocess.run(build, cwd=ROOT, check=True)
        saved = subprocess.run([engine, "save", tag], capture_output=True, check=True).stdout
        (folder / f"lintra-{version}-{role}.image.tar.gz").write_bytes(gzip.compress(saved, 6, mtime=0))


def sums(folder: Path) -> str:
    """Return a line with the SHA-256 of every file, as sha256sum reads them."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part in UNSTABLE for part in path.relative_to(folder).parts):
            yield path


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=True, stdout=sys.stderr)


def _said(*command: str) -> str:
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        raise SystemExit(f"a version is made of a commit, in a clone: {told.stderr.strip()}")
    return re.sub(r"\s+\Z", "", told.stdout)


def main() -> None:
    """Build everything into a folder, and print the sums."""
    parser = argparse.ArgumentParser(description="Build what a version consists of.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist")
    parser.add_argument("--without-site", action="store_true", help="leave out the site, which takes minutes")
    parser.add_argument("--images", action="store_true", help="build the images, too; a container engine must run")
    options = parser.parse_args()
    folder, version, when = options.folder.resolve(), project()["version"], commit_time()
    os.environ["SOURCE_DATE_EPOCH"] = str(when)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packages(folder)
    client(folder, version)
    bill(folder, version)
    if not options.without_site:
        site(folder, version, when)
    if options.images:
        images(folder, version)
    (folder / "SHA256SUMS").write_text(sums(folder), "utf-8")
    print(sums(folder), end="")


if __name__ == "__main__":
    main()
