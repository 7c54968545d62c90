"""Take out of a base image what a running service never opens, before its files become the bottom of an image.

python trim.py [ROOT]

Gone are the package managers (apt, pip), so that nothing can be installed into a container either, what only they need
(Perl), pages of manuals, translations, tools for file systems, and the parts of Python for those who write it. Bytecode
goes, too: tried.py makes it for what a role loads. Licences stay, and so does the list of Debian's packages, by which
scanners know what is inside.
"""

import shutil
import sys
from pathlib import Path

GONE = (
    "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian", "usr/share/bash-completion",
    "usr/lib/*-linux-gnu*/gconv",
    "usr/sbin/*2fs*", "usr/sbin/e2*", "usr/sbin/debugfs", "usr/sbin/fsck*", "usr/sbin/mkfs*",
    # Debian's package manager, the TLS that only it speaks, and the Perl that only its scripts run.
    "usr/bin/apt*", "usr/lib/apt", "usr/lib/*-linux-gnu*/libapt-*", "var/lib/apt", "var/cache/*",
    *(f"usr/lib/*-linux-gnu*/lib{name}.so*" for name in (
        "gnutls", "p11-kit", "unistring", "hogweed", "nettle", "tasn1", "idn2",
    )),
    "usr/bin/perl*", "usr/share/perl*", "usr/lib/*-linux-gnu*/perl*",
    # Python's, wherever the base has it.
    "usr/lib/python3/dist-packages/*", "usr/share/python-wheels", "usr/local/share/wheels", "usr/local/bin/pip*",
    "usr/bin/pip*", *(f"{lib}/{name}" for lib in ("usr/lib/python3.*", "usr/local/lib/python3.*") for name in (
        "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo", "config-*",
        "site-packages/pip*", "site-packages/setuptools*", "site-packages/wheel*",
    )),
)  # fmt: skip
"""Patterns below the root."""


def trim(root: Path) -> None:
    """Remove all that `GONE` names, bytecode, and of Debian's documents all but the licences."""
    for pattern in GONE:
        for found in root.glob(pattern):
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found)
            else:
                found.unlink()
    for cache in [*root.glob("usr/lib/python3*/**/__pycache__"), *root.glob("usr/local/lib/python3*/**/__pycache__")]:
        shutil.rmtree(cache)
    for page in (root / "usr/share/doc").rglob("*"):
        if (page.is_symlink() or page.is_file()) and page.name != "copyright":
            page.unlink()


if __name__ == "__main__":
    trim(Path(sys.argv[1] if len(sys.argv) > 1 else "/"))
