"""The forms of texts that engines share, and what a number, a date or a truth value looks like in a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato.engines.sql.dialect import Form
from sfumato.language.lower_texts import ANY, like_pieces
from sfumato.language.scalar import Operator, Scalar

MAX_COUNT = 2**31 - 1
"""More characters than any text has."""
SPACE = "\t\n\v\f\r "
"""Characters allowed around a value in a text."""
AROUND = r"[\t\n\v\f\r ]*"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DATE = f"{_YEAR}-[0-9]{{1,2}}-[0-9]{{1,2}}"
CLOCK = r"[ T](?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
MOMENT = f"{DATE}(?:{CLOCK})?"
INTEGER = "[+-]?[0-9]{1,40}"
DECIMAL = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
TRUTHS = {
    True: ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"),
    False: ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"),
}


def called(name: str, type: str = "") -> Form:
    """Return the form that calls a function; of this type where the engine's has another."""

    def form(_: Scalar, arguments: list[str]) -> str:
        call = f"{name}({', '.join(arguments)})"
        return f"CAST({call} AS {type})" if type else call

    return form


def truth_of(words: str, text: Callable[[str], str]) -> str:
    """Return the truth value that a trimmed text in small letters spells."""
    cases = " ".join(
        f"WHEN {text(word)} THEN {str(truth).lower()}" for truth, spelled in TRUTHS.items() for word in spelled
    )
    return f"(CASE {words} {cases} END)"


@dataclass(frozen=True, slots=True)
class TextForms:
    """What an engine's forms of texts need of it."""

    text: Callable[[str], str]
    """A text as a constant."""
    trims: tuple[str, str, str]
    """Calls that cut the characters {1} from both sides of {0}, from its left and from its right."""
    starts: Callable[[str, str], str]
    """Whether a text starts with another one, a constant."""
    ends: Callable[[str, str, int], str]
    """Whether it ends with another one, a constant of the given number of characters."""
    contains: Callable[[str, str], str]
    like: Callable[[str, Sequence[str]], str]
    """Whether it is of the pattern that the pieces of `lower_texts.like_pieces` make, in linear time."""

    def forms(self) -> dict[Operator, Form]:
        """Return the form of every operator that all engines write alike."""
        both, left, right = self.trims
        return {
            Operator.JOINED: lambda scalar, texts: f"({' || '.join(texts)})",
            Operator.TRIM: self._trimmed(both),
            Operator.LTRIM: self._trimmed(left),
            Operator.RTRIM: self._trimmed(right),
            Operator.REPLACE: self._replace,
            Operator.LIKE: self._like,
        }

    def _trimmed(self, call: str) -> Form:
        return lambda scalar, texts: call.format(texts[0], self.text(str(scalar.constant)))

    def _replace(self, scalar: Scalar, texts: list[str]) -> str:
        match scalar.constant:
            case (str(old), str(new)):
                return f"replace({texts[0]}, {self.text(old)}, {self.text(new)})"
            case _:
                raise AssertionError("what is replaced comes with what replaces it")

    def _like(self, scalar: Scalar, texts: list[str]) -> str:
        (text,) = texts
        pieces = like_pieces(str(scalar.constant))
        front, back = bool(pieces) and pieces[0] == "%", len(pieces) > 1 and pieces[-1] == "%"
        middle = pieces[front : len(pieces) - back]
        if not ANY.isdisjoint(middle):
            return self.like(text, pieces)
        plain = "".join(piece[1:] for piece in middle)
        match front, back:
            case False, False:
                return f"({text} = {self.text(plain)})"
            case False, True:
                return self.starts(text, self.text(plain))
            case True, False:
                return self.ends(text, self.text(plain), len(plain))
            case _:
                return self.contains(text, self.text(plain))
