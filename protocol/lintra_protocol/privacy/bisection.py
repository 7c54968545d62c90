"""The one root-finder: where a condition that holds on one side stops to hold, always answered from the side it holds.

A search keeps a bracket, an inside at which the condition was seen to hold and an outside at which it was not. Whatever
the condition does in between (a curve that is not quite monotone in its last digits, a value that is not a number), the
inside that is returned was itself seen to hold; if the condition is monotone it is the last such point, to the stated
width. A calibration therefore never ends on the wrong side of its claim.
"""

import math
from collections.abc import Callable

_FURTHEST = 1e300
_SMALLEST = 1e-305
_EXTRA_STEPS = 1
_A_SHADE_LESS = 1 - 2.0**-40
"""So that rounding does not cost a step."""


class NoBoundaryError(ValueError):
    """A condition holds everywhere or nowhere in the range that was searched."""


def bisect(inside: float, outside: float, holds: Callable[[float], bool], *, width: float = 0.0) -> tuple[float, float]:
    """Narrow a bracket by halves.

    `inside` says where the condition holds; on either side of `outside`. `outside` says where it does not. Neither end
    is evaluated again. `width` is that of the bracket at the end, relative to its larger end; 0 for neighbouring
    doubles.

    Returns:
        The last inside and the last outside: at the former the condition was true, at the latter false.
    """
    while True:
        low, high = (inside, outside) if inside < outside else (outside, inside)
        # Written so that the middle of two numbers of one binade is exactly rounded, on every machine.
        middle = low + (high - low) / 2
        if not low < middle < high or high - low <= width * high:
            return inside, outside
        if holds(middle):
            inside = middle
        else:
            outside = middle


def bisect_whole(inside: int, outside: int, holds: Callable[[int], bool]) -> int:
    """Return the integer next to where a condition stops to hold, on the side where it holds.

    `inside` says where the condition holds, or what to answer if it holds nowhere before. `outside` says where it does
    not; on either side of `inside`. Neither end is evaluated.
    """
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def smallest_whole(least: int, holds: Callable[[int], bool], most: int | None = None, guess: int | None = None) -> int:
    """Return the smallest integer from `least` on at which a condition holds that stays true, by doubling and halves.

    Args:
        least: the smallest candidate, at least 1.
        holds: the condition.
        most: the largest candidate; None for no end.
        guess: where to begin; the nearer it is, the fewer steps are taken, and the answer is the same.

    Raises:
        NoBoundaryError: it does not hold at `most` either.
    """
    candidate = max(least, guess or least) if most is None else min(max(least, guess or least), most)
    step = least if guess is None else 1
    if holds(candidate):
        inside = candidate
        while inside > least:
            below = max(inside - step, least)
            if not holds(below):
                return bisect_whole(inside, below, holds)
            inside, step = below, 2 * step
        return least
    while candidate != most:
        outside, candidate = candidate, candidate + step if most is None else min(candidate + step, most)
        if holds(candidate):
            return bisect_whole(candidate, outside, holds)
        step *= 2
    raise NoBoundaryError(f"the condition does not hold up to {most}")


def narrow(inside: float, outside: float, excess: Callable[[float], float], *, width: float) -> tuple[float, float]:
    """Narrow a bracket by the size of what is asked for, which takes far fewer steps than halves for a smooth function.

    The ITP method (Oliveira, Takahashi 2020, Algorithm 1): at most one evaluation more than bisection takes, whatever
    the function is. A value that is not a number, or infinite, counts as outside and is answered by a half step.

    Args:
        inside: where `excess` is at most 0; on either side of `outside`.
        outside: where it is above 0.
        excess: how far a point is outside.
        width: of the bracket at the end, positive, in the unit of its ends.

    Returns:
        The last inside and the last outside.

    Raises:
        ValueError: the ends do not lie on their sides, or `width` is not positive.
    """
    at_inside, at_outside = excess(inside), excess(outside)
    if not (at_inside <= 0 and not at_outside <= 0 and width > 0):
        raise ValueError(f"no bracket of positive width: excess {at_inside} at {inside}, {at_outside} at {outside}")
    first = abs(outside - inside)
    steps = max(0, math.ceil(math.log2(first / width))) + _EXTRA_STEPS
    while abs(outside - inside) > width:
        half = inside + (outside - inside) / 2
        if half in (inside, outside):
            break
        step = half
        if math.isfinite(at_inside) and math.isfinite(at_outside) and at_outside > at_inside:
            secant = inside + (outside - inside) * (at_inside / (at_inside - at_outside))
            toward = math.copysign(1.0, half - secant)
            inward = 0.2 * (outside - inside) ** 2 / first
            # From the secant point towards the middle, and no further from it than the step count allows.
            moved = secant + toward * inward if inward <= abs(half - secant) else half
            room = max(0.0, math.ldexp(width * _A_SHADE_LESS, steps - 1) - abs(outside - inside) / 2)
            step = moved if abs(moved - half) <= room else half - toward * room
        steps -= 1
        value = excess(step)
        if value <= 0:
            inside, at_inside = step, value
        else:
            outside, at_outside = step, value
    return inside, outside


def enclose(start: float, holds: Callable[[float], bool], *, factor: float = 2.0) -> tuple[float, float]:
    """Return a bracket around where a condition stops to hold as a positive number grows (or falls, below `factor` 1).

    Args:
        start: a positive first guess.
        holds: the condition.
        factor: of the first step away from where it holds, which is squared with each further one.

    Returns:
        An inside and an outside, both evaluated.

    Raises:
        NoBoundaryError: nothing in that direction down to 1e-300 or up to 1e300 is inside, or everything is.
    """
    here = start
    if holds(here):
        while True:
            inside, here, factor = here, here * factor, factor * factor
            if not 1 / _FURTHEST < here < _FURTHEST:
                raise NoBoundaryError("the condition holds everywhere")
            if not holds(here):
                return inside, here
    while True:
        outside, here, factor = here, here / factor, factor * factor
        if not 1 / _FURTHEST < here < _FURTHEST:
            raise NoBoundaryError("the condition holds nowhere")
        if holds(here):
            return here, outside


def furthest(start: float, excess: Callable[[float], float], *, width: float, factor: float = 2.0) -> float:
    """Return the largest positive number at which `excess` is at most 0; the smallest, for a `factor` below 1.

    `excess` is at most 0 near 0 (or near infinity) and above 0 beyond. What is returned was itself evaluated.

    Args:
        start: a positive first guess.
        excess: how far a number is outside; not a number counts as outside.
        width: how near the answer is to the boundary, relatively.
        factor: of the first step of the search; see `enclose`.

    Raises:
        NoBoundaryError: see `enclose`.
    """
    seen: dict[float, float] = {}

    def inside_at(number: float) -> bool:
        seen[number] = excess(number)
        return seen[number] <= 0

    ends = enclose(start, inside_at, factor=factor)
    number_at = {math.log(end): end for end in ends}

    def at(log: float) -> float:
        number = number_at.setdefault(log, math.exp(log))
        return seen[number] if number in seen else excess(number)

    # In logarithms; what was evaluated is what is returned.
    found, _ = narrow(math.log(ends[0]), math.log(ends[1]), at, width=width)
    return number_at[found]


def retreat(start: float, step: float, holds: Callable[[float], bool]) -> float:
    """Return the first of start, start + step, start + 3 step, start + 7 step, .. at which a condition holds.

    For a second, slower or stricter condition on what a search has found; `step` points away from the boundary. Raises
    NoBoundaryError if it holds nowhere within a thousand doublings.
    """
    place = start
    for _ in range(1000):
        if holds(place):
            return place
        place, step = place + step, 2 * step
    raise NoBoundaryError(f"the condition holds nowhere beyond {start}")


def log_excess(value: float, most: float) -> float:
    """Return ln(value / most), at most 0 just where value <= most; infinite for a value that is not a number.

    How far a curve lies above its claim, in a form in which a search takes few steps. `value` is not negative; `most`
    is positive.
    """
    if not value >= 0:
        return math.inf
    found = math.log(max(value, _SMALLEST)) - math.log(most)
    # Rounding of the logarithms must not decide.
    return min(found, 0.0) if value <= most else max(found, _SMALLEST)
