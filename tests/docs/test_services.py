"""Every command of a page is typed as it stands, and examples that talk to servers talk to real ones on this machine.

Two servers and an analyzer are started once, under the names that the pages give them. What cannot be typed in a test
is listed here with its reason, word for word.
"""

import asyncio
import csv
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from services import analyst_token, lintra, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.trial.pilot import pilot_document
from lintra_client import Client, ClientPolicy, Ledger, SendSummary
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.task import Task
from lintra_service.bearer_tokens import token_hash
from support.names import answering
from support.pages import ROOT, SERVED, blocks, commands, every_block, pages, run_python
from support.tasks import make_task
from support.terminal import typed

LONG = "some minutes, as the page says; tests/statistical runs all its cases"
INSTALLS = "asks a package index for what Lintra needs, which tests do not"
CONTAINERS = "needs a container engine"
NOT_TYPED = {
    "pip install '.[analysis,client-cli]'": INSTALLS,
    "pip install '.[server,analyzer,client-cli]'": INSTALLS,
    "pip install '.[server]'": INSTALLS,
    "pip install '.[server,postgres]'": INSTALLS,
    "python -m venv peers && peers/bin/pip install dpmm==0.1.9": INSTALLS,
    "make test": "runs these tests",
    "make check": "runs beside the tests",
    "make dist": "takes minutes; tests/unit/deploy/test_dist.py builds what a version consists of",
    "pip install '.[curator]'": INSTALLS,
    "make bench": "takes up to ten minutes",
    "make demo-organisations": "takes some minutes; tests/e2e/test_organisations.py runs organisations as processes",
    "make console": "takes as long, and stays; tests/browser/test_demo.py opens its link",
    "make demo": "takes the better part of a minute; tests/unit/deploy and tests/e2e run its parts",
    "python deploy/demo_wide.py": "takes some minutes; tests/e2e/test_wide_services.py runs its parts",
    "python deploy/late_flights.py late.csv": "is of the checkout; tests/unit/deploy/test_late_flights.py runs",
    "python deploy/late_flights.py all.csv 327346": "is of the checkout; tests/unit/deploy/test_late_flights.py runs",
    "lintra trial late.csv --target late --family logistic --epsilon 1 --spec LATE.json": "takes twenty seconds; "
    "tests/unit/deploy/test_late_flights.py runs its parts",
    "pytest tests/conformance/test_toy_mechanism.py -q": "make test runs it",
    "pytest tests/conformance/test_table.py -q": "make test runs it",
    "lintra audit release": LONG,
    "lintra audit release --task task.json": LONG,
    "lintra audit release --fault sigma": LONG,
    "lintra audit release --json": LONG,
    "lintra audit verify": LONG,
    "python tests/vectors/toy_fields.py": "is of the checkout, not installed; a test of the vectors runs its parts",
    "lintra audit verify --fault verdict": LONG,
    "lintra audit verify --json": LONG,
}
BENCHMARK = re.compile(r"^(?:python|pytest) (benchmarks/\S+\.py)((?: \S+)*)$")
"""Benchmarks take minutes, and say nothing on a machine that runs tests; `make bench` runs them."""
ELSEWHERE = {
    "docs/how-to/operations.md": "tests/unit/lintra_server/operations/test_operations.py types them, in one process",
    "docs/how-to/windows.md": "tests/unit/lintra_analyzer/test_windows_commands.py types them with a clock",
}
FAILS = {
    "docs/explanation/ndis.md": ["1 lintra audit gaussian -"]  # VIOLATION, as the page says
}
"""Commands whose page says that they end with another status than 0."""
PRINTS = {
    "docs/tutorial/three-servers.md": ["2000 rows sent, 5 of them clipped, 0 failed", "told (69.3)", "/sign-in?code="],
    "docs/how-to/collect-weekly.md": [
        "0.999918                   0.999918                1",
        "at most 4, as asked      0.2",
    ],
}
"""What a page says that its commands print, where noise does not change it."""

NAMES = ("stats.a.example", "stats.b.example", "analyzer.example")
CLIENTS = 60
OF_CLIENTS = tuple(f"docs/reference/client{part}.md" for part in ("", "-ledger", "-commands"))


def bare(command: str) -> str:
    """Return a command as one line, without the comment behind it."""
    return re.split(r"\s+# ", re.sub(r"\\\n\s*", "", command))[0].rstrip()


def reason(command: str) -> str | None:
    """Return why a command is not typed; None for one that is."""
    known = bare(command)
    if known.startswith("docker-compose "):
        return CONTAINERS
    return LONG if BENCHMARK.match(known) else NOT_TYPED.get(known)


def is_typed(command: str) -> bool:
    return reason(command) is None


def typed_blocks(page: str) -> list[str]:
    """Return the shell blocks of a page that are typed: all without a command that is left out above."""
    return [
        block.text
        for block in blocks(page)
        if block.kind == "shell" and all(is_typed(command) for command in commands(block.text))
    ]


def test_what_is_not_typed_stands_on_a_page_and_has_a_reason() -> None:
    every = {bare(command) for block in every_block("shell") for command in commands(block.text)}
    assert set(NOT_TYPED) <= every, set(NOT_TYPED) - every
    assert {block.page for block in every_block("shell")} >= {*ELSEWHERE, *FAILS}
    assert all(len(reason.split()) > 2 for reason in (*NOT_TYPED.values(), *ELSEWHERE.values()))


def test_a_command_that_can_be_typed_is_not_left_out_because_of_its_neighbours() -> None:
    for block in every_block("shell"):
        typed_ones = {is_typed(command) for command in commands(block.text)}
        assert len(typed_ones) == 1, f"{block.page}:{block.line}: some of its commands can be typed: split the block"


def test_a_page_says_why_its_commands_are_not_typed_or_that_they_are_typed_elsewhere() -> None:
    plain = {INSTALLS, *(NOT_TYPED[name] for name in NOT_TYPED if name.startswith("make "))}
    for page, text in pages().items():
        known = [command for block in blocks(page) if block.kind == "shell" for command in commands(block.text)]
        reasons = {reason(command) for command in known} - {None}
        words = " ".join(text.split())
        assert not reasons - plain or "tests of this page do not type" in words, page
        assert page not in ELSEWHERE or "The tests type" in words, page


def test_every_benchmark_of_a_page_is_a_file_that_knows_its_options() -> None:
    found = [BENCHMARK.match(bare(command)) for block in every_block("shell") for command in commands(block.text)]
    assert len([match for match in found if match]) >= 8
    for match in filter(None, found):
        source = (ROOT / match[1]).read_text("utf-8")
        if re.search(r"^ *from showing import .*\bparser\b", source, re.MULTILINE):
            source += (ROOT / "benchmarks/showing.py").read_text("utf-8")
        for option in re.findall(r"--[\w-]+", match[2]):
            assert f'"{option}"' in source, match[0]


@dataclass
class Place:
    """Services that run, and what the examples ask them about."""

    environment: dict[str, str]
    port: int
    sent: dict[str, str]
    released: dict[str, str]


def rows_of(columns: list[dict[str, object]], count: int = CLIENTS) -> FloatArray:
    """Return made-up rows between the bounds of some columns, the last one driven by the first."""
    generator = np.random.default_rng(5)
    shares = generator.uniform(0.2, 0.8, (count, len(columns)))
    shares[:, -1] = 0.5 * shares[:, 0] + 0.25 + 0.05 * generator.normal(size=count)
    lower, upper = (np.array([float(str(column[end])) for column in columns]) for end in ("lower", "upper"))
    rows: FloatArray = lower + shares * (upper - lower)
    return rows


PATIENTS: list[dict[str, object]] = [
    {"name": "age", "lower": 0, "upper": 120},
    {"name": "bmi", "lower": 10, "upper": 60},
    {"name": "systolic", "lower": 60, "upper": 240},
]
FLIGHTS: list[dict[str, object]] = [
    {"name": "hour", "lower": 0, "upper": 24},
    {"name": "distance", "lower": 0, "upper": 3000},
    {"name": "arr_delay", "lower": -60, "upper": 180},
]


def asked(columns: list[dict[str, object]], kind: str = "second_moment", **changes: object) -> dict[str, object]:
    """Return the specification of a task for the examples."""
    bound = {} if kind == "ron_gauss" else {"row_bound": 1.7}
    specification = {"purpose": "An example.", "columns": columns, "mechanism": {"kind": kind}, "epsilon": 2, **bound}
    return {**specification, "delta": 1e-6, "min_clients": CLIENTS - 10, "suite": "x25519", **changes}


async def sent_to(task_id: str, rows: FloatArray, *, trusting: bool = False) -> SendSummary:
    policy = ClientPolicy(trust_enrolment=trusting)
    async with Client(task_id, [f"https://{name}" for name in NAMES[:2]], ledger=None, policy=policy) as client:
        return await client.send_many(rows)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("services")
    servers, analyzer = local_services(folder, 2)
    for server, name in zip(servers, NAMES, strict=False):
        text = server.config.read_text()
        server.config.write_text(text.replace(f'public_url = "{server.url}"', f'public_url = "https://{name}"'))
        analyzer.config.write_text(analyzer.config.read_text().replace(f'"{server.url}"', f'"https://{name}"'))
    token = analyst_token(folder)
    with (folder / "analyzer-data" / "token-hashes").open("a") as file:
        file.write(token_hash("lintra_...") + "\n")  # the token of a page
    ports = [int(service.url.rpartition(":")[2]) for service in (*servers, analyzer)]
    with answering(folder, dict(zip(NAMES, ports, strict=True))) as found, pytest.MonkeyPatch.context() as patched:
        for name, value in found.items():
            patched.setenv(name, value)
        with running([*servers, analyzer]), AnalyzerClient(f"https://{NAMES[2]}", token) as client:
            environment = {"TOKEN": token, "LINTRA_ANALYZER_URL": f"https://{NAMES[2]}", "LINTRA_ANALYZER_TOKEN": token}
            made = Place({**found, **environment}, ports[2], {}, {})
            adults = [{"name": "age", "lower": 18, "upper": 90}, {"name": "income", "lower": 0, "upper": 200}]
            for name, specification in {
                "patients": asked(PATIENTS),
                "flights": asked(FLIGHTS),
                "adults": asked(adults, "ron_gauss", epsilon=8, noise="both"),
                "pilot": pilot_document(asked(PATIENTS)),
            }.items():
                columns: list[dict[str, object]] = specification["columns"]  # type: ignore[assignment]
                for where in (made.sent, made.released):
                    task_id = client.create_task(specification)["task_id"]
                    # A pilot has one layer of noise, so clients answer it only if they trust whoever enrols them.
                    sent = asyncio.run(sent_to(task_id, rows_of(columns), trusting=name == "pilot"))
                    assert sent.sent == CLIENTS
                    where[name] = client.release(task_id) if where is made.released else task_id
            named = client.task(made.sent["patients"])["definition"]["servers"]
            made.environment.update({f"KEY_{number}": each["identity_key"] for number, each in enumerate(named)})
            made.sent["tokens"] = client.create_task(asked(PATIENTS, client_auth="token"))["task_id"]
            made.sent["two"] = client.create_task(asked(PATIENTS[:2]))["task_id"]
            yield made


def prepared(page: str, place: Place, folder: Path) -> dict[str, str]:
    """Put the files that a page names into a folder, and return the variables that it uses."""
    rows = rows_of(PATIENTS, 2000)
    for name in ("patients.csv", "survey.csv"):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([[column["name"] for column in PATIENTS], *rows.tolist()])
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["name", "age", "bmi"], *([f"p{k}", 40 + k, 22.5] for k in range(3))])
    organisations(folder)
    if page.startswith("docs/tutorial/"):
        # A reader has run the Python of the page before.
        with chdir(folder):
            run_python([block for block in blocks(page) if block.kind == "python"], {})
    for name in ("SPEC.json", "study.json"):
        (folder / name).write_text(json.dumps(asked(PATIENTS)))
    (folder / "task.json").write_bytes(make_task("osnap", min_clients=600).canonical())
    own_topics = {
        "docs/reference/analyzer.md": "flights",
        "docs/reference/analyzer-tasks.md": "flights",
        "docs/reference/analyzer-releases.md": "flights",
        "docs/how-to/synthetic.md": "adults",
        "docs/how-to/planning.md": "pilot",
    }
    topic = own_topics.get(page, "patients")
    task = {
        "docs/how-to/deploying.md": "tokens",
        "docs/how-to/hand-out-tokens.md": "tokens",
        **dict.fromkeys(OF_CLIENTS, "two"),
    }.get(page, topic)
    own = {"TASK": place.sent[task], "RELEASE": place.released[topic], "XDG_STATE_HOME": str(folder / "state")}
    if page in ("docs/how-to/restore-a-server.md", "docs/how-to/rotate-keys.md"):
        a_server(folder)
    if page == "docs/how-to/collect-weekly.md":
        own |= of_two_windows(place)
    if page in OF_CLIENTS:
        age = "Alter" if page.endswith("client-commands.md") else "age"
        own |= of_an_organisation(place, folder, age) | of_an_earlier_task(place, folder)
    if page == "docs/reference/analyzer.md":
        # Its first commands start an analyzer of their own; the others ask the one that has releases.
        _, service = local_services(folder, 2)
        assert service.config == folder / "analyzer.toml"
    return {**place.environment, **own}


def a_server(folder: Path) -> None:
    """Make a new server with the example's settings, which has not been started."""
    for command in (lintra("server", "example-config"), lintra("server", "init", "--config", "server.toml")):
        said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
        if not (folder / "server.toml").exists():
            (folder / "server.toml").write_text(said)


def of_two_windows(place: Place) -> dict[str, str]:
    """Make a stream with windows of seconds, answer it in two of them, and wait until both are released."""
    columns = [{"name": "sleep", "lower": 0, "upper": 14}, {"name": "mood", "lower": 1, "upper": 10}]
    windows = {"window_seconds": 8, "grace_seconds": 4, "max_windows": 4, "stream": {}}
    changes = {"time_precision": 1, "reports_per_source": 1, "verification": "none", "noise": "servers"}
    asks = asked(columns, "sum", windows=windows, **changes)
    with AnalyzerClient(f"https://{NAMES[2]}", place.environment["TOKEN"]) as client:
        task = Task.from_value(client.create_task(asks)["definition"])
        for window in (0, 1):
            time.sleep(max(task.span(window)[0] * task.time_precision - time.time(), 0))
            assert asyncio.run(sent_to(task.task_id, rows_of(columns))).sent == CLIENTS
        patience = time.monotonic() + 120
        while sum(view["release_id"] is not None for view in client.windows(task.task_id)) < 2:
            assert time.monotonic() < patience, client.windows(task.task_id)
            time.sleep(1)
    return {"WEEKLY": task.task_id}


def of_an_organisation(place: Place, folder: Path, age: str = "age") -> dict[str, str]:
    """Write the table of a hospital, and make a task that takes one report of each hospital."""
    with (folder / "north.csv").open("w", newline="") as file:
        people = [f"p{k // 2}" for k in range(200)]
        csv.writer(file).writerows([["patient", age, "bmi"], *zip(people, *rows_of(PATIENTS[:2], 200).T, strict=True)])
    asks = asked(PATIENTS[:2]) | {"min_clients": 2, "contributors": {"rows_per_person": 2, "max_rows": 1000}}
    with AnalyzerClient(f"https://{NAMES[2]}", place.environment["TOKEN"]) as client:
        return {"JOINT": client.create_task(asks)["task_id"]}


def of_an_earlier_task(place: Place, folder: Path) -> dict[str, str]:
    """Answer a task as the user of this folder, have it released, and write its certificate beside."""
    with AnalyzerClient(f"https://{NAMES[2]}", place.environment["TOKEN"]) as client:
        task_id = client.create_task(asked(PATIENTS[:2], epsilon=1))["task_id"]

        async def answered() -> str:
            ledger = Ledger(folder / "state/lintra/ledger.sqlite")
            async with Client(task_id, [f"https://{name}" for name in NAMES[:2]], ledger=ledger) as one:
                return (await one.send({"age": 41, "bmi": 22.4}, source="visitor")).report_id

        report_id = asyncio.run(answered())
        assert asyncio.run(sent_to(task_id, rows_of(PATIENTS[:2]))).sent == CLIENTS
        client.download_release(client.release(task_id), folder / "release")
    return {"EARLIER": task_id, "REPORT": report_id}


def organisations(folder: Path) -> None:
    """Put tables of organisations into a folder, and a specification of theirs."""
    random = np.random.default_rng(2)
    # Of 2,000 visits a tenth of the trials is refused, since the noise drowns every feature.
    tables = (("flights.csv", "arr_delay", "carrier", 2000), ("visits.csv", "days", "hospital", 8000))
    for name, target, place, count in tables:
        features = random.normal(size=(count, 2))
        outcome = features @ [2.0, -1.0] + random.normal(size=count)
        whose = [f"{place} {number % 7 % 3}" for number in range(count)]
        people = [f"patient {number // 3}" for number in range(count)]
        with (folder / name).open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow([target, "first", "second", place, *(["patient"] * (place == "hospital"))])
            for row in range(count):
                numbers = [f"{value:.4f}" for value in (outcome[row], *features[row])]
                out.writerow([*numbers, whose[row], *([people[row]] * (place == "hospital"))])
    columns: list[dict[str, object]] = [
        {"name": name, "lower": -90, "upper": 300} for name in ("dep_delay", "arr_delay")
    ]
    specification = asked(columns) | {
        "min_clients": 3,
        "max_clients": 3,
        "max_corrupt_clients": None,
        "contributors": {"rows_per_person": 1, "max_rows": 50_000},
    }
    (folder / "airlines.json").write_text(json.dumps(specification))


WITH_COMMANDS = [page for page in pages() if page not in ELSEWHERE and typed_blocks(page)]


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_every_command_of_a_page_does_what_the_page_says(page: str, place: Place, tmp_path: Path) -> None:
    variables = prepared(page, place, tmp_path)
    sources = [block for block in blocks(page) if block.kind == "shell" and block.text in typed_blocks(page)]
    printed, failed = typed(sources, tmp_path, variables, [f"127.0.0.1:8700:127.0.0.1:{place.port}"])
    assert failed == FAILS.get(page, []), f"{failed}\n" + printed[:1500] + printed[-1500:]
    assert [words for words in PRINTS.get(page, []) if words not in printed] == []


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("page", sorted(SERVED))
def test_every_block_of_python_that_talks_to_servers_runs(
    page: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    task = place.sent["patients" if page == "README.md" else "two"]
    rows = rows_of(PATIENTS[:2])
    names: dict[str, object] = {"task_id": task, "rows": rows, "row": {"age": 41, "bmi": 22.4}}
    names |= {"token": place.environment["TOKEN"], "release_id": place.released["flights"]}
    if page in OF_CLIENTS:
        earlier = of_an_earlier_task(place, tmp_path)
        names |= {"joint_task": of_an_organisation(place, tmp_path)["JOINT"], "earlier_task": earlier["EARLIER"]}
        names |= {"report_id": earlier["REPORT"]}
    stages = run_python([block for block in blocks(page) if block.kind == "python"], names)
    made = stages[-1]
    assert made["release" if page == "docs/reference/analyzer.md" else "receipt"] is not None
    if page == "docs/reference/client.md":
        assert made["summary"].sent == CLIENTS  # type: ignore[attr-defined]
        assert (made["account"].rows, made["account"].persons) == (200, 100)  # type: ignore[attr-defined]
    if page == "docs/reference/client-ledger.md":
        assert (made["found"].included, made["found"].certified) == (True, True)  # type: ignore[attr-defined]


def test_a_command_that_fails_is_noticed_wherever_it_stands(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("docs/explanation/ndis.md") if block.kind == "shell"]
    wrong = type(block)(block.page, 1, "shell", "false\nalias no=false\ntrue\nno\necho so | grep -c other\necho end\n")
    printed, failed = typed([wrong], tmp_path, {})
    assert printed.endswith("end\n")
    assert [line.split()[:2] for line in failed] == [["1", "false"], ["1", "false"], ["1", "grep"]]
    assert os.environ.get("HOME") != str(tmp_path)
