"""Parses formulas such as `delay ~ hour + C(origin)` into columns of a release, or refuses what it cannot answer.

The language is that of Wilkinson and Rogers (1973) as formulaic parses it, cut down to what second moments hold: sums
of columns. A product or a function of columns would have to be a column before rows are added up, and is refused in
words that say so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError, install_command

if TYPE_CHECKING:
    from formulaic.parser.types import Structured, Term, Token

INSTALL = f"formulas need formulaic, which is not installed; {install_command('formulas')}"
MOST_CHARACTERS = 10_000

_SUMS = frozenset("~+-")
_HIGHER = frozenset("*:^/%")
_CATEGORY = re.compile(r"C\(\s*`?([^`,()]+?)`?\s*(,.*)?\)", re.DOTALL)
_LINEAR = re.compile(r"(center|scale|standardize)\(")
_AVAILABLE = "__formulaic_variables_available__"  # what formulaic calls the columns that `.` stands for


@dataclass(frozen=True)
class FormulaColumns:
    """What a formula says."""

    target: str  #: the column on its left
    features: tuple[str, ...]  #: those on its right, each once, a category as its indicators
    intercept: bool  #: whether it asks for one, as a formula does unless it holds `0` or `- 1`


def read_formula(formula: str, columns: Sequence[ScaledColumn]) -> FormulaColumns:
    """Return the columns that a formula names.

    `formula` is such as `y ~ a + C(sex)`; names that are no Python names stand in backticks. Raises
    InvalidAnalysisError if formulaic is not installed, the formula cannot be parsed, or it asks for what second moments
    do not hold.
    """
    try:
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
        from formulaic.parser.algos.tokenize import tokenize
    except ModuleNotFoundError:
        raise InvalidAnalysisError(INSTALL) from None
    if len(formula) > MOST_CHARACTERS:
        raise InvalidAnalysisError(f"a formula has at most {MOST_CHARACTERS} characters, got {len(formula)}")
    varying = [column.name for column in columns if not column.constant]
    try:
        # Before terms are multiplied out: twenty factors would make a million of them.
        _require_sums(list(tokenize(formula)))
        terms = DefaultFormulaParser().get_terms(formula, context={_AVAILABLE: varying})
        left, right = _sides(terms)
    except FormulaicError as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidAnalysisError(f"the formula {formula!r} cannot be parsed: {said}") from None
    if len(left) != 1 or left[0] == "1":
        raise InvalidAnalysisError("a formula has one column on its left, as in 'y ~ a + b'")
    named = [name for term in right if term != "1" for name in _columns_of(term, columns)]
    return FormulaColumns(_target(left[0], columns), tuple(dict.fromkeys(named)), "1" in right)


def _require_sums(tokens: "Sequence[Token]") -> None:
    """Refuse every operator but sums, before anything is computed."""
    for token in tokens:
        if token.kind is None or token.kind.value not in {"operator", "context"}:
            continue
        sign = str(token)
        if set(sign) & _HIGHER:
            raise InvalidAnalysisError(
                f"a formula over a release is a sum of columns, got {sign!r}: second moments hold the products of two "
                "columns summed over all clients, and no product of three, which an interaction or a power needs; "
                "declare the product as a column of its own before rows are collected, then name that column"
            )
        if not set(sign) <= _SUMS | set("()"):
            raise InvalidAnalysisError(
                f"a formula over a release is one sum of columns, as in 'y ~ a + b'; got {sign!r}"
            )


def _sides(terms: "Structured[Term]") -> tuple[list[str], list[str]]:
    """Return the terms on the left and on the right of the tilde, each as the text of its one factor."""
    left, right = getattr(terms, "lhs", None), getattr(terms, "rhs", None)
    if left is None or right is None:
        raise InvalidAnalysisError("a formula has a column, a tilde and what explains it, as in 'y ~ a + b'")
    return [_text(term) for term in left], [_text(term) for term in right]


def _text(term: "Term") -> str:
    """Return a term as it was written; products were refused before."""
    (factor,) = term.factors
    return str(factor.expr)


def _target(text: str, columns: Sequence[ScaledColumn]) -> str:
    """Return the column to explain."""
    found = _columns_of(text, columns)
    if len(found) != 1:
        raise InvalidAnalysisError(
            f"{text} is a category of {len(found) + 1} levels; explain one of its indicators, in backticks: "
            + ", ".join(f"`{name}`" for name in found)
        )
    return found[0]


def _columns_of(text: str, columns: Sequence[ScaledColumn]) -> tuple[str, ...]:
    """Return the columns that one term stands for."""
    if any(column.name == text for column in columns):
        return (text,)
    if called := _CATEGORY.fullmatch(text):
        return _category(called[1], called[2] is not None, columns)
    if indicators := _indicators(text, columns):
        return indicators
    if _LINEAR.match(text):
        raise InvalidAnalysisError(
            f"{text}: name the column itself; a line that is fitted to a shifted or scaled column is the same line"
        )
    if "(" in text or "{" in text or not re.fullmatch(r"[^\s+*/<>=]+", text):
        raise InvalidAnalysisError(
            f"{text} is computed from a column, and a release holds sums over columns as they were declared; declare "
            "it as a column of its own, which every client computes before its row is sent, then name that column"
        )
    raise InvalidAnalysisError(f"the formula names {text!r}; the release holds {_known(columns)}")


def _category(name: str, contrasts: bool, columns: Sequence[ScaledColumn]) -> tuple[str, ...]:
    """Return the indicators of `C(name)`; a boolean is one already."""
    if contrasts:
        raise InvalidAnalysisError(
            f"C({name}, ...): the levels of a category and its reference were fixed before the release, write "
            f"C({name}); a difference between two levels is that of their coefficients"
        )
    if any(column.name == name and column.kind == "boolean" for column in columns):
        return (name,)
    if indicators := _indicators(name, columns):
        return indicators
    if any(column.name == name for column in columns):
        raise InvalidAnalysisError(
            f"C({name}): {name} is a number in this release, not a category; declare it as a category with its levels "
            f"before rows are collected, or write {name} for a line through its values"
        )
    raise InvalidAnalysisError(f"the formula names {name!r}; the release holds {_known(columns)}")


def _indicators(category: str, columns: Sequence[ScaledColumn]) -> tuple[str, ...]:
    return tuple(column.name for column in columns if column.category and column.category == category)


def _known(columns: Sequence[ScaledColumn]) -> str:
    """Return what a formula may name, each category once."""
    held = [f"C({column.category})" if column.category else column.name for column in columns if not column.constant]
    return ", ".join(dict.fromkeys(held))
