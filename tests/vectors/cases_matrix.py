"""Vectors of public matrices: whole ones that are sorted, and single columns of those that a network deals."""

import plain
from given import Vector, good, seed


def matrices() -> list[Vector]:
    result: list[Vector] = []
    for rows, clients, sparsity, name in (
        (1, 1, 1, "a"),
        (2, 5, 1, "b"),
        (3, 3, 1, "c"),
        (4, 2, 1, "d"),
        (7, 100, 1, "e"),
        (16, 1000, 1, "f"),
        (2, 0, 1, "g"),
        (2, 5, 2, "h"),
        (7, 20, 3, "i"),
        (16, 100, 4, "j"),
    ):
        columns = plain.balanced_matrix(rows, clients, seed(name), sparsity)
        entries = [[row for row, _ in column] + [sign for _, sign in column] for column in columns]
        inputs: dict[str, object] = {"rows": rows, "clients": clients, "sparsity": sparsity, "seed": seed(name).hex()}
        result.append(good(f"{rows} rows for {clients} clients, {sparsity} each", "matrix", entries, **inputs))
    for rows, clients, sparsity, name in ((7, 2**20 + 1, 1, "k"), (16, 1_050_625, 4, "l"), (1024, 2_000_003, 9, "m")):
        # The last has signs beyond its first byte; the middle one is a square, so that nothing is walked twice.
        ranks = [0, 1, 1000, clients // 3, clients - 1]
        columns = [plain.network_entries(rows, clients, seed(name), sparsity, rank) for rank in ranks]
        entries = [[row for row, _ in column] + [sign for _, sign in column] for column in columns]
        result.append(
            good(f"{rows} rows for {clients} clients, {sparsity} each", "columns", entries, rows=rows, clients=clients,
                 sparsity=sparsity, seed=seed(name).hex(), ranks=ranks)
        )  # fmt: skip
    return result
