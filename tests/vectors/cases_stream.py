"""Vectors of streams: the matrix, the price of the worst windows, and what a window takes back."""

import plain_stream
from given import Vector, good, texts

MATRICES: list[tuple[int, int, str, int | None]] = [
    (1, 1, "1", None), (2, 2, "1", None), (6, 1, "0.55", None), (6, 2, "0.3", None),
    (8, 3, "0.2", 4), (8, 8, "0.05", None),
]  # fmt: skip
MEMORIES = {0: [0, 1, -1, 2**40 + 1], 1: [128, -128, 3, -(2**40)], 3: [127, -127, -3, 5]}


def streams() -> list[Vector]:
    found = []
    for rows, reports, damping, memory in MATRICES:
        matrix = {"rows": rows, "reports": reports, "damping": damping, "memory": memory}
        output = {
            "steps": plain_stream.steps(rows, damping, memory),
            "squared_price": str(plain_stream.squared_price(rows, reports, damping, memory)),
        }
        found.append(good(f"{reports} of {rows} windows, damping {damping}", "stream_matrix", output, **matrix))
    for row, known in ((1, (0,)), (4, (0, 1, 3)), (5, (1, 3)), (7, (0, 3))):
        entries = plain_stream.steps(8, "0.65", None)
        memories = {str(window): texts(MEMORIES[window]) for window in known}
        output_words = plain_stream.carried(entries, row, {window: MEMORIES[window] for window in known})
        found.append(
            good(f"window {row} takes back windows {', '.join(map(str, known))}", "carried", texts(output_words),
                 rows=8, damping="0.65", row=row, memories=memories)
        )  # fmt: skip
    return found
