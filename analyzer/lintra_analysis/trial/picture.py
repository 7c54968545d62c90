"""A trial as a picture: the private coefficients with their intervals beside the table's own."""

from pathlib import Path

from lintra_analysis.trial.trial import Trial
from lintra_protocol.errors import InvalidAnalysisError


def draw(trial: Trial, file: Path) -> None:
    """Draw every coefficient in units of its table's own size, so that all fit on one axis.

    Raises:
        InvalidAnalysisError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InvalidAnalysisError("pictures need matplotlib: pip install 'lintra[plot]'") from None
    shown = [each for each in trial.coefficients if each.non_private]
    figure = Figure(figsize=(7, 1.6 + 0.35 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for position, each in enumerate(reversed(shown)):
        unit = abs(each.non_private or 1.0)
        if each.interval is not None:
            axes.plot([end / unit for end in each.interval], [position, position], color="C0", linewidth=2)
        axes.plot(each.private / unit, position, "o", color="C0", label="private, 95 %" if position == 0 else None)
        axes.plot(
            (each.non_private or 0) / unit, position, "x", color="C1", label="the table" if position == 0 else None
        )
    axes.set_yticks(range(len(shown)), [each.name for each in reversed(shown)])
    # Where nothing bounds a coefficient its point may lie anywhere; the axis stays where things can be read.
    axes.set_xlim(-4, 4)
    axes.axvline(0, color="grey", linewidth=0.5)
    axes.set_xlabel("coefficient, in units of the table's own")
    axes.set_title(f"{trial.target}: epsilon {trial.epsilon:.3g}, {trial.rows:,} rows")
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=150)
