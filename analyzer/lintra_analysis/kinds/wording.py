"""How numbers stand in tables for people."""


def number(value: object) -> str:
    """Write a number for a table: six digits, thousands apart, a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def size(count: int) -> str:
    """Write a number of bytes in three digits."""
    return f"{count} B" if count < 10_000 else f"{count / 1000:.3g} kB" if count < 10**6 else f"{count / 10**6:.3g} MB"
