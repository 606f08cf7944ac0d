"""The trade-off curve of a search as a drawing inside the page: no script, no file, no library."""

from dataclasses import dataclass

import numpy as np

from skdptune.accounting import trade_off
from skdptune.report._blocks import escape

__all__ = ["TradeOffFigure"]

_SIDE = 260.0  # of the square, in user units
_LEFT, _TOP = 46.0, 14.0


@dataclass(frozen=True)
class TradeOffFigure:
    """Largest true-positive rate against the false-positive rate, for what was released and one try."""

    alphas: np.ndarray
    whole: np.ndarray
    single: np.ndarray
    name: str = "whole search"

    @classmethod
    def of(cls, whole, single, name="whole search"):
        """Read both curves at 401 false-positive rates, denser near zero."""
        alphas = np.linspace(0.0, 1.0, 401) ** 2
        return cls(alphas, 1.0 - trade_off(whole, alphas), 1.0 - trade_off(single, alphas), name)

    def html(self, level):
        texts = [
            _label(_x(0.5), _y(0) + 34, "false-positive rate", "middle"),
            f'<text transform="translate({_LEFT - 34:g} {_y(0.5):g}) rotate(-90)" text-anchor="middle">'
            "true-positive rate, at most</text>",
        ]
        for tick in (0.0, 0.5, 1.0):
            texts.append(_label(_x(tick), _y(0) + 16, f"{tick:g}", "middle"))
            texts.append(_label(_LEFT - 7, _y(tick) + 4, f"{tick:g}", "end"))
        lines = (
            f'<rect x="{_LEFT:g}" y="{_TOP:g}" width="{_SIDE:g}" height="{_SIDE:g}" class="frame"/>',
            f'<path d="M{_x(0):g} {_y(0):g}L{_x(1):g} {_y(1):g}" class="guess"/>',
            f'<path d="{self._path(self.single)}" class="single"/>',
            f'<path d="{self._path(self.whole)}" class="whole"/>',
        )
        return (
            '<figure><svg viewBox="0 0 330 320" role="img" aria-label="Largest true-positive rate of an attacker '
            'against the false-positive rate; the table above has the numbers">'
            + "".join(lines)
            + "".join(texts)
            + f"</svg><figcaption>The best attacker: {escape(self.name)} (thick line), one try (dashed), guessing "
            "(thin line). The closer to guessing, the better.</figcaption></figure>"
        )

    def markdown(self, level):
        return ""  # the tables say it

    def _path(self, rates):
        points = [f"{_x(a):.1f} {_y(b):.1f}" for a, b in zip(self.alphas, rates, strict=True)]
        return "M" + "L".join(dict.fromkeys([f"{_x(0):.1f} {_y(0):.1f}", *points]))


def _x(share):
    return _LEFT + _SIDE * share


def _y(share):
    return _TOP + _SIDE * (1.0 - share)


def _label(x, y, text, anchor):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'
