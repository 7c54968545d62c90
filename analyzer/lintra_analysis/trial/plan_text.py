"""Shows the forecast of a specification as JSON and as text."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.spec.stream import OPTION_HEADER, option_rows
from lintra_analysis.trial.chain_forecast import ChainForecast
from lintra_analysis.trial.error_forecast import ErrorForecast
from lintra_analysis.trial.mechanism_forecast import SketchForecast, WideForecast
from lintra_analysis.trial.what_if import prospects_table
from lintra_protocol.mechanisms.collusion import in_words
from lintra_protocol.task import Task

MOST_LINES, SHOWN = 100, 10
"""A table with more lines than the first is cut down to the second in a text for people."""


def document(found: ErrorForecast) -> dict[str, object]:
    """Return what was found as JSON holds it."""
    task, coefficients = found.task, found.coefficients
    return {
        "mechanism": task.mechanism.kind,
        "min_clients": task.claim.min_clients,
        **_organisations_document(found),
        "epsilon": task.claim.epsilon,
        "delta": task.claim.delta,
        "study": None if task.study is None else task.study.model_dump(mode="json"),
        "windows": None if found.together is None else asdict(found.together),
        "words": task.num_words,
        "expected_from": found.rows_from,
        "means": found.means,
        "correlations": None
        if found.correlations is None
        else [
            {"first": first, "second": second, "deviation": error}
            for (first, second), error in found.correlations.items()
        ],
        "coefficients": None
        if coefficients is None
        else [{"name": name, "value": value, "standard_error": error} for name, (value, error) in coefficients.items()],
        "wide": None if found.wide is None else found.wide.document(),
        "chain": None if found.chain is None else found.chain.document(),
        "sketch": None if found.sketch is None else asdict(found.sketch),
        "others": found.others,
        "prospects": None
        if found.prospects is None
        else [
            {"epsilon": each.epsilon, "num_clients": each.num_clients, "strength": each.strength, "guess": each.guessed}
            | {"coefficients": each.verdict}
            for each in found.prospects
        ],
        "epsilon_if_colluding": {str(percent): value for percent, value in found.if_colluding.items() if value < 1e308},
        "warnings": list(found.warnings),
    }


def show(found: ErrorForecast) -> str:
    """Return what was found in words."""
    claim, kind = found.task.claim, found.task.mechanism.kind
    held, words = found.task.contributors, f"{found.task.num_words:,} words a report"
    who = "clients" if held is None else f"organisations with {found.organisation_rows:,} rows each"
    told = in_words(found.if_colluding, None if held is None else claim.min_clients)
    lines = [
        f"{kind}: epsilon {claim.epsilon} at delta {claim.delta}, from {claim.min_clients:,} {who}",
        f"{words}; {told}.",
        *_organisations(found.task),
        *_study(found.task),
        *_windows(found),
        f"What the noise alone will do to answers, for rows like {found.rows_from}:",
        "",
        *_answers(found),
        *(f"Warning: {warning}." for warning in found.warnings),
    ]
    return "\n".join(lines) + "\n"


def _organisations_document(found: ErrorForecast) -> dict[str, object]:
    """Return to whom organisations promise what, and with how many rows; nothing where every report is a row."""
    held = found.task.contributors
    if held is None:
        return {}
    return {
        "promised_to": held.persons,
        "max_corrupt_clients": found.task.claim.max_corrupt_clients,
        "row_count": held.count,
        "organisation_rows": found.organisation_rows,
    }


def _organisations(task: Task) -> Iterator[str]:
    """Say what persons are promised, and organisations, if these contribute."""
    held, claim = task.contributors, task.claim
    if held is None:
        return
    yield (
        f"Promised ({claim.neighbours}) to {held.persons}, if at most {claim.max_corrupt_clients} of the organisations "
        f"collude; {task.measurement.clipping_rule()}."
    )
    yield (
        "Promised to an organisation: nothing about its own sums, which nobody sees unless all others, all servers but "
        "one and the analyzer collude; then they see them with its own noise."
    )
    known = "released as it is" if held.count == "exact" else "released with noise"
    yield f"The number of rows is {known}; an organisation sends at most {held.max_rows:,}."


def _study(task: Task) -> Iterator[str]:
    """Say what pilot and main task cost together, if this is one of them."""
    if task.study is not None:
        role = "Pilot" if task.study.pilot is None else "Main task"
        yield (
            f"{role} of a study of epsilon {task.study.epsilon} at delta {task.study.delta}, which devices charge once "
            "for both tasks, before the pilot's report leaves."
        )


def _windows(found: ErrorForecast) -> Iterator[str]:
    """Say what one window promises, what all reports of one source cost, and what promising that would take."""
    both = found.together
    if both is None:
        return
    yield f"Released in each of {both.windows:,} windows; one source answers in at most {both.reports} of them."
    if both.merged > 1:
        yield f"Up to {both.merged} in a row are released together where the first ones have too few reports."
    yield ""
    rows = [["epsilon as asked", f"{both.epsilon_of_one:.6g}", f"{both.epsilon_of_all:.6g}", "1"]]
    if both.costs_more:
        promised = f"at most {found.task.claim.epsilon}"
        rows.append(["that promise for all", both.epsilon_to_ask, promised, f"{both.noise_factor:.4g}"])
    yield from table(["", "one window", f"all {both.reports} reports of a source", "times the noise"], rows)
    yield ""
    if found.task.stream is not None:
        yield "The windows are a stream. Noise, in that of independent windows with the same promise for all reports:"
        yield ""
        yield from table(OPTION_HEADER, option_rows(both.streams, found.task.stream))
        yield ""


def _answers(found: ErrorForecast) -> Iterator[str]:
    if found.means is not None:
        scales = {column.name: float(column.scale) for column in found.task.encoded_columns}
        means = sorted(found.means.items(), key=lambda pair: -pair[1] / scales.get(pair[0], 1.0))
        few = len(means) <= MOST_LINES
        yield from _table(
            ["mean of", "deviation"], found.means.items() if few else means, "means, none larger in scales"
        )
    if found.correlations is not None:
        pairs = {f"{first}, {second}": error for (first, second), error in found.correlations.items()}
        few = len(pairs) <= MOST_LINES
        largest = sorted(pairs.items(), key=lambda pair: -pair[1])
        yield from _table(["correlation of", "deviation"], pairs.items() if few else largest, "pairs, none larger")
    if found.coefficients is not None:
        rows = [
            [name, number(value), "cannot be told" if error is None else number(error)]
            for name, (value, error) in found.coefficients.items()
        ]
        yield from table(["coefficient of", "expected", "deviation"], rows)
        yield ""
    if found.wide is not None:
        yield from _wide(found.wide)
    if found.chain is not None:
        yield from _chain(found.chain)
    if found.others:
        yield from table(["", "deviation"], [[name, number(error)] for name, error in found.others.items()])
        yield ""
    if found.sketch is not None:
        yield from sketch_in_words(found.sketch)
        yield ""
    if found.prospects is not None:
        yield "How well coefficients could be told (smallest eigenvalue of the features over the noise):"
        yield from prospects_table(found.prospects)
        yield ""


def _table(header: list[str], pairs: Iterable[tuple[str, float]], rest: str) -> Iterator[str]:
    """Yield a table of names and deviations; of very many the first ones, and how many others there are."""
    rows = [[name, number(error)] for name, error in pairs]
    shown = rows if len(rows) <= MOST_LINES else rows[:SHOWN]
    yield from table(header, shown)
    if len(shown) < len(rows):
        yield f"and {len(rows) - len(shown):,} other {rest}; --json has all of them"
    yield ""


def sketch_in_words(sketch: SketchForecast) -> Iterator[str]:
    """Yield what is known of a sketch before its matrix is drawn, in sentences."""
    yield (
        f"An entry of the sketch's {sketch.rows:,} rows is about {number(sketch.entry)}; the noise in it deviates by "
        f"{number(sketch.entry_noise)}."
    )
    yield (
        f"All eigenvalues of the second moments together are wrong by {number(sketch.spectrum_error)} of their sum, "
        f"of which {number(sketch.sketching_error)} would remain without noise."
    )
    yield (
        "Errors of single means, correlations and coefficients are not foreseen: which rows of the sketch a report "
        "enters is drawn after the last report."
    )


def _chain(chain: ChainForecast) -> Iterator[str]:
    yield (
        f"Up to {chain.rounds} rounds of the same people, paid for with the first. "
        f"{100 * chain.told:.0f} % of {chain.draws} simulated chains have intervals."
    )
    rows = [
        [
            slope.name,
            "not determined" if slope.own is None else number(slope.own),
            f"{100 * (slope.seen or 0):.0f} %",
            "no size" if slope.seen_from is None else f"{slope.seen_from:.2g}",
        ]
        for slope in chain.slopes
    ]
    yield from table(["slope of", "of these rows", "seen in", "80 % from"], rows)
    yield ""


def _wide(wide: WideForecast) -> Iterator[str]:
    said = list(wide_in_words(wide))
    yield said[0]
    if wide.directions:
        rows = [
            [str(i), number(one.variance), number(one.squared_sine)] for i, one in enumerate(wide.directions[:SHOWN], 1)
        ]
        yield from table(["direction", "variance", "squared sine of its error"], rows)
        if len(wide.directions) > SHOWN:
            yield f"and {len(wide.directions) - SHOWN} more; --json has all of them"
    yield from said[1:]
    yield ""


def wide_in_words(wide: WideForecast) -> Iterator[str]:
    """Yield what a range finder would tell, in sentences; the directions that stand out are a table of their own."""
    usual = "" if wide.usual_variance is None else f"; a column has {number(wide.usual_variance)} in the mean"
    yield f"Of {wide.columns:,} columns a direction with the variance {number(wide.seen_from)} is seen{usual}."
    if not wide.directions:
        yield (
            "No direction of these rows would stand out of the noise: more clients or a larger epsilon are needed, or, "
            "if no sample was given, one in which columns go together (--public-sample)."
        )
    for name, told in wide.explained.items():
        share = "cannot be told" if told is None else f"{number(told.value)} +- {number(told.standard_error)}"
        yield f"Share of the squares of {name} that a ridge regression along them explains: {share}"
