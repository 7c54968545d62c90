"""The name of a person: one function for every place where somebody is named, so that one person is counted once.

Spreadsheets and data frames spell one identifier in many ways: 17, 17.0, 017, full-width digits, other capitals. Two
persons who are taken for one are bounded together, which is safe; one person who is taken for two is bounded twice.
"""

import re
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np

from lintra_protocol.fields.schema import is_missing

MAX_NAME_LENGTH = 200
_MAX_DIGITS = 40
_FLOAT_BITS = 53

# Most names are their own, and an organisation has a million of them.
_PLAIN = re.compile(r"[1-9][0-9]{0,39}|[a-z]{2,20}( [a-z]{1,20}){0,4}")
_DECIMAL = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?")
# Beside category Cf, what Unicode tells programs not to show: joiners, variation selectors of Han names, fillers.
_NEVER_SHOWN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_WRONG_LENGTH = f"a person's name has 1 to {MAX_NAME_LENGTH} characters"


def person_name(value: object) -> str:
    """Return the one name of whoever a cell or an argument names; the name of a name is itself.

    >>> [person_name(value) for value in (17, 17.0, "017", "+17.0", "1.7e1", "\uff11\uff17")]
    ['17', '17', '17', '17', '17', '17']
    >>> person_name(" Ann\u00a0 LEE\u200b"), person_name("17a")
    ('ann lee', '17a')

    Raises:
        ValueError: nobody is named; or by a truth value, a fraction, or something else than text or a number; or the
            text is too long or has characters that cannot be shown. The detail does not show the value.
    """
    if isinstance(value, str):
        return str(value) if _PLAIN.fullmatch(value) else _name_in(value)
    if isinstance(value, bool | np.bool_):
        raise ValueError("a person is named by text or a whole number, not by a boolean")
    if isinstance(value, int | np.integer):
        return _digits(int(value))
    if isinstance(value, Decimal) and value.is_finite():
        return _name_in(str(value))
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return _digits(_whole(value))
    if isinstance(value, Decimal | float | np.floating) or is_missing(value):
        raise ValueError("nobody is named here")
    raise ValueError(f"a person is named by text or a whole number, not by a value of type {type(value).__name__}")


class PersonNames:
    """Names the persons of one file or call, and counts the spellings that turned out to be the same person's.

    `alike` counts the names that differ from one before in capitals only: as one person they are bounded together,
    which is safe, but whoever has identifiers such as `aB3` and `AB3` means two.
    """

    def __init__(self) -> None:
        """Begin with nobody."""
        self._names: dict[str, str] = {}
        self._cased: dict[str, str] = {}
        self.alike = 0

    def of(self, value: object) -> str:
        """Return the name of a person; see `person_name`."""
        # Only text is looked up: True, 1 and 1.0 are the same key of a dictionary.
        known = self._names.get(value) if isinstance(value, str) else None
        if known is None:
            known = self._names[str(value)] = person_name(value)
            cased = " ".join(unicodedata.normalize("NFC", value).split()) if isinstance(value, str) else known
            first = self._cased.setdefault(known, cased)
            self.alike += cased != first and cased.casefold() == first.casefold()
        return known

    @property
    def joined(self) -> int:
        """Return how many more spellings than persons there were."""
        return len(self._names) - len(set(self._names.values()))


def _name_in(text: str) -> str:
    text = text.strip()
    # Before anything is done with it: the time to normalise grows with the square of the length.
    if len(text) > MAX_NAME_LENGTH:
        raise ValueError(_WRONG_LENGTH)
    name = _folded(text)
    if not name:
        raise ValueError("nobody is named here")
    if len(name) > MAX_NAME_LENGTH:
        raise ValueError(_WRONG_LENGTH)
    if not name.isprintable():
        raise ValueError("a person's name has a control character, or one that Unicode does not know")
    return _as_whole_number(name) or name


def _folded(text: str) -> str:
    """Return text without capitals, compatibility forms, characters that nobody sees, and superfluous blanks."""
    if text.isascii():  # a shorter way to the same
        return " ".join(text.lower().split())
    # What nobody sees goes first: what it stood between may compose.
    shown = "".join(each for each in _NEVER_SHOWN.sub("", text) if unicodedata.category(each) != "Cf")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())
    return " ".join(folded.split())


def _as_whole_number(name: str) -> str | None:
    """Return the digits of a whole decimal that a name of at most 40 characters reads as, or None."""
    read = _DECIMAL.fullmatch(name) if len(name) <= _MAX_DIGITS else None
    if read is None or not read[2] + read[3]:
        return None
    written = "".join(str(unicodedata.decimal(digit)) for digit in read[2] + read[3])
    digits = written.strip("0")
    if not digits:
        return "0"
    # The point stands so many zeros behind the last digit that is not 0. No power of ten is computed.
    zeros = int(read[4] or 0) - len(read[3]) + len(written) - len(written.rstrip("0"))
    if zeros < 0 or len(digits) + zeros > _MAX_DIGITS:
        return None
    return ("-" if read[1] == "-" else "") + digits + "0" * zeros


def _whole(value: "float | np.floating[Any]") -> int:
    """Return a float as the whole number that it is."""
    if not value.is_integer():
        raise ValueError("a person is named by text or a whole number, not by a number with a fraction")
    whole, bits = int(value), _FLOAT_BITS if isinstance(value, float) else np.finfo(value.dtype).nmant + 1
    if abs(whole) >= 2**bits:
        raise ValueError("a person is named by a float so large that its last digits are lost; use text or integers")
    return whole


def _digits(value: int) -> str:
    if abs(value) >= 10 ** (MAX_NAME_LENGTH - 1):
        raise ValueError(_WRONG_LENGTH)
    return str(value)
