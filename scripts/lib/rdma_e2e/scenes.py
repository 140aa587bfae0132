"""The tests, and the network of each. The guests boot once; from scene to scene the rest is started anew."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .applications import nfs, nvme, preloaded
from .cases import PING, PLAIN, Case, atomic, atomics_counted, datagrams, perftest, rping, send_checked, tcp, write_checked
from .link import Setting
from .lives import killed, reused, silenced
from .trial import tried


Losses = tuple[tuple[tuple[str, float], ...], float | None]
"""By segment, and how long bursts are."""


@dataclass(frozen=True)
class Scene:
    """Tests in their surroundings."""

    setting: Setting
    cases: Sequence[Case]

    @property
    def losses(self) -> Losses:
        return tuple(sorted(self.setting.loss.items())), self.setting.burst

    def named(self, suffix: str, **changes: Any) -> "Scene":
        """The same cases in a setting with another name, and with `changes`."""
        return Scene(replace(self.setting, name=f"{self.setting.name}-{suffix}", **changes), self.cases)


def _case(name: str, iterations: int = 150) -> Case:
    """One of the usual tests, at a length of its own where an iteration takes long."""
    match name:
        case "write":
            return Case(name, perftest(name, iterations), repaired_inside=True)
        case "write-16-qps" | "send-16-qps":
            # Two thousand packets at a time are more than an emulated guest takes in time, or
            # its ring holds: losses there are beyond the gateways.
            return Case(name, perftest(name.split("-")[0], max(5, iterations // 15), qps=16), overloads=True)
        case "write-checked":
            return Case(name, write_checked(iterations // 25), repaired_inside=True)
        case "send-checked":
            return Case(name, send_checked(iterations // 2), repaired_inside=True)
        case "read":
            return Case(name, perftest(name, iterations // 3), reads=True)
        case "fetch-and-add" | "compare-and-swap":
            return Case(name, atomic({"f": "FETCH_AND_ADD", "c": "CMP_AND_SWAP"}[name[0]], iterations * 2))
        case "atomics-counted":
            return Case(name, atomics_counted(iterations * 2))
        case "rping":
            return Case(name, rping(iterations // 5))
    raise AssertionError(name)


# Of 4 x 128 packets each way at a time the guests' rings lose some, as with 16 queue pairs one way.
_SEND_BOTH_WAYS = Case("send-both-ways-4-qps", perftest("send", 20, qps=4, more="-b"), timed=True, overloads=True)

# 32 x 128 packets each way at a time: a guest takes them slowly, and a slow guest is no lossy LAN.
_SEND_BOTH_WAYS_MANY = Case("send-both-ways-32-qps", perftest("send", 5, qps=32, more="-b"), timed=True, overloads=True)

# Without a tunnel it would end at the first loss.
_DATAGRAMS = Case("ud", datagrams(100))
# The link loses a dozen of its segments at 5 %, some at 1 %, and the tunnel resends them.
_TCP_WITHOUT_LOSS = Case("tcp", tcp(most_resent=3), rdma=False)

_KILL_FAR_SIDE = Case("kill-far-side", killed("b"), repaired_inside=True, restarts=True)

_USUAL = ("write", "write-checked", "send-checked", "read", "atomics-counted", "rping")


# With recovery off each costs its time once more.
_TIMED = ("write", "send-checked")


def _cases(*names: str, iterations: int = 150, timed: Sequence[str] = (), only_long: Sequence[str] = ()) -> list[Case]:
    return [replace(_case(name, iterations), timed=name in timed, only_long=name in only_long) for name in names]


SCENES = [
    Scene(Setting("lr2", "lr2", {"wan": 0.01}, most_given_up=0.5), [*PLAIN, *_cases(*_USUAL, "fetch-and-add", "write-16-qps", timed=_TIMED, only_long=("write-checked", "rping", "fetch-and-add", "write-16-qps"))]),
    Scene(Setting("cached", "cached", {"wan": 0.01}), _cases(*_USUAL, "compare-and-swap", "send-16-qps", timed=(*_TIMED, "read"), only_long=("rping", "write-checked", "compare-and-swap"))),
    Scene(
        # 0 in 13 of 14 runs, 2 of 55 in one.
        Setting("heavy", "auto", {"wan": 0.05}, most_given_up=0.2),
        [
            *_cases("write", "write-checked", "send-checked", "read", "atomics-counted", iterations=75, timed=("read",), only_long=("send-checked", "atomics-counted")),
            # Without recovery it takes seconds; the longer ones take a minute.
            Case("write-short", perftest("write", 20), timed=True),
        ],
    ),
    Scene(
        Setting("bursts", "auto", {"wan": 0.02}, burst=4),
        [
            # Long enough that plain RNICs run into timeouts.
            *_cases("write-checked", iterations=250, timed=("write-checked",)),
            *_cases("send-checked", "atomics-counted", iterations=100, only_long=("atomics-counted",)),
            # Few bursts fall among few responses.
            *_cases("read", iterations=300, only_long=("read",)),
        ],
    ),
    Scene(
        # The Sentry has no copy of a packet that was lost before it: only the source can fill that gap.
        Setting("lans", "auto", {"src-lan": 0.01, "wan": 0.01, "dst-lan": 0.01}, most_given_up=1.0),
        [
            *_cases("write", "write-checked", iterations=50, timed=("write-checked",), only_long=("write",)),
            Case("send-checked", send_checked(25, tries=3), repaired_inside=True),
            # The first 16 are asked for at once, before the path MTU is known: nothing holds their responses.
            *_cases("read", iterations=300),
            *_cases("atomics-counted", "rping", "write-16-qps", iterations=50, only_long=("atomics-counted", "rping", "write-16-qps")),
            replace(_SEND_BOTH_WAYS, only_long=True),
        ],
    ),
    Scene(
        Setting("applications", "auto", {"wan": 0.01}),
        [
            Case("nvme", nvme(1), timed=True),
            # Without recovery it takes minutes: rdma_cm has its queue pairs wait for seconds.
            Case("nfs", nfs(2)),
            Case("rcopy", write_checked(4), repaired_inside=True, timed=True, only_long=True),
            Case("rsocket-preloaded", preloaded(2)),
            _SEND_BOTH_WAYS_MANY,
            replace(_SEND_BOTH_WAYS, only_long=True),
            Case("read-16-at-a-time", perftest("read", 120, more="-o 16"), timed=True),
            Case("send-srq", perftest("send", 30, qps=4, more="--use-srq"), timed=True),
            Case("write-mtu-256", perftest("write", 100, size=8192, mtu=256), timed=True, only_long=True),
        ],
    ),
    Scene(Setting("slow-guests", "auto"), [_SEND_BOTH_WAYS_MANY]),
    Scene(
        Setting("tunnel", "tunnel", {"wan": 0.01}),
        [
            PING,
            _TCP_WITHOUT_LOSS,
            _DATAGRAMS,
            *_cases(*_USUAL, timed=_TIMED, only_long=("write-checked", "rping")),
            _KILL_FAR_SIDE,
        ],
    ),
    Scene(
        Setting("tunnel-heavy", "tunnel", {"wan": 0.05}),
        [
            replace(_TCP_WITHOUT_LOSS, only_long=True),
            replace(_DATAGRAMS, only_long=True),
            *_cases("write-checked", "send-checked", "read", "atomics-counted", iterations=75, timed=("read",), only_long=("send-checked", "atomics-counted")),
            replace(_KILL_FAR_SIDE, only_long=True),
        ],
    ),
    Scene(
        Setting("tunnel-lans", "tunnel", {"src-lan": 0.01, "wan": 0.01, "dst-lan": 0.01}, most_given_up=1.0),
        _cases("write-checked", iterations=75, timed=("write-checked",)),
    ),
    Scene(
        Setting("tunnel-udp", "tunnel", {"wan": 0.01}, tunnel="udp"),
        [
            PING,
            _TCP_WITHOUT_LOSS,
            _DATAGRAMS,
            *_cases("write-checked", "send-checked", "read", "atomics-counted", "rping", iterations=100, only_long=("write-checked", "read", "atomics-counted")),
            replace(_KILL_FAR_SIDE, only_long=True),
        ],
    ),
    Scene(
        Setting("tunnel-udp-heavy", "tunnel", {"wan": 0.05}, tunnel="udp-v6"),
        [
            _TCP_WITHOUT_LOSS,
            _DATAGRAMS,
            *_cases("write-checked", "send-checked", "read", "atomics-counted", "rping", iterations=75, only_long=("send-checked", "atomics-counted", "rping")),
            replace(_KILL_FAR_SIDE, only_long=True),
        ],
    ),
    Scene(
        # One more program on the same CPUs makes every round trip longer, by a fifth without any loss: the comparison in time is
        # where that does not decide.
        Setting("tunnel-paths", "tunnel", {"wan": 0.05}, paths=2),
        [
            *_cases("write-checked", "read", iterations=75, timed=("read",)),
            Case("silent-path", silenced(1, 2.0), repaired_inside=True),
        ],
    ),
    Scene(
        Setting("lives", "auto", {"wan": 0.01}),
        [
            Case("kill-source-side", killed("a"), repaired_inside=True, restarts=True, only_long=True),
            replace(_KILL_FAR_SIDE, only_long=True),
            Case("kill-both", killed("a", "b"), repaired_inside=True, restarts=True),
            Case("same-qp-again", reused(3), repaired_inside=True, restarts=True),
        ],
    ),
    # What it does to them makes the guests count errors.
    Scene(Setting("rnic", "off", tries_rnics=True), [Case("check-rnic", tried(), rdma=False)]),
]

NAMES = list(dict.fromkeys(case.name for scene in SCENES for case in scene.cases))
