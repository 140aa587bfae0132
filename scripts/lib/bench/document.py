"""The generated part of docs/performance.md, and its charts.

The text between the two marks of the page is replaced; the rest is written by people.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import chart
from .cases import ALL, CENTRE, ONE_EACH, PAYLOADS, TUNNEL, TUNNEL_RECEIVER, TUNNEL_SENDER, Dut, Traffic, count
from .report import extent_of, name_of

_ROOT = Path(os.environ.get("LR2_ROOT", Path(__file__).parents[3]))
_PAGE = _ROOT / "docs" / "performance.md"
_FOLDER = _ROOT / "docs" / "performance"
_BEGIN = "<!-- Measured. From here on scripts/bench --document writes. -->"
_END = "<!-- Up to here. -->"

Row = dict[str, Any]


def _figure(value: float | None, suffix: str = "") -> str:
    if value is None:
        return ""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text + suffix


def _percent(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)] + [""]


class _Figures:
    """The cases of a run, to be looked up."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.all: list[Row] = made["cases"]
        self.good = [row for row in self.all if "mpps" in row and not row["problems"] and row.get("records", True)]

    def of(self, traffic: Traffic, *, lossy: bool = False) -> list[Row]:
        return [
            row
            for row in self.good
            if not extent_of(row)
            and (row["payload"], row["flows"], row["in_flight"]) == (traffic.payload, traffic.flows, traffic.in_flight)
            and (row["loss"] > 0) == lossy
        ]

    def one(self, traffic: Traffic, dut: str, mode: str = "", *, lossy: bool = False) -> Row | None:
        return next((row for row in self.of(traffic, lossy=lossy) if (row["dut"], row["mode"]) == (dut, mode)), None)

    def alone(self, row: Row) -> Row | None:
        """The case with one of each, if that is another one."""
        same = ("dut", "mode", "payload", "flows", "in_flight", "loss", "udp")
        ones = (one for one in self.good if one["workers"] == one["ports"] == one["lanes"] == 1)
        return next((one for one in ones if one is not row and all(one[key] == row[key] for key in same)), None)

    def traffics(self) -> list[Traffic]:
        return list(dict.fromkeys(Traffic(row["payload"], row["flows"], row["in_flight"]) for row in self.all))


def _payload(payload: int) -> Traffic:
    return Traffic(payload, CENTRE.flows, CENTRE.in_flight)


def _programs(figures: _Figures) -> list[str]:
    head = ["payload", "program", "Mpps", "Gbit/s", "cycles", "its own", "headroom", "of macswap", "of Open vSwitch", "of `hold`", "spread"]
    keys = ("mpps", "gbps", "cycles_per_packet", "dut_cycles_per_packet", "headroom")
    ratios = ("ratio_to_macswap", "ratio_to_ovs", "ratio_to_hold", "spread")
    rows = [
        [str(payload), name_of(row) + (" (void)" if row["void"] else ""), *(_figure(row.get(key)) for key in (*keys, *ratios))]
        for payload in PAYLOADS
        for row in figures.of(_payload(payload))
    ]
    if not rows:
        return []
    title = f"{CENTRE.flows} flows, {count(CENTRE.in_flight)} frames in flight, an ACK for every {CENTRE.per_ack} packets of a flow:"
    return [title, "", *_table(head, rows)]


def _loss(figures: _Figures) -> list[str]:
    head = ["payload", "in flight", "program", "Mpps", "of none", "handled", "lost", "needless", "rewinds"]
    rows = [
        [
            str(row["payload"]), count(row["in_flight"]), f"{row['dut']} {row['mode']}", _figure(row["mpps"]), _figure(row["ratio_to_no_loss"]),
            _figure(row["handled_mpps"]), *(_percent(row[f"{what}_per_packet"]) for what in ("lost", "repeats", "rewinds")),
        ]  # fmt: skip
        for traffic in figures.traffics()
        for row in figures.of(traffic, lossy=True)
    ]  # fmt: skip
    if not rows:
        return []
    text = """With a loss of 1 % of the data packets on the long haul. Mpps is goodput: each packet once, and the
ACKs; *of none*: goodput over goodput without loss; *handled*: all frames that the program received. Per
delivered packet: packets *lost*; packets that crossed the long haul in vain (*needless*); *rewinds* of
sources."""
    return [*text.splitlines(), "", *_table(head, rows)]


_AXES = (("testpmd", "macswap"), ("ovs", ""), ("hold", ""), ("both", "off"), ("sentry", "lr2"), ("sentry", "cached"), ("depot", "lr2"), ("depot", "cached"))


def _axes(figures: _Figures) -> list[str]:
    centre = {_payload(payload) for payload in (64, 4096)}
    traffics = [traffic for traffic in figures.traffics() if traffic not in centre]
    if len(traffics) < 2:
        return []
    traffics.sort(key=lambda traffic: (traffic.payload, traffic.flows, traffic.in_flight))
    head = ["payload", "flows", "in flight", "per ACK", *(f"{dut} {mode}".strip().replace("testpmd ", "") for dut, mode in _AXES)]
    rows = []
    for traffic in traffics:
        cells = [str(traffic.payload), count(traffic.flows), count(traffic.in_flight), str(traffic.per_ack)]
        for dut, mode in _AXES:
            row = figures.one(traffic, dut, mode)
            cells.append("" if row is None else f"{_figure(row['mpps'])} · {_figure(row['dut_cycles_per_packet'])}")
        rows.append(cells)
    text = """Flows and frames in flight: Mpps · own cycles per packet. If each flow has one packet in
flight, each packet has an ACK, so half of the packets are ACKs."""
    return [*text.splitlines(), "", *_table(head, rows)]


def _own_of_hold(figures: _Figures, traffic: Traffic, dut: Dut) -> float | None:
    """Own cycles of a tunnel over those of `hold`."""
    row, hold = figures.one(traffic, dut.name, dut.mode), figures.one(traffic, "hold")
    return row["dut_cycles_per_packet"] / hold["dut_cycles_per_packet"] if row and hold else None


def _tunnel(figures: _Figures) -> list[str]:
    rows = []
    for traffic in sorted(figures.traffics(), key=lambda traffic: (traffic.payload, traffic.flows, traffic.in_flight)):
        cells = [str(traffic.payload), count(traffic.flows), count(traffic.in_flight), str(traffic.per_ack)]
        hold = figures.one(traffic, "hold")
        cells.append(_figure(hold and hold["dut_cycles_per_packet"]))
        found = False
        for dut in TUNNEL:
            row = figures.one(traffic, dut.name, dut.mode)
            found |= row is not None
            of_hold = _figure(_own_of_hold(figures, traffic, dut), " ×")
            cells.append("" if row is None else " · ".join(filter(None, [_figure(row["mpps"]), _figure(row["dut_cycles_per_packet"]), of_hold])))
        if found:
            rows.append(cells)
    if not rows:
        return []
    head = ["payload", "flows", "in flight", "per ACK", "`hold`", *(dut.mode for dut in TUNNEL)]
    text = """A tunnel over Ethernet: Mpps · own cycles per packet · ratio to the own cycles of `hold`."""
    return [text, "", *_table(head, rows)]


def _several(figures: _Figures) -> list[str]:
    """Cases with more than one of something, beside those with one of each."""
    cells = []
    for row in figures.good:
        one = extent_of(row) and figures.alone(row)
        if not one:
            continue
        traffic = [str(row["payload"]), str(row["flows"]), count(row["in_flight"])]
        each = [_figure(found[key]) for found in (one, row) for key in ("mpps", "dut_cycles_per_packet")]
        cells.append([name_of(row), *traffic, *each, _figure(row["mpps"] / one["mpps"]), _figure(row["dut_cycles_per_packet"] / one["dut_cycles_per_packet"])])
    if not cells:
        return []
    head = ["program", "payload", "flows", "in flight", "one: Mpps", "its own", "several: Mpps", "its own", "Mpps / one", "its own / one"]
    text = """Several workers, each with a queue of each port and with the traffic of the one: twice the flows and frames in flight for two. And
several lanes and WAN ports, beside one of the same encapsulation; and a tunnel that repairs LANs, beside one with `lan = "off"`."""
    return [*text.splitlines(), "", *_table(head, cells)]


def _idle(made: dict[str, Any]) -> list[str]:
    rows = [row for row in made.get("idle", []) if "core_share" in row and not row["problems"]]
    if not rows:
        return []
    head = ["worker", "a packet every", "of a core", "mean", "half within", "99 % within"]
    cells = []
    for row in rows:
        within = [f"{row[key]} µs" if row.get(key) else "" for key in ("latency_us_half_within", "latency_us_99_percent_within")]
        mean = f"{row['latency_us_mean']:.1f} µs" if "latency_us_mean" in row else ""
        pause = f"{row['pause_us'] / 1000:.0f} ms" if row["pause_us"] else "never"
        cells.append([f"{row['dut']} {row['mode']}, `{row['idle']}`", pause, _percent(row["core_share"]), mean, *within])
    text = """An idle worker: its thread's processor time over time, and the latency of a packet that ends the
idleness, from port to port."""
    return [*text.splitlines(), "", *_table(head, cells)]


def _rings(made: dict[str, Any]) -> list[str]:
    rows = [row for row in made.get("rings", []) if "cycles" in row and not row["problems"]]
    if not rows:
        return []
    head = ["program", "workers", "handed off", "own cycles of each", "enqueue", "dequeue"]
    cells = [
        [
            f"{row['dut']} {row['mode']}", str(row["workers"]), _percent(row["handoff"], 0), " + ".join(f"{c:.0f}" for c in row["cycles"]),
            *(_figure(row.get(key)) for key in ("enqueue", "dequeue")),
        ]  # fmt: skip
        for row in rows
    ]  # fmt: skip
    text = """Rings between workers: a worker that receives a packet of another worker's flow passes the packet to that worker over a ring. Own cycles per packet:
*enqueue* is the first worker's cost per packet handed off, *dequeue* the second worker's extra cost per such
packet, compared with a single worker."""
    return [*text.splitlines(), "", *_table(head, cells)]


def _span(values: Iterable[float | None], form: Callable[[float], str] = _figure) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return "not measured"
    low, high = form(known[0]), form(known[-1])
    return low if low == high else f"{low} to {high}"


def _targets(figures: _Figures, made: dict[str, Any]) -> list[str]:
    def values(key: str, traffics: Iterable[Traffic], duts: Iterable[tuple[str, str]], *, lossy: bool = False) -> Iterator[float | None]:
        rows = (figures.one(traffic, *dut, lossy=lossy) for traffic in traffics for dut in duts)
        return (row.get(key) for row in rows if row)

    def each(key: str, traffic: Traffic, duts: Iterable[tuple[str, str]], *, lossy: bool = False) -> str:
        rows = (figures.one(traffic, *dut, lossy=lossy) for dut in duts)
        return ", ".join(_figure(row[key]) if row else "not measured" for row in rows)

    def own(traffic: Traffic, duts: Iterable[tuple[str, str]], *, lossy: bool = False) -> str:
        return each("dut_cycles_per_packet", traffic, duts, lossy=lossy)

    cached = (("sentry", "cached"), ("depot", "cached"))
    sparse = [
        (name, Traffic(CENTRE.payload, flows, CENTRE.in_flight), limits)
        for name, flows, limits in (("4 k", 1 << 12, (260, 250)), ("64 k", 1 << 16, (380, 340)), ("1 M", 1 << 20, (550, 480)))
    ]
    one_way = (TUNNEL_SENDER, TUNNEL_RECEIVER)
    million = Traffic(CENTRE.payload, 1 << 20, CENTRE.in_flight)

    def own_growth() -> Iterator[float]:
        for dut in TUNNEL:
            few, many = (figures.one(traffic, dut.name, dut.mode) for traffic in (ONE_EACH, million))
            if few and many:
                yield many["dut_cycles_per_packet"] / few["dut_cycles_per_packet"]

    payloads = [_payload(payload) for payload in PAYLOADS]
    with_loss = [figures.one(CENTRE, dut.name, dut.mode, lossy=True) for dut in one_way]
    silent = [row["core_share"] for row in made.get("idle", []) if row["idle"] == "adaptive" and not row["pause_us"] and "core_share" in row]
    rows = [
        ["`off`: own cycles ≤ 70", own(CENTRE, [("both", "off")])],
        ["`lr2`, 64 flows, Sentry and Depot: ≤ 150", own(CENTRE, (("sentry", "lr2"), ("depot", "lr2")))],
        ["`cached`, 64 flows: Sentry ≤ 190, Depot ≤ 190", own(CENTRE, cached)],
        ["the same with 1 % loss: Sentry ≤ 230, Depot ≤ 270", own(CENTRE, cached, lossy=True)],
        *([f"`cached`, {name} flows: Sentry ≤ {limits[0]}, Depot ≤ {limits[1]}", own(traffic, cached)] for name, traffic, limits in sparse),
        ["1 % loss, goodput of none: Sentry ≥ 0.85, Depot ≥ 0.75", each("ratio_to_no_loss", CENTRE, cached, lossy=True)],
        *(
            [f"{dut}, {CENTRE}: own cycles ≤ {limit} × `hold`'s", _span([_own_of_hold(figures, CENTRE, dut)])]
            for dut, limit in ((TUNNEL_SENDER, 2.2), (TUNNEL_RECEIVER, 1.8))
        ),
        ["tunnel, a million flows: ≤ 1.25 × the own cycles of 64 (with an ACK each)", _span(own_growth())],
        ["1 % loss, tunnel sender, receiver: ≥ 0.85 of none", ", ".join(_figure(row["ratio_to_no_loss"]) for row in with_loss if row) or "not measured"],
        ["tunnel sender, 64, 1024 and 4096 B: ≥ 1.0 × Open vSwitch", _span(values("ratio_to_ovs", payloads, [("tunnel", "sender")]))],
        ["tunnel, 2 workers on 2 cores with two queues: ≥ 1.8 × one", _span(row["ratio_to_one"] for row in figures.good if row.get("workers", 1) > 1 and row["dut"] == "tunnel")],
        [
            "tunnel over UDP, 8 lanes on a port: ≤ 1.15 × the own cycles of one",
            _span(row["own_ratio_to_one"] for row in figures.good if (row.get("lanes"), row.get("ports")) == (8, 1)),
        ],
        ["a worker with no traffic, `adaptive`: < 3 % of a core", _span(silent, _percent)],
    ]
    return _table(["target", "measured"], rows)


def _machine(made: dict[str, Any]) -> list[str]:
    missing = "".join(f" Left out: {name}, {why}." for name, why in made.get("left_out", {}).items())
    failed = sum(1 for part in ("cases", "idle", "rings") for row in made.get(part, []) if row["problems"])
    failed_text = f" {failed} cases that were out of order are not shown." if failed else ""
    clock = _span(row.get("clock") for row in made["cases"])
    clock_text = "" if clock == "not measured" else f" The core's clock was {clock} times the time stamp counter's, whose ticks the cycles are."
    return [
        f"`{made['command']}`, medians of up to {made['rounds']} rounds of {made['seconds']:g} s, on {made['machine']}.{clock_text}{missing}{failed_text}",
        "",
    ]


_KINDS = {"hold": "limit", "sentry": "ours", "depot": "ours", "both": "ours", "tunnel": "ours"}


def _line(figures: _Figures, traffics: Sequence[Traffic], row: Row) -> chart.Line:
    bars: list[chart.Bar | None] = []
    for traffic in traffics:
        found = figures.one(traffic, row["dut"], row["mode"], lossy=row["loss"] > 0)
        ratio = found and found["ratio_to_macswap"]
        text = "" if found is None else _figure(found["mpps"]) + (f"  ({ratio:.2f})" if ratio is not None else "") + (" void" if found["void"] else "")
        bars.append(chart.Bar(found["mpps"], text, found["void"]) if found else None)
    kind = "lossy" if row["loss"] else _KINDS.get(row["dut"], "other")
    return chart.Line(name_of(row), kind, bars)


_ORDER = {(dut.name, dut.mode): at for at, dut in enumerate(ALL)}


def _chart(figures: _Figures, traffics: Sequence[Traffic], title: str, panels: Sequence[str], *, loss: bool) -> str | None:
    traffics_there = [traffic for traffic in traffics if figures.of(traffic)]
    if not traffics_there:
        return None
    panels = [panel for traffic, panel in zip(traffics, panels, strict=True) if traffic in traffics_there]
    rows = {name_of(row): row for lossy in (False, *[True] * loss) for traffic in traffics_there for row in figures.of(traffic, lossy=lossy)}
    ordered = sorted(rows.values(), key=lambda row: (row["loss"], _ORDER[row["dut"], row["mode"]]))
    lines = [_line(figures, traffics_there, row) for row in ordered]
    return chart.bars(title, "Million packets in a second on one core; in brackets, of testpmd macswap. Void: as fast as the port", panels, lines)


def _charts(figures: _Figures) -> dict[str, tuple[str, str]]:
    """By name of the file: the caption, and the chart."""
    payloads = [_payload(payload) for payload in PAYLOADS]
    flows = [ONE_EACH, *(Traffic(CENTRE.payload, flows, CENTRE.in_flight) for flows in (1 << 12, 1 << 16, 1 << 20))]
    wanted = {
        "programs.svg": (f"Frame sizes: {CENTRE.flows} flows, {count(CENTRE.in_flight)} in flight", payloads, [f"{p} B" for p in PAYLOADS]),
        "flows.svg": (f"Flows: {CENTRE.payload} B, an ACK for each packet", flows, [f"{count(t.flows)} flows" for t in flows]),
    }
    made = {}
    for name, (title, traffics, panels) in wanted.items():
        if svg := _chart(figures, traffics, title, panels, loss=name == "programs.svg"):
            made[name] = (title, svg)
    return made


def render(made: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The part of the page, and the charts by the names of their files; missing measurements are left out."""
    figures = _Figures(made)
    charts = _charts(figures)
    shown = [line for name, (title, _) in charts.items() for line in (f"![{title}](performance/{name})", "")]
    parts = [_machine(made), _targets(figures, made), shown, _programs(figures), _loss(figures), _axes(figures), _tunnel(figures), _several(figures), _idle(made), _rings(made)]
    body = "\n".join(line for part in parts for line in part).strip()
    return body, {name: svg for name, (_, svg) in charts.items()}


def write(made: dict[str, Any]) -> None:
    """Puts page and charts into their places."""
    body, charts = render(made)
    before, rest = _PAGE.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    _FOLDER.mkdir(exist_ok=True)
    for name, svg in charts.items():
        (_FOLDER / name).write_text(svg)
    _PAGE.write_text(f"{before}{_BEGIN}\n\n{body}\n\n{_END}{after}")
