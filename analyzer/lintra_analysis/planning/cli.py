"""The command `lintra plan`: what a promise costs, before anybody is asked for data (docs/planning.md)."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from lintra_analysis.planning.coalition import default_delta, usual_claim
from lintra_analysis.planning.plan import (
    MOST_COLUMNS_OF_PRODUCTS,
    Option,
    Prediction,
    Question,
    Yardsticks,
    best_sketch_error,
    plan_second_moment,
    plan_sketch,
    predict,
    smallest_cohort,
    smallest_epsilon,
    yardsticks,
)
from lintra_protocol.documents import Real, first_complaint, fraction, real
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.mechanisms.collusion import in_words
from lintra_protocol.privacy.ceiling import Ceiling
from lintra_protocol.privacy.statement import Claim, Neighbours, Threat

app = typer.Typer(help="Plan a task: noise, predicted error, bytes and limits, without any data.")

Document = dict[str, object]

GRID = (
    *((1_000, 64, s) for s in (1, 8)),
    *((10_000, 64, s) for s in (1, 8)),
    *((100_000, 256, s) for s in (1, 4, 8)),
    *((1_000_000, 1024, s) for s in (1, 4, 8)),
    *((1_000_000, 4096, s) for s in (1, 4, 8)),
)
"""Clients, rows and sparsities of the comparison in docs/benchmarks.md."""


@app.callback(invoke_without_command=True)
def plan(
    columns: Annotated[int, typer.Option(help="Columns d of a row.")] = 10,
    clients: Annotated[int, typer.Option(help="The smallest cohort; errors are predicted for it.")] = 100_000,
    epsilon: Annotated[float, typer.Option(help="Of the promise.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="Of the promise; by default at most 1e-6 and 1/clients.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows m of the sketch; by default the best number.")] = None,
    sparsity: Annotated[int, typer.Option(help="Entries s in a column of the sketch.")] = 1,
    bound: Annotated[float, typer.Option(help="Row bound B in normalised units.")] = 1.0,
    row_norm: Annotated[float | None, typer.Option(help="Typical norm r of a row; by default the bound.")] = None,
    servers: Annotated[int, typer.Option(help="Servers N.")] = 3,
    corrupt: Annotated[int | None, typer.Option(help="Corrupt clients t that are tolerated; by default 5 %.")] = None,
    threat: Annotated[Threat, typer.Option(help="When they are chosen.")] = "static",
    delta_coalition: Annotated[
        float | None, typer.Option(help="Part of delta for a crowded row; by default half of it.")
    ] = None,
    neighbours: Annotated[Neighbours, typer.Option(help="What changes in one row.")] = "replace-one",
    features: Annotated[int | None, typer.Option(help="Features of a regression; by default d - 1.")] = None,
    rank: Annotated[int, typer.Option(help="Directions of a low-rank approximation.")] = 1,
    max_clients: Annotated[int | None, typer.Option(help="The largest cohort; by default twice --clients.")] = None,
    solve: Annotated[Literal["epsilon", "clients"] | None, typer.Option(help="Find the smallest that will do.")] = None,
    sigma: Annotated[float | None, typer.Option(help="With --solve: one client's noise, at most.")] = None,
    error: Annotated[float | None, typer.Option(help="With --solve clients: relative error, at most.")] = None,
    mechanism: Annotated[
        Literal["osnap", "second_moment"], typer.Option(help="With --solve clients: whose noise or error.")
    ] = "osnap",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    grid: Annotated[bool, typer.Option("--grid", help="Print the comparison of calibrations instead.")] = False,
) -> None:
    """Plan a task: noise, predicted error, bytes and limits, without any data."""
    if grid:
        show_grid(as_json)
        return
    promise = {
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": neighbours,
        "min_clients": clients,
        "max_corrupt_clients": corrupt,
        "threat": threat,
        "delta_coalition": delta_coalition,
        "is_sketch": True,
    }
    question = Question(
        columns=columns,
        claim=claim_of(promise),
        max_clients=2 * clients if max_clients is None else max_clients,
        rows=rows,
        sparsity=sparsity,
        row_bound=spelled(bound),
        row_norm=bound if row_norm is None else row_norm,
        num_servers=servers,
        features=max(columns - 1, 1) if features is None else features,
        rank=rank,
        usual_coalition=corrupt is None and delta_coalition is None,
    )
    answer = Plan.of(solved(question, solve, sigma, error, mechanism))
    if as_json:
        typer.echo(json.dumps(describe(answer), indent=2, allow_nan=False))
        return
    show(answer)


def show(answer: "Plan") -> None:
    """Print a plan for a person."""
    for table in tables(answer):
        Console().print(table)
    recommendation, why = recommend(answer)
    typer.echo(f"Recommended: {recommendation}. {why}")
    for name, option in (("sketch", answer.sketch), ("second moments", answer.products)):
        if option is not None:
            typer.echo(f"The {name}: {in_words(option.if_colluding)}.")
    for note in notes(answer):
        typer.echo(f"Note: {note}.")


def claim_of(promise: Mapping[str, object]) -> Claim:
    """Return the usual claim with these fields; numbers that are not whole are spelled as documents spell them.

    Raises:
        InvalidTaskError: no claim has these numbers; the detail names the field.
    """
    fields = {name: spelled(value) if isinstance(value, float) else value for name, value in promise.items()}
    try:
        return usual_claim(**fields)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None


def spelled(number: float) -> Real:
    """Spell a number as documents do.

    Raises:
        InvalidTaskError: no document can hold it.
    """
    try:
        return real(number)
    except ValueError as error:
        raise InvalidTaskError(str(error)) from None


def solved(question: Question, solve: str | None, sigma: float | None, error: float | None, mechanism: str) -> Question:
    """Answer the inverse question, if there is one, and return what is to be planned.

    Raises:
        InvalidTaskError: the question is not complete, or has no answer.
    """
    if solve is None:
        if sigma is not None or error is not None:
            raise InvalidTaskError("--sigma and --error go with --solve")
        return question
    if solve == "epsilon":
        if sigma is None or error is not None or mechanism != "osnap":
            raise InvalidTaskError("--solve epsilon takes --sigma, the noise of the sketch")
        return smallest_epsilon(question, sigma)
    if (sigma is None) == (error is None):
        raise InvalidTaskError("--solve clients takes either --sigma or --error")

    def good_enough(candidate: Question) -> bool:
        option = plan_sketch(candidate) if mechanism == "osnap" else plan_second_moment(candidate)
        return (sigma is None or option.sigma <= sigma) and (error is None or option.predicted.relative_error <= error)

    return smallest_cohort(question, good_enough)


@dataclass(frozen=True)
class Plan:
    """Everything that one question's answer is made of; `refusal` says why there are no second moments."""

    question: Question
    sketch: Option
    products: Option | None
    refusal: str
    best: Prediction
    others: Yardsticks

    @classmethod
    def of(cls, question: Question) -> "Plan":
        """Plan both mechanisms.

        Raises:
            InvalidTaskError, RowUnderfilledError: the sketch is not possible.
        """
        products, refusal = None, ""
        try:
            products = plan_second_moment(question)
        except LintraError as error:
            refusal = str(error)
        best = predict(question, best_sketch_error(question))
        return cls(question, plan_sketch(question), products, refusal, best, yardsticks(question))


def describe(plan: Plan) -> Document:
    """Return a plan as a document; numbers that do not exist are None."""
    sketch, products, others = plan.sketch, plan.products, plan.others
    predicted: Document = {
        "sketch": asdict(sketch.predicted),
        "best_rows": plan.question.best_rows,
        "sketch_at_best_rows": asdict(plan.best),
        "second_moment": asdict(products.predicted) if products else None,
        "ratio": sketch.predicted.squared_error / products.predicted.squared_error if products else None,
        "ratio_at_best_rows": plan.best.squared_error / products.predicted.squared_error if products else None,
    }
    recommendation, why = recommend(plan)
    return {
        "question": asdict(plan.question)
        | {"rows": plan.question.sketch_rows, "claim": plan.question.claim.model_dump()},
        "mu": plan.question.mu,
        **_described(sketch),
        "calibrations": {"published": others.published, "central": others.central, "local": others.local},
        "published_epsilon": others.published_epsilon,
        "predicted": predicted,
        "second_moment": _described(products) if products else None,
        "recommendation": recommendation,
        "why": why,
        "notes": list(notes(plan)),
    }


def recommend(plan: Plan) -> tuple[str, str]:
    """Return the mechanism to take and why: second moments wherever their reports are of bearable size."""
    sketch, products = plan.sketch, plan.products
    if products is None:
        return "osnap", "Second moments are not possible with these numbers."
    sizes = f"{_bytes(products.report_bytes['seeded'])} a report against {_bytes(sketch.report_bytes['seeded'])}"
    ratio = sketch.predicted.squared_error / products.predicted.squared_error
    if ratio <= 1:
        return "osnap", f"Its expected squared error is {1 / ratio:.3g} times smaller."
    if plan.question.columns <= MOST_COLUMNS_OF_PRODUCTS:
        return "second_moment", f"The expected squared error is {ratio:.3g} times smaller, for {sizes}."
    return "osnap", f"Second moments would err {ratio:.3g} times less, but take {sizes}."


def notes(plan: Plan) -> Iterator[str]:
    """Yield what a person should know before asking anybody for data."""
    question = plan.question
    n, d, m = question.claim.min_clients, question.columns, question.sketch_rows
    if plan.others.published is None:
        yield f"the published calibration has no value here: {plan.others.undefined}"
    elif (plan.others.published_epsilon or math.inf) > float(fraction(question.claim.epsilon)):
        yield "the published calibration does not keep this promise"
    if plan.refusal:
        yield f"second moments are not possible here: {plan.refusal}"
    if question.best_rows < 4 * d:
        yield f"a sketch says little here: its best number of rows is {question.best_rows:.3g}, below 4 d = {4 * d}"
    if n < 30 * m:
        yield f"fewer than 30 clients a row ({n / m:.3g}): one client more or less costs noise; take fewer rows"
    claim, judge = question.claim, Ceiling()
    if fraction(claim.delta) > judge.max_delta or fraction(claim.delta_coalition) >= judge.delta_for(claim):
        yield f"delta {claim.delta} is more than most servers and clients accept; {default_delta(n)} is usual"
    if question.sparsity > 1:
        yield "sparsity above 1 costs smoothing noise of every server, and does not make the sketch more accurate"


def show_grid(as_json: bool) -> None:
    """Print one client's noise by the four calibrations on `GRID`, at epsilon 1, delta 1e-6, row bound 1."""
    lines = [grid_line(*point) for point in GRID]
    if as_json:
        typer.echo(json.dumps(lines, indent=2, allow_nan=False))
        return
    typer.echo("| " + " | ".join(lines[0]) + " |")
    typer.echo("|" + " --- |" * len(lines[0]))
    for line in lines:
        cells = (_number(value) if isinstance(value, float) else str(value or "undefined") for value in line.values())
        typer.echo("| " + " | ".join(cells) + " |")


def grid_line(clients: int, rows: int, sparsity: int) -> Document:
    """Return one line of the comparison, replacing one row; the published noise for 10 and for 50 columns.

    The theory is Delta sqrt(tau) / mu*; what is above it pays for the lattice and for a whole number of steps.
    """
    claim = Claim(epsilon="1", delta="0.000001", min_clients=clients)
    ten, fifty = (
        Question(columns=d, claim=claim, max_clients=2 * clients, rows=rows, sparsity=sparsity) for d in (10, 50)
    )
    option, others = plan_sketch(ten), yardsticks(ten)
    return {
        "n": clients,
        "m": rows,
        "s": sparsity,
        "leverage n/m": option.leverage * clients / rows,
        "published, d=10": others.published,
        "published, d=50": yardsticks(fifty).published,
        "ours": option.sigma,
        "central": others.central,
        "local": others.local,
        "above theory": option.sigma / (ten.sensitivity * math.sqrt(option.leverage) / ten.mu) - 1,
    }


def tables(plan: Plan) -> Iterator[Table]:
    """Yield the tables that show a plan to a person."""
    others, claim = plan.others, plan.question.claim
    title = f"One client's noise for epsilon {claim.epsilon} at delta {claim.delta}, {claim.min_clients:,} clients"
    noise = Table("calibration", "sigma", title=title)
    noise.add_row("ours: exact, from the public matrix", _number(plan.sketch.sigma))
    really = "" if others.published_epsilon is None else f" (really epsilon {others.published_epsilon:.3g} or more)"
    noise.add_row(f"published, each copy{really}", _number(others.published))
    noise.add_row("central: as much as a curator would add", _number(others.central))
    noise.add_row("local: clients that trust nobody", _number(others.local))
    yield noise
    errors = Table("expected", "sketch", "sketch, best rows", "second moments")
    errors.add_row("rows", _number(plan.question.sketch_rows), _number(plan.question.best_rows), "1")
    options = [
        asdict(plan.sketch.predicted),
        asdict(plan.best),
        asdict(plan.products.predicted) if plan.products else {},
    ]
    for key, words in _ERRORS.items():
        errors.add_row(words, *(_number(option.get(key)) for option in options))
    yield errors
    costs = Table("costs and limits", "sketch", "second moments")
    both = [_described(plan.sketch), _described(plan.products) if plan.products else {}]
    for key, words in _COSTS.items():
        costs.add_row(words, *(_number(option.get(key)) for option in both))
    yield costs


_ERRORS = {
    "relative_error": "Gram matrix: error / trace",
    "low_rank": "low rank: energy lost, at most",
    "ridge": "ridge: energy lost, about",
}
_COSTS = {
    "sigma": "sigma of a word",
    "epsilon": "epsilon for the smallest cohort",
    "leverage": "leverage of a client",
    "uniform_bytes": "bytes a report, uniform shares",
    "seeded_bytes": "bytes a report, seeded shares",
    "headroom_bits": "bits of headroom",
    "max_clients": "clients that the ring has room for",
}


def _described(option: Option) -> Document:
    return {
        "mechanism": option.mechanism.model_dump(mode="json"),
        "sigma": option.sigma,
        "leverage": option.leverage,
        "epsilon": option.epsilon,
        "if_colluding": {str(percent): value for percent, value in option.if_colluding.items() if value < math.inf},
        "uniform_bytes": option.report_bytes["uniform"],
        "seeded_bytes": option.report_bytes["seeded"],
        "headroom_bits": option.headroom_bits,
        "max_clients": option.max_clients,
    }


def _number(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _bytes(count: int) -> str:
    return f"{count} B" if count < 10_000 else f"{count / 1000:.3g} kB" if count < 10**6 else f"{count / 10**6:.3g} MB"
