"""Install what one role needs, in the versions and with the hashes of requirements.lock, and nothing else.

python locked.py --extras server,postgres FOLDER     what `lintra[server,postgres]` needs
python locked.py --only hatchling FOLDER             a package, and what it needs
                 --of-scipy sparse                   of SciPy only these parts, for a role that uses no others

pip is asked twice. First which packages the role needs, of the locked versions: that answer is believed for the names
only. Then those names are installed from their lines of the lock file: a wheel with another hash is refused. Files that
no process opens are removed afterwards, and bytecode is not made here: tried.py starts the role, which shows that
nothing is missing, and compiles what that takes.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WITHOUT_TESTS = ("numpy", "scipy", "pandas", "matplotlib", "mpl_toolkits")
"""Packages that bring their tests along, which are up to half of them."""
FOR_COMPILERS = (".a", ".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx")
"""What only somebody reads who compiles against a package, or checks types."""
SCIPY_ALWAYS = ("_lib",)
"""What every part of SciPy needs. Its libraries of linear algebra stand beside it, and go with the parts that do."""


def plain(name: str) -> str:
    """Return a package's name in the one spelling that all sides share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """Return the lines of a lock file by the package that they pin: several, where Pythons take several versions.

    Raises:
        ValueError: a package is not pinned to one version, or has no hash.
    """
    joined = [text.strip() for text in re.split(r"\n(?=\S)", lock) if text.strip()]
    found: dict[str, str] = {}
    for entry in joined:
        if entry.startswith("#"):
            continue
        name = plain(_name(entry))
        if "==" not in entry or "--hash=sha256:" not in entry:
            raise ValueError(f"{name} is not locked to one version with its hashes")
        found[name] = f"{found[name]}\n{entry}" if name in found else entry
    return found


def requirements(project: dict[str, Any], extras: Iterable[str]) -> list[str]:
    """Return what the project itself and some of its extras ask for, extras of extras included.

    Raises:
        KeyError: there is no such extra.
    """
    tables: dict[str, list[str]] = project["optional-dependencies"]
    found: list[str] = list(project["dependencies"])
    waiting, seen = list(extras), set[str]()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for wanted in tables[extra]:
            own = re.fullmatch(rf"{project['name']}\[([\w,-]+)\]", wanted)
            if own:
                waiting += own.group(1).split(",")
            else:
                found.append(wanted)
    return found


def restricted(lock: str, names: Iterable[str]) -> str:
    """Return the part of a lock file that pins some packages.

    Raises:
        ValueError: one of them is not locked.
    """
    locked, wanted = entries(lock), {plain(name) for name in names}
    if missing := sorted(wanted - locked.keys()):
        raise ValueError(f"not in the lock file, so without a hash: {', '.join(missing)}")
    return "".join(f"{locked[name]}\n" for name in sorted(wanted))


def _name(entry: str) -> str:
    found = re.match(r"[A-Za-z0-9][\w.-]*", entry)
    if found is None:
        raise ValueError(f"no line of a lock file: {entry[:60]!r}")
    return found.group()


def _needed(python: Path, wanted: list[str], lock: str, folder: Path) -> list[str]:
    """Return the names of the packages that these requirements lead to, as pip finds them."""
    constraints, report = folder / "constraints.txt", folder / "report.json"
    lines = [re.sub(r"\s*\\?\n\s*--hash=\S+", "", entry) for entry in entries(lock).values()]
    constraints.write_text("\n".join(lines) + "\n")
    asked = ["--dry-run", "--report", str(report), "--only-binary", ":all:", "-c", str(constraints), *wanted]
    _pip(python, "install", *asked)
    return [each["metadata"]["name"] for each in json.loads(report.read_text())["install"]]


def _pip(python: Path, command: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "--quiet", command, *arguments], check=True)


def prune(packages: Path, of_scipy: list[str]) -> None:
    """Remove what no process opens.

    Args:
        packages: the folder of the installed packages.
        of_scipy: the parts of SciPy that the role uses, none of them with linear algebra; empty if all.
    """
    for package in WITHOUT_TESTS:
        for tests in (packages / package).glob("**/tests"):
            shutil.rmtree(tests)
    for file in packages.rglob("*"):
        if file.suffix in FOR_COMPILERS and file.is_file():
            file.unlink()
    if of_scipy:
        for folder in (packages / "scipy").iterdir():
            if folder.is_dir() and folder.name not in (*SCIPY_ALWAYS, *of_scipy):
                shutil.rmtree(folder)
        shutil.rmtree(packages / "scipy.libs", ignore_errors=True)


def main() -> None:
    """Make an environment in the named folder and fill it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--extras", default="")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--of-scipy", nargs="*", default=[])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    lock = Path("requirements.lock").read_text()
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    wanted = options.only or requirements(project, options.extras.split(","))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", options.folder], check=True)
    python = options.folder / "bin/python"
    with tempfile.TemporaryDirectory() as scratch:
        # What the first question fetches is there for the second.
        os.environ["PIP_CACHE_DIR"] = f"{scratch}/cache"
        chosen = Path(scratch) / "role.txt"
        chosen.write_text(restricted(lock, _needed(python, wanted, lock, Path(scratch))))
        strict = ["--no-compile", "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(chosen)]
        _pip(python, "install", *strict)
        # Nothing that one package needs of another may be missing.
        _pip(python, "check")
    (packages,) = options.folder.glob("lib/python3*/site-packages")
    prune(packages, options.of_scipy)


if __name__ == "__main__":
    main()
