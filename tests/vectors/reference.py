"""Writes the test vectors: what every operation of docs/reference/protocol.md gives, and what it must refuse, and how.

The answers come from `plain`, a naive second implementation that shares no code with the package. Bytes are written
in hexadecimal, ring words and signed integers as decimal strings, floats as their shortest decimals. Running this
twice writes the same bytes (`make vectors`).
"""

import json
import sys
from pathlib import Path

import cases_centred
import cases_control
import cases_data
import cases_devices
import cases_directions
import cases_dithered
import cases_histogram
import cases_joint
import cases_laplace
import cases_layers
import cases_lists
import cases_newton
import cases_noise
import cases_organisations
import cases_range
import cases_spread
import cases_stream
import cases_verified
import cases_windows

HERE = Path(__file__).resolve().parent

FILES = {
    "hashing": cases_data.hashing,
    "canonical_json": lambda: cases_data.json_texts() + cases_devices.depths(),
    "printable": cases_devices.printable,
    "noise": cases_devices.noise,
    "promise": cases_devices.promises,
    "clip_flags": cases_devices.clip_flags,
    "upload": cases_devices.uploads,
    "base64url": cases_data.base64url_texts,
    "encoding": cases_data.encoding,
    "joint": cases_joint.joint,
    "centred": cases_centred.centred,
    "histogram": cases_histogram.histogram,
    "laplace": cases_laplace.laplace,
    "range_finder": cases_range.range_finder,
    "directions": cases_directions.directions,
    "dithered": lambda: cases_dithered.dithered() + cases_newton.newton(),
    "organisations": lambda: cases_organisations.organisations() + cases_newton.contributions(),
    "sharing": cases_data.sharing,
    "reports": cases_data.reports,
    "spread": cases_spread.spread,
    "uploads": cases_data.uploads,
    "tasks": cases_control.tasks,
    "manifest": cases_lists.manifest,
    "release": cases_control.release,
    "messages": cases_control.messages,
    "agreement": cases_control.agreement,
    "signatures": lambda: cases_control.signatures() + cases_devices.signatures(),
    "sealing": cases_control.sealing,
    "windows": lambda: cases_windows.windows() + cases_windows.tasks(),
    "verified": cases_verified.verified_reports,
    "server_noise": cases_noise.server_noise,
    "two_layers": cases_layers.two_layers,
    "streams": cases_stream.streams,
    "problems": cases_control.problems,
}


def main(folder: Path = HERE) -> None:
    """Write every file of vectors into `folder`."""
    for name, vectors in FILES.items():
        text = json.dumps(vectors(), indent=1, ensure_ascii=True, sort_keys=True)
        (folder / f"{name}.json").write_text(text + "\n", encoding="ascii", newline="\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
