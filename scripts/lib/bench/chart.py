"""Bar charts as SVG: groups of bars in panels side by side, each bar with its value and a note.

Colours follow the reader's light or dark scheme, as in the project's other charts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_BAR = 18
_GAP = 7
_LABELS = 190
"""Width of the names at the left."""
_PANEL = 270
_NOTE = 130
"""Room behind the longest bar, for its text."""
_TOP = 66
_BOTTOM = 14

_STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#24292F}
.title{font-size:15px;font-weight:600}
.note{fill:#59636E}
.ground{fill:#ffffff}
.axis{stroke:#D8DEE4}
.other{fill:#8C959F}
.limit{fill:#E69F00}
.ours{fill:#0072B2}
.lossy{fill:#56B4E9}
.void{opacity:.45}
@media(prefers-color-scheme:dark){
text{fill:#D8DEE6}
.note{fill:#9DA7B3}
.ground{fill:#161b22}
.axis{stroke:#3A424C}
.other{fill:#9DA7B3}
.limit{fill:#F7C24C}
.ours{fill:#4CA8E8}
.lossy{fill:#8FD3FA}
}
"""


@dataclass(frozen=True)
class Bar:
    value: float
    text: str
    """Behind the bar."""
    void: bool = False


@dataclass(frozen=True)
class Line:
    """A bar in each panel."""

    name: str
    kind: str
    """`other`, `limit`, `ours` or `lossy`: its colour."""
    bars: Sequence[Bar | None]
    """None: not measured."""


def bars(title: str, note: str, panels: Sequence[str], lines: Sequence[Line]) -> str:
    width = _LABELS + len(panels) * _PANEL + 10
    height = _TOP + len(lines) * (_BAR + _GAP) + _BOTTOM
    top = max((bar.value for line in lines for bar in line.bars if bar), default=1.0)
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%"/>',
        f'<text class="title" x="10" y="22">{escape(title)}</text>',
        f'<text class="note" x="10" y="40">{escape(note)}</text>',
    ]
    for at, panel in enumerate(panels):
        x = _LABELS + at * _PANEL
        made.append(f'<text x="{x}" y="{_TOP - 8}">{escape(panel)}</text>')
        made.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{_TOP - 3}" y2="{height - _BOTTOM + 3}"/>')
    for row, line in enumerate(lines):
        y = _TOP + row * (_BAR + _GAP) + _GAP // 2
        made.append(f'<text x="{_LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(line.name)}</text>')
        for at, bar in enumerate(line.bars):
            x = _LABELS + at * _PANEL
            if bar is None:
                made.append(f'<text class="note" x="{x + 6}" y="{y + 13}">–</text>')
                continue
            length = max(1.0, bar.value / top * (_PANEL - _NOTE))
            void = " void" if bar.void else ""
            made.append(f'<rect class="{line.kind}{void}" x="{x}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="2"/>')
            made.append(f'<text class="note" x="{x + length + 6:.1f}" y="{y + 13}">{escape(bar.text)}</text>')
    return "\n".join([*made, "</svg>", ""])
