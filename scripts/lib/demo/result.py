"""The result of a pass."""

from dataclasses import asdict, dataclass
from typing import Any

from . import forms
from .options import PLACES, TUNNELS, Scenario
from .topology import Reports

# The share of the link's capacity that the pass without loss and congestion has to reach.
LOSSLESS_SHARE = 0.95

_FEW_SAMPLES = 5

# Of which modes docs/protocol.md has the closed form, by where data is lost. RNICs
# alone don't care where; the gateways' forms are those of the long haul.
_RNICS_ALONE = ("off", "direct")
_FORMS_AT = {"wan": tuple(forms.BY_MODE), "src-lan": _RNICS_ALONE, "dst-lan": _RNICS_ALONE, "ack": ()}
# What congestion of a LAN may cost queue pairs.
_MAY_FAIL_IN_CONGESTION = (*_RNICS_ALONE, *TUNNELS)


@dataclass(frozen=True)
class Lost:
    """Frames that a segment lost, by direction: with the data, and with the responses."""

    there: int
    back: int


@dataclass(frozen=True)
class Result:
    mode: str
    spray: str | None
    """How the tunnel chose among its lanes; None: by its default, or there is none."""
    goodput_bps: float
    p50_us: float
    p99_us: float
    stall_us: float
    """Longest time between two packets that a queue pair took, within the measured part."""
    unarrived: int
    """Frames that the requester sent and the responder did not get."""
    moved: int
    """Frames that the tunnel sent again on other lanes, since theirs was silent."""
    emulator_gap_us: float
    """Longest time for which the emulator did not look for frames that had come, in the whole pass: it had no CPU, or had others to forward."""
    rtt_us: float
    """Mean, over packets that were sent once; with recovery, the wait for earlier lost packets included."""
    rtt_min_us: float
    rtt_samples: int
    ack_lag: float
    wan_bytes: int
    """Offered to the long-haul link in the data direction, before loss."""
    offered_requests: int
    """To the link that is to lose frames, and of these the ones it lost."""
    lost_requests: int
    completed: int
    received: int
    received_bytes: int
    unfinished: int
    corrupt_bytes: int
    clean: bool
    """Neither a QP failed nor anything happened that can't."""
    timeouts: int
    retransmitted: int
    lost: dict[str, Lost]
    """By segment."""
    to_destination: int
    """Frames that the gateway sent into the destination's LAN after the warm-up, and of these the packets that it
    resent from its backup."""
    local_resends: int
    local_resends_before: int
    """During the warm-up: a gateway does not know yet the capacity of that LAN."""

    @classmethod
    def of(cls, mode: str, spray: str | None, scenario: Scenario, reports: Reports) -> "Result":
        requester, responder = reports.requester["requester"], reports.responder["responder"]
        links = reports.wan["links"]
        lossy = links[scenario.lossy_link]["a_to_b"]
        rtt = requester["rtt_us"]
        return cls(
            mode=mode,
            spray=spray,
            goodput_bps=requester["steady"]["goodput_bps"],
            p50_us=requester["completion_us"]["p50"],
            p99_us=requester["completion_us"]["p99"],
            stall_us=responder["longest_stall_us"],
            unarrived=max(0, reports.requester["port"]["frames_out"] - reports.responder["port"]["frames_in"]),
            moved=sum(round(metrics.total("lr2_tunnel_moved_frames_total")) for metrics in reports.gateways.values()),
            emulator_gap_us=max(link["poll_gap_us"]["max"] or 0.0 for link in links.values()),
            rtt_us=rtt["mean"] or 0.0,
            rtt_min_us=rtt["min"] or 0.0,
            rtt_samples=rtt["samples"],
            ack_lag=responder["ack_lag_packets"],
            wan_bytes=links["wan"]["a_to_b"]["offered"]["bytes"],
            offered_requests=lossy["offered"]["request"]["frames"],
            lost_requests=lossy["lost"]["request"],
            completed=requester["completed"]["messages"],
            received=responder["received"]["messages"],
            received_bytes=responder["received"]["bytes"],
            unfinished=requester["failed"] + requester["pending"],
            corrupt_bytes=responder["corrupt_bytes"] + reports.requester["responder"]["corrupt_bytes"],
            clean=reports.requester["qps_failed"] == 0
            and reports.responder["qps_failed"] == 0
            and responder["refused"] == 0
            and requester["beyond_sent"] == 0
            and requester["unexpected"] == 0,
            timeouts=requester["timeouts"],
            retransmitted=requester["retransmitted"],
            lost=_lost(reports),
            to_destination=_far_side(reports, "lr2_transmitted_frames_total", side="lan")[1],
            local_resends=_far_side(reports, _RESENT)[1],
            local_resends_before=_far_side(reports, _RESENT)[0],
        )

    @property
    def title(self) -> str:
        return f"{self.mode} {self.spray}" if self.spray else self.mode

    def share_of(self, lossless: "Result") -> float:
        """Goodput, as a share of that without loss."""
        return _ratio(self.goodput_bps, lossless.goodput_bps)

    def wan_overhead(self, lossless: "Result") -> float:
        """Long-haul bytes per byte delivered, relative to no loss."""
        return _ratio(_ratio(self.wan_bytes, self.received_bytes), _ratio(lossless.wan_bytes, lossless.received_bytes))

    @property
    def local_resends_share(self) -> float:
        """Of the frames sent into the destination's LAN."""
        return _ratio(self.local_resends, self.to_destination)

    def expected_share(self, scenario: Scenario, lossless: "Result") -> float | None:
        """The closed form at the measured loss; None where none applies: it is for one flow that loses data."""
        if self.mode not in _FORMS_AT[scenario.where] or scenario.qps > 1 or scenario.lan_rate_bps or not self.offered_requests:
            return None
        per_s = scenario.nic_packets_per_s
        # Hardly a packet may have been sent just once and acknowledged.
        rtt_us = self.rtt_us if self.rtt_samples >= _FEW_SAMPLES else lossless.rtt_us
        # The losses of one burst make one gap.
        gaps = self.lost_requests / self.offered_requests / (scenario.burst or 1)
        at = forms.Circumstances(
            loss=gaps,
            window=rtt_us / 1e6 * per_s,
            timeout=scenario.timeout_s * per_s,
            ack_lag=self.ack_lag,
            exposure=(scenario.ack_every + 1) / 2,
        )
        return forms.BY_MODE[self.mode](at)

    def _lost_there(self, scenario: Scenario) -> int:
        """Frames lost where they should be: data, or responses on the way back."""
        return self.lost["wan"].back if scenario.where == "ack" else self.lost_requests

    def _failures(self) -> list[str]:
        found = []
        if self.unfinished:
            found.append(f"{self.unfinished} messages were not completed")
        if self.received != self.completed:
            found.append(f"{self.completed} messages completed, {self.received} arrived")
        if not self.clean:
            found.append("a queue pair failed or misbehaved")
        return found

    def _may_fail(self, scenario: Scenario) -> bool:
        """Congestion may use up the retries of RNICs alone: that is no fault of the demo."""
        return scenario.lan_rate_bps is not None and self.mode in _MAY_FAIL_IN_CONGESTION

    def remarks(self, scenario: Scenario) -> list[str]:
        """Failures that had to be expected."""
        return self._failures() if self._may_fail(scenario) else []

    def complaints(self, scenario: Scenario) -> list[str]:
        """Why this pass isn't as it should be."""
        found = [] if self._may_fail(scenario) else self._failures()
        if not self.received:
            found.append("no message arrived")
        if self.corrupt_bytes:
            found.append(f"{self.corrupt_bytes} bytes were corrupt")
        if self.mode != "lossless" and scenario.loss and not self._lost_there(scenario):
            found.append(f"{PLACES[scenario.where]} lost nothing: take more --seconds or a higher --loss")
        if self.mode in TUNNELS and scenario.kill and not self.moved:
            found.append("nothing was on the path when it died: give a later time, or more --seconds")
        if self.mode == "off" and scenario.lan_rate_bps and not self.lost["dst_lan"].there:
            found.append("the destination's LAN was not congested: it dropped nothing")
        return found

    def shortfall(self, scenario: Scenario) -> str | None:
        """Why the others can't be compared with this pass without loss: this machine did not keep up with the link."""
        share = self.goodput_bps / (scenario.carries_bps * scenario.left)
        if share >= LOSSLESS_SHARE:
            return None
        return f"only {share:.3f} of what the link can carry; {LOSSLESS_SHARE} are expected: this machine has too much to do for such a --rate"


# Frames that a gateway dropped at a port, and frames that it could not take from one in time.
_OUT = ("lr2_port_egress_dropped_frames_total",)
_IN = ("lr2_port_receive_dropped_frames_total", "lr2_port_missed_frames_total")


def _port_drops(reports: Reports, site: str, port: str, names: tuple[str, ...]) -> int:
    metrics = reports.gateways.get(site)
    return round(sum(metrics.total(name, port=port) for name in names)) if metrics else 0


_RESENT = "lr2_depot_local_resent_total"


def _far_side(reports: Reports, name: str, **labels: str) -> tuple[int, int]:
    """The counters of the gateway at the destination during the warm-up, and after it."""
    before, all_ = (
        metrics["b"].total(name, **labels) if "b" in metrics else 0.0 for metrics in (reports.warm, reports.gateways)
    )
    return round(before), round(all_ - before)


def _lost(reports: Reports) -> dict[str, Lost]:
    """By the links, and by the gateways at their ports, which should lose nothing."""

    def at(link: str, port: str, source_side: str, far_side: str) -> Lost:
        counted = reports.wan["links"].get(link)
        there, back = (counted[way]["lost"]["frames"] if counted else 0 for way in ("a_to_b", "b_to_a"))
        # With the data, a gateway sends into the segment on its source's side and receives from it on
        # the far side; a LAN has a gateway on one side only.
        return Lost(
            there + _port_drops(reports, source_side, port, _OUT) + _port_drops(reports, far_side, port, _IN),
            back + _port_drops(reports, far_side, port, _OUT) + _port_drops(reports, source_side, port, _IN),
        )

    return {"src_lan": at("src-lan", "lan", "", "a"), "wan": at("wan", "wan", "a", "b"), "dst_lan": at("dst-lan", "lan", "b", "")}


def as_json(scenario: Scenario, results: list[Result]) -> dict[str, Any]:
    lossless = results[0]
    return {
        "link": {
            "rate_bps": scenario.rate_bps,
            "rtt_us": scenario.rtt_s * 1e6,
            "loss": scenario.loss,
            "burst": scenario.burst,
            "where": scenario.where,
            "paths": scenario.paths,
            "kill": scenario.kill and {"path": scenario.kill.path, "after_s": scenario.kill.after_s},
            "stall_target_us": scenario.kill and scenario.stall_target_s * 1e6,
            "pmtu": scenario.pmtu,
            "carries_bps": scenario.carries_bps,
            "nic_rate_bps": scenario.nic_bps(),
            "lan_rate_bps": scenario.lan_rate_bps,
            "qps": scenario.qps,
            "dcqcn": scenario.dcqcn,
            "message_bytes": scenario.message,
            "operation": scenario.operation,
            "timeout_us": scenario.timeout_s * 1e6,
            "seconds": scenario.seconds,
            "seed": scenario.seed,
        },
        "passes": [_pass_json(scenario, lossless, result) for result in results],
    }


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _pass_json(scenario: Scenario, lossless: Result, result: Result) -> dict[str, Any]:
    return {
        "mode": result.mode,
        "spray": result.spray,
        "goodput_bps": result.goodput_bps,
        "share_of_lossless": result.share_of(lossless),
        "closed_form_share": result.expected_share(scenario, lossless),
        "p50_us": result.p50_us,
        "p99_us": result.p99_us,
        "longest_stall_us": result.stall_us,
        "unarrived_frames": result.unarrived,
        "moved_frames": result.moved,
        "emulator_gap_us": result.emulator_gap_us,
        "wan_overhead": result.wan_overhead(lossless),
        "rtt_us": result.rtt_us,
        "rtt_min_us": result.rtt_min_us,
        "ack_lag_packets": result.ack_lag,
        "messages": result.received,
        "bytes_verified": result.received_bytes,
        "corrupt": result.corrupt_bytes,
        "timeouts": result.timeouts,
        "retransmitted": result.retransmitted,
        "local_resends": result.local_resends,
        "local_resends_in_warm_up": result.local_resends_before,
        "local_resends_share": result.local_resends_share,
        # With the data; "ack": on the long haul's way back.
        "lost": {segment: lost.there for segment, lost in result.lost.items()} | {"ack": result.lost["wan"].back},
        "lost_by_direction": {segment: asdict(lost) for segment, lost in result.lost.items()},
        "complaints": result.complaints(scenario),
        "remarks": result.remarks(scenario),
    }
