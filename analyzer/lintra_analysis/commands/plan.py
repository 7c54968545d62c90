"""The command `lintra plan`: the price of a promise, computed before data are collected (docs/how-to/planning.md)."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from lintra_analysis.commands.plan_file import (
    OF_A_FILE,
    OrganisationRows,
    Pilot,
    PilotRelease,
    Propose,
    PublicSample,
    answer_file,
    plan_family,
)
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.planned import PlannedMechanism, planned_mechanism
from lintra_analysis.kinds.wording import number
from lintra_analysis.plan.baselines import best_rows, mu_of
from lintra_analysis.plan.comparison import Plan, notes, predicted_of, recommend
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.plan.noise_trade import trade_of
from lintra_analysis.plan.solve import smallest_cohort, smallest_epsilon
from lintra_protocol.encoding.documents import Real, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import MECHANISMS
from lintra_protocol.mechanisms.collusion import in_words
from lintra_protocol.privacy.statement import Claim, Neighbours, NoiseBy, Threat
from lintra_protocol.trust import left_alone

app = typer.Typer(help="Plan a task: noise, predicted error, bytes and limits, without any data.")
"""The same word as an application of its own."""

Document = dict[str, object]

COMPARED = ("osnap", "second_moment")
"""The mechanisms that a plan compares when none is named; both are planned for if one of them is."""


Covariance = Literal["pooled", "per_class"]
Solve = Annotated[
    Literal["epsilon", "clients"] | None,
    typer.Option(help="Find the smallest number of clients, or the smallest epsilon, that is enough."),
]
SpecificationFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SPEC.json]",
        help="The specification of a task, a JSON file. Options that describe a task are then not read.",
    ),
]
Weight = Annotated[
    float | None, typer.Option(help="The weight of the counter of clipped rows; 0 for none, by default 0.2.")
]
Noise = Annotated[
    NoiseBy | None,
    typer.Option(
        help="Who adds noise: clients to reports, servers to sums, or both. Both is usual where a kind allows it."
    ),
]
Bins = Annotated[
    int | None, typer.Option(help="Of histogram and ron_gauss: cells of each; 0 for none; by default 64 and 16.")
]
Family = Annotated[
    Literal["logistic"] | None, typer.Option(help="Plan the rounds of a logistic regression of a column on the others.")
]
Alone = Annotated[
    float | None,
    typer.Option(
        help="The epsilon that holds if all other clients are invented; with --noise both by default 3 x epsilon."
    ),
]


@app.command()
def plan(
    asked: typer.Context,
    specification: SpecificationFile = None,
    public_sample: PublicSample = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With SPEC.json: the column that a regression explains.")
    ] = None,
    pilot: Pilot = False,
    pilot_release: PilotRelease = None,
    propose: Propose = False,
    organisation_rows: OrganisationRows = None,
    columns: Annotated[int, typer.Option(help="Columns d of a row.")] = 10,
    clients: Annotated[int, typer.Option(help="The smallest cohort; errors are predicted for it.")] = 100_000,
    epsilon: Annotated[float, typer.Option(help="The epsilon of the promise.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="The delta of the promise; at most 1e-6 and 1/clients.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows m of the sketch; by default those of a task.")] = None,
    sparsity: Annotated[int, typer.Option(help="Entries s in a column of the sketch.")] = 1,
    bound: Annotated[float, typer.Option(help="Row bound B in normalised units.")] = 1.0,
    row_norm: Annotated[float | None, typer.Option(help="Typical norm r of a row; by default the bound.")] = None,
    servers: Annotated[int, typer.Option(help="Servers N.")] = 3,
    corrupt: Annotated[int | None, typer.Option(help="Corrupt clients t that are tolerated; by default 5 %.")] = None,
    threat: Annotated[Threat, typer.Option(help="When corrupt clients are chosen.")] = "static",
    delta_coalition: Annotated[
        float | None, typer.Option(help="Part of delta for a crowded row; by default half of it.")
    ] = None,
    neighbours: Annotated[Neighbours, typer.Option(help="What may change in one row.")] = "replace-one",
    features: Annotated[int | None, typer.Option(help="Features of a regression; by default d - 1.")] = None,
    rank: Annotated[int, typer.Option(help="Directions of a low-rank approximation.")] = 1,
    max_clients: Annotated[int | None, typer.Option(help="The largest cohort; by default twice --clients.")] = None,
    solve: Solve = None,
    sigma: Annotated[float | None, typer.Option(help="With --solve: the largest noise of a client.")] = None,
    error: Annotated[float | None, typer.Option(help="With --solve clients: the largest error.")] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(metavar="KIND", help=f"Plan this one: {', '.join(sorted(MECHANISMS))}. By default two compared."),
    ] = None,
    intercept: Annotated[float, typer.Option(help="Of second_moment: a constant before every row.")] = 0.0,
    trace: Annotated[bool, typer.Option("--trace", help="Of second_moment: send the squared norm too.")] = False,
    label: Annotated[int, typer.Option(help="Of ron_gauss: 0 none, 1 a number, K a category of K levels.")] = 0,
    dimension: Annotated[int | None, typer.Option(help="Of ron_gauss: to how many numbers a row is projected.")] = None,
    bins: Bins = None,
    covariance: Annotated[Covariance, typer.Option(help="Of ron_gauss: how it is released.")] = "pooled",
    clip_count_weight: Weight = None,
    noise: Noise = None,
    epsilon_alone: Alone = None,
    family: Family = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan a task: noise, predicted error, bytes and limits, without any data."""
    if specification is not None:
        answer_file(specification, asked.params)
    elif any(asked.params[name] not in (None, False) for name in OF_A_FILE):
        *words, last = ("--" + name.replace("_", "-") for name in OF_A_FILE)
        raise InvalidTaskError(f"{', '.join(words)} and {last} go with a SPEC.json")
    elif family is not None:
        plan_family(_flags(asked.params), mechanism, solve, as_json=as_json)
    else:
        flags = _flags(asked.params)
        show_plan(solved(flags, solve, sigma, error, mechanism or "osnap"), mechanism, as_json=as_json)


def _flags(asked: Mapping[str, Any]) -> PlanFlags:
    """Return the options of the command, spelled as documents spell numbers."""
    columns = asked["columns"]
    same = (
        "columns", "clients", "neighbours", "corrupt", "threat", "max_clients", "rows", "sparsity", "row_norm", "rank",
        "trace", "label", "dimension", "bins", "covariance", "noise",
    )  # fmt: skip
    numbers = ("epsilon", "delta", "delta_coalition", "intercept", "clip_count_weight", "epsilon_alone")
    given: dict[str, Any] = {name: asked[name] for name in same}
    given |= {name: None if asked[name] is None else spelled(asked[name]) for name in numbers}
    features = max(columns - 1, 1) if asked["features"] is None else asked["features"]
    return PlanFlags(row_bound=spelled(asked["bound"]), num_servers=asked["servers"], features=features, **given)


def show_plan(flags: PlanFlags, mechanism: str | None, *, as_json: bool) -> None:
    """Print a comparison, or the plan of one mechanism."""
    if mechanism is None or mechanism in COMPARED:
        show_comparison(Plan.of(flags), as_json=as_json)
    else:
        context = flags.context(mechanism)
        show_mechanism(flags, context, planned_mechanism(mechanism, context), as_json=as_json)


def show_comparison(answer: Plan, *, as_json: bool) -> None:
    """Print the sketch and the second moments side by side, and what to take."""
    if as_json:
        typer.echo(json.dumps(describe(answer), indent=2, allow_nan=False))
        return
    for table in tables(answer):
        Console().print(table)
    recommendation, why = recommend(answer)
    typer.echo(f"Recommended: {recommendation}. {why}")
    planned = {"sketch": answer.sketch, "second moments": answer.products, "range finder": answer.range_finder}
    for name, option in planned.items():
        if option is not None:
            typer.echo(f"The {name}: {in_words(option.if_colluding)}.")
            typer.echo(f"  {left_alone(answer.context.claim, answer.context.noise, option.alone)}")
            if option.not_verified:
                typer.echo(f"  Not verified: {option.not_verified}.")
    for note in [*notes(answer), *_trades(answer)]:
        typer.echo(f"Note: {note}.")


def show_mechanism(
    flags: PlanFlags, context: CalibrationContext[Any], planned: PlannedMechanism, *, as_json: bool
) -> None:
    """Print one mechanism: its noise, the error of what it releases, bytes and limits."""
    described = _described(planned)
    if as_json:
        asked = _document(flags, context.claim)
        typer.echo(json.dumps({"question": asked, "mu": mu_of(context.claim), **described}, indent=2, allow_nan=False))
        return
    claim = context.claim
    kind = planned.mechanism.kind
    title = f"{kind} for epsilon {claim.epsilon} at delta {claim.delta}, {claim.min_clients:,} clients"
    table = Table("expected", kind, title=title)
    for name, value in planned.deviations.items():
        table.add_row(f"deviation of the noise in a released {name}", number(value))
    predicted = asdict(planned.predicted) if planned.predicted else {}
    for key, words in _ERRORS.items():
        table.add_row(words, number(predicted.get(key)))
    shown = described | _verified(planned)
    for key, words in _COSTS.items():
        table.add_row(words, number(shown.get(key)))
    Console().print(table)
    typer.echo(f"The release: {in_words(planned.if_colluding)}.")
    typer.echo(left_alone(claim, context.noise, planned.alone))
    if planned.not_verified:
        typer.echo(f"Not verified: {planned.not_verified}.")
    if trade := trade_of(context, planned):
        typer.echo(f"{trade.words}.")


def _document(flags: PlanFlags, claim: Claim) -> Document:
    """Return what was asked, with the rules for the largest cohort and the norm of rows applied."""
    named = {"claim": claim.model_dump(), "max_clients": flags.cohort, "row_norm": flags.norm}
    return asdict(flags) | named


def _trades(answer: Plan) -> Iterator[str]:
    """Yield what it would be to leave the noise to the servers, of the mechanism that is recommended."""
    planned = answer.sketch if recommend(answer)[0] == "osnap" else answer.products
    if planned is not None and (trade := trade_of(answer.context, planned)):
        yield trade.words


def spelled(number: float) -> Real:
    """Spell a number as documents do; raise InvalidTaskError if no document can hold it."""
    try:
        return real(number)
    except ValueError as error:
        raise InvalidTaskError(str(error)) from None


def solved(flags: PlanFlags, solve: str | None, sigma: float | None, error: float | None, mechanism: str) -> PlanFlags:
    """Answer the inverse question, if there is one, and return what is to be planned.

    Raises InvalidTaskError if the question is not complete, or has no answer.
    """
    if solve is None:
        if sigma is not None or error is not None:
            raise InvalidTaskError("--sigma and --error are read only with --solve: add it, or leave them out")
        return flags
    if solve == "epsilon":
        if sigma is None or error is not None or mechanism != "osnap":
            raise InvalidTaskError("--solve epsilon takes --sigma, the noise of the sketch")
        return smallest_epsilon(flags, sigma)
    if (sigma is None) == (error is None):
        raise InvalidTaskError("--solve clients takes either --sigma or --error")
    if error is not None and flags.planned(mechanism).predicted is None:
        raise InvalidTaskError(f"--error is that of second moments, which {mechanism} does not release; take --sigma")

    def good_enough(candidate: PlanFlags) -> bool:
        planned = candidate.planned(mechanism)
        if sigma is not None:
            return planned.sigma <= sigma
        return error is not None and predicted_of(planned).relative_error <= error

    return smallest_cohort(flags, good_enough)


def describe(plan: Plan) -> Document:
    """Return a plan as a document; numbers that do not exist are None."""
    sketch, products, others, claim = plan.sketch, plan.products, plan.others, plan.context.claim
    trade = trade_of(plan.context, sketch)
    of_sketch, of_products = predicted_of(sketch), predicted_of(products) if products else None
    predicted: Document = {
        "sketch": asdict(of_sketch),
        "best_rows": best_rows(plan.context),
        "sketch_at_best_rows": asdict(plan.best),
        "second_moment": asdict(of_products) if of_products else None,
        "ratio": of_sketch.squared_error / of_products.squared_error if of_products else None,
        "ratio_at_best_rows": plan.best.squared_error / of_products.squared_error if of_products else None,
    }
    recommendation, why = recommend(plan)
    return {
        "question": _document(plan.flags, claim) | {"rows": sketch.mechanism.num_rows},
        "mu": mu_of(claim),
        **_described(sketch),
        "calibrations": {"published": others.published, "central": others.central, "local": others.local},
        "published_epsilon": others.published_epsilon,
        "predicted": predicted,
        "second_moment": _described(products) if products else None,
        "range_finder": _described(plan.range_finder) if plan.range_finder else None,
        "recommendation": recommendation,
        "why": why,
        "noise": None if trade is None else trade.document,
        "notes": list(notes(plan)),
    }


def tables(plan: Plan) -> Iterator[Table]:
    """Yield the tables that show a plan to a person."""
    others, claim = plan.others, plan.context.claim
    one = "server" if plan.flags.noise == "servers" else "client"
    title = f"One {one}'s noise for epsilon {claim.epsilon} at delta {claim.delta}, {claim.min_clients:,} clients"
    noise = Table("calibration", "sigma", title=title)
    noise.add_row("ours: exact, from the public matrix", number(plan.sketch.sigma))
    really = "" if others.published_epsilon is None else f" (really epsilon {others.published_epsilon:.3g} or more)"
    noise.add_row(f"published, each copy{really}", number(others.published))
    noise.add_row("central: as much as a curator would add", number(others.central))
    noise.add_row("local: clients that trust nobody", number(others.local))
    yield noise
    errors = Table("expected", "sketch", "sketch, best rows", "second moments")
    errors.add_row("rows", number(plan.sketch.mechanism.num_rows), number(best_rows(plan.context)), "1")
    options = [
        asdict(predicted_of(plan.sketch)),
        asdict(plan.best),
        asdict(predicted_of(plan.products)) if plan.products else {},
    ]
    for key, words in _ERRORS.items():
        errors.add_row(words, *(number(option.get(key)) for option in options))
    yield errors
    named = {"sketch": plan.sketch, "second moments": plan.products}
    if plan.range_finder is not None:
        named["range finder"] = plan.range_finder
    costs = Table("costs and limits", *named)
    both = [_described(option) | _verified(option) if option else {} for option in named.values()]
    for key, words in _COSTS.items():
        costs.add_row(words, *(number(option.get(key)) for option in both))
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
    "verified_uniform_bytes": "verified: bytes a report, uniform shares",
    "verified_seeded_bytes": "verified: bytes a report, seeded shares",
    "check_bytes": "verified: bytes of a server's check",
    "server_microseconds": "verified: microseconds of a server, about",
    "influence": "verified: a hostile client counts as rows, at most",
    "price": "verified: delta that shares cost",
}


def _described(option: PlannedMechanism) -> Document:
    return {
        "mechanism": option.mechanism.model_dump(mode="json"),
        "sigma": option.sigma,
        "leverage": option.leverage,
        "epsilon": option.epsilon,
        "epsilon_alone": option.alone.epsilon if option.alone is not None else None,
        "if_colluding": {str(percent): value for percent, value in option.if_colluding.items() if value < math.inf},
        "deviations": option.deviations,
        "predicted": asdict(option.predicted) if option.predicted else None,
        "uniform_bytes": option.report_bytes["uniform"],
        "seeded_bytes": option.report_bytes["seeded"],
        "headroom_bits": option.headroom_bits,
        "max_clients": option.max_clients,
        "verified": asdict(option.verified) if option.verified else None,
        "not_verified": option.not_verified,
    }


def _verified(option: PlannedMechanism) -> Document:
    """Return what a table shows of verified reports, if they are offered."""
    if option.verified is None:
        return {}
    return {
        "verified_uniform_bytes": option.verified.report_bytes["uniform"],
        "verified_seeded_bytes": option.verified.report_bytes["seeded"],
        "check_bytes": option.verified.check_bytes,
        "server_microseconds": 1e6 * option.verified.server_seconds,
        "influence": option.verified.influence,
        "price": option.verified.price,
    }
