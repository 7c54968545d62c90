"""The names of weighted regressions: which may be called ordinary, and what is never said beside weights by all."""

from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.weighted_rows import WeightedRows


def test_only_weights_by_features_near_one_are_called_ordinary_and_never_those_by_all() -> None:
    few, many = ClippedRows(5, 3, 10_000), ClippedRows(500, 3, 10_000)
    for by in ("features", "all"):
        for average in (0.5, 0.97, 0.995):
            for clipped in (None, few, many):
                weights = WeightedRows(by, "y", -1, 1, average, 0.001)  # type: ignore[arg-type]
                name = weights.name(clipped)
                assert ("ordinary" in name) == (by == "features" and average > 0.99 and clipped is few)
                assert ("features or its target" in name) == (by == "all")
                assert ("too small" in weights.about) == (by == "all")
                assert ("linear law, if" in weights.about) == (by == "features")
                assert not {"effect", "probability"} & set(f"{name} {weights.about}".split())
