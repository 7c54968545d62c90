"""The commands that analyse releases; none of them costs privacy."""

from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated

import typer

from lintra_analysis.commands.progress import waiting
from lintra_analysis.synthetic.analysis import synthesize as synthesize_rows
from lintra_analysis.synthetic.rows import WARNING
from lintra_analyzer.commands.asking import (
    DEFAULT_URL,
    IDENTIFIERS,
    AsJson,
    ReleaseId,
    ReleaseOrWindows,
    Token,
    Url,
    client_of,
    give_up,
    print_json,
)
from lintra_analyzer.web.analyses import ANALYSES

app = typer.Typer()

ASK = "Ask a release, at no cost of privacy"
"""The group in which these commands are listed."""

AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a text.")]
Features = Annotated[
    list[str] | None,
    typer.Option("--feature", help="A column that explains the target; may be repeated; by default all others."),
]
Confidence = Annotated[
    float | None, typer.Option("--confidence", help="The confidence of the intervals; 0.95 by default.")
]


def flags() -> list[Parameter]:
    """Return the options of all analyses as parameters of a command; a list may be repeated, as `--column` too."""
    found: dict[str, tuple[bool, str, str]] = {}
    for analysis in ANALYSES.values():
        for name in analysis.arguments:
            found.setdefault(name, (*analysis.type_of(name), analysis.help_of(name)))
    return [_flag(name, *option, name.removesuffix("s") in found) for name, option in found.items()]


def _flag(name: str, several: bool, kind: str, text: str, singular_is_another: bool) -> Parameter:
    words, type_ = name.replace("_", "-"), {"string": str, "number": float, "integer": int, "boolean": bool}[kind]
    spelled = [f"--{words}/--no-{words}" if kind == "boolean" else f"--{words}"]
    if several and not singular_is_another and not words.endswith(("ss", "us")):
        spelled.append(f"--{words.removesuffix('s')}")
    annotation = Annotated[(list[type_] if several else type_) | None, typer.Option(*spelled, help=text)]  # type: ignore[valid-type]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def analyse(
    release_id: ReleaseOrWindows,
    kind: Annotated[str, typer.Option("--kind", help=f"One of {', '.join(ANALYSES)}.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    **given: object,
) -> None:
    """Analyse a release. It costs no privacy. Every analysis has some of the options, and refuses the others."""
    _answer(url, token, release_id, kind, given, as_json=as_json, as_csv=as_csv)


# Typer reads flags from a signature: this one has the options of the table behind those of every command.
_usual = [one for one in signature(analyse).parameters.values() if one.kind != Parameter.VAR_KEYWORD]
analyse.__signature__ = Signature([*_usual, *flags()])  # type: ignore[attr-defined]
app.command(context_settings=IDENTIFIERS, rich_help_panel=ASK)(analyse)


@app.command(context_settings=IDENTIFIERS, rich_help_panel=ASK)
def regress(
    release_id: ReleaseOrWindows,
    target: Annotated[str, typer.Option("--target", help="The column to explain, or a formula: 'y ~ a + C(sex)'.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    feature: Features = None,
    ridge: Annotated[
        float | None, typer.Option("--ridge", help="The penalty, in normalised units; 0 by default.")
    ] = None,
    path: Annotated[bool, typer.Option("--path", help="Try many penalties instead of one.")] = False,
    intercept: Annotated[
        bool | None,
        typer.Option("--intercept/--no-intercept", help="Fit an intercept; by default where the release can."),
    ] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Add bounds that hold for all regressions at once.")
    ] = False,
    confidence: Confidence = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Explain one column of a release by others. It costs no privacy."""
    if path and (ridge is not None or simultaneous):
        give_up("--path chooses its own penalties and has no intervals: leave out --ridge and --simultaneous")
    given: dict[str, object] = {
        "target": target,
        "features": feature or None,
        "regularization": ridge,
        "intercept": intercept,
        "simultaneous": simultaneous or None,
        "confidence": confidence,
    }
    kind = "regression-path" if path else "regression"
    _answer(url, token, release_id, kind, given, as_json=as_json, as_csv=as_csv)


@app.command(context_settings=IDENTIFIERS, rich_help_panel=ASK)
def synthesize(
    release_id: ReleaseId,
    rows: Annotated[int, typer.Option("--rows", help="How many rows to draw; they cost no privacy.")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same rows.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    output: Annotated[
        Path | None, typer.Option("--output", help="A .parquet, .npz or CSV file to write; the terminal if not given.")
    ] = None,
    projected: Annotated[
        bool, typer.Option("--projected", help="Draw the projected coordinates h1, h2, .. instead of the columns.")
    ] = False,
) -> None:
    """Draw synthetic rows from a release of ron_gauss, on this machine. They cost no privacy."""
    with client_of(url, token) as client, waiting("drawing rows"):
        made = synthesize_rows(client.open_release(release_id), rows, seed, "projected" if projected else "columns")
        text = None
        if output is not None and output.suffix == ".parquet":
            made.to_parquet(output)
        elif output is not None and output.suffix == ".npz":
            made.to_npz(output)
        else:
            text = made.to_csv(output)
    if text is not None:
        typer.echo(text, nl=False)
    for warning in (WARNING, *made.warnings):
        typer.echo(f"warning: {warning}", err=True)


@app.command("trend", context_settings=IDENTIFIERS, rich_help_panel=ASK)
def show_trend(
    task_id: Annotated[str, typer.Argument(help="A task with windows of which at least two were released.")],
    column: Annotated[str, typer.Option("--column", help="The column whose mean is shown.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    of: Annotated[str | None, typer.Option("--of", help="Whom errors are about: population or cohort.")] = None,
    first: Annotated[int | None, typer.Option("--first", help="The first window that takes part.")] = None,
    last: Annotated[int | None, typer.Option("--last", help="The last window that takes part.")] = None,
    confidence: Confidence = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show a column's mean in each window of a task and in all together, and how it changes. It costs no privacy."""
    _one_of(as_json, as_csv)
    given: dict[str, object] = {"of": of, "first": first, "last": last, "confidence": confidence}
    arguments = {name: value for name, value in given.items() if value is not None}
    with client_of(url, token) as client:
        if as_json:
            print_json(client.trend(task_id, column, **arguments))
        else:
            kind = "text/csv" if as_csv else "text/plain"
            typer.echo(client.trend_text(task_id, column, kind, **arguments), nl=False)


@app.command("timeline", context_settings=IDENTIFIERS, rich_help_panel=ASK)
def show_timeline(
    task_id: Annotated[str, typer.Argument(help="A task whose windows are a stream.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    column: Annotated[
        list[str] | None, typer.Option("--column", help="A column to show; may be repeated; by default all.")
    ] = None,
    over: Annotated[
        str | None, typer.Option("--over", help="windows, totals (of all windows up to each; the default), or moving.")
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", help="How many windows a moving sum has; 4 by default.")
    ] = None,
    of: Annotated[str | None, typer.Option("--of", help="Whom errors are about: cohort or population.")] = None,
    first: Annotated[int | None, typer.Option("--first", help="The first window that takes part.")] = None,
    last: Annotated[int | None, typer.Option("--last", help="The last window that takes part.")] = None,
    confidence: Confidence = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show means and totals of columns over the windows of a stream. They cost no privacy."""
    _one_of(as_json, as_csv)
    given: dict[str, object] = {
        "columns": column or None, "over": over, "width": width, "of": of, "first": first, "last": last,
        "confidence": confidence,
    }  # fmt: skip
    arguments = {name: value for name, value in given.items() if value is not None}
    with client_of(url, token) as client:
        if as_json:
            print_json(client.timeline(task_id, **arguments))
        else:
            kind = "text/csv" if as_csv else "text/plain"
            typer.echo(client.timeline_text(task_id, kind, **arguments), nl=False)


@app.command("stream", context_settings=IDENTIFIERS, rich_help_panel=ASK)
def show_stream(
    task_id: Annotated[str, typer.Argument(help="A task whose windows are a stream.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Show the certificate of a stream: the promise of all windows, gaps, and what servers lost of their noise."""
    with client_of(url, token) as client:
        lines = list(client.stream(task_id).certificate().lines())
    if as_json:
        print_json({"task_id": task_id, "lines": lines})
        return
    for line in lines:
        typer.echo(line)


def _one_of(as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        give_up("choose one of --json and --csv")


def _answer(
    url: str, token: str, release_id: str, kind: str, given: dict[str, object], *, as_json: bool, as_csv: bool
) -> None:
    """Ask for an analysis with what was given, and print it."""
    _one_of(as_json, as_csv)
    arguments = {name: value for name, value in given.items() if value not in (None, [])}
    with client_of(url, token) as client:
        if as_csv:
            typer.echo(client.analysis_text(release_id, kind, "text/csv", **arguments), nl=False)
        elif as_json:
            print_json(client.analyse(release_id, kind, **arguments))
        else:
            typer.echo(client.analysis_text(release_id, kind, "text/plain", **arguments), nl=False)
