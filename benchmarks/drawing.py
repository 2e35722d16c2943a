"""Bar charts as SVG text: few enough lines that a reviewer reads a change of a figure in the diff."""

from typing import Final
from xml.sax.saxutils import escape

from benchmarks.figures import Chart

_WIDTH: Final = 720
_BAR_HEIGHT: Final = 22
_GAP: Final = 8
_LEFT: Final = 190
_RIGHT: Final = 90
_TOP: Final = 34
_FONT: Final = 'font-family="sans-serif" font-size="13"'
_OURS: Final = "#1f6f5c"
_OTHERS: Final = "#9aa5b1"
#: Bars whose label begins so are this project's.
OWN_LABEL: Final = "chio-worker"


def bars(chart: Chart) -> str:
    """Return the picture of a chart, its longest bar across the whole width."""
    longest = max((value for _, value in chart.bars), default=0) or 1
    height = _TOP + len(chart.bars) * (_BAR_HEIGHT + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="0" y="18" font-size="15">{escape(chart.title)} ({escape(chart.unit)})</text>',
    ]
    for place, (label, value) in enumerate(chart.bars):
        lines += _bar(place, label, value, value / longest)
    return "\n".join([*lines, "</svg>", ""])


def _bar(place: int, label: str, value: float, share: float) -> list[str]:
    top = _TOP + place * (_BAR_HEIGHT + _GAP)
    width = round((_WIDTH - _LEFT - _RIGHT) * share)
    middle = top + _BAR_HEIGHT - 6
    colour = _OURS if label.startswith(OWN_LABEL) else _OTHERS
    return [
        f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{width}" height="{_BAR_HEIGHT}" fill="{colour}"/>',
        f'<text x="{_LEFT + width + 6}" y="{middle}">{value:,}</text>',
    ]
