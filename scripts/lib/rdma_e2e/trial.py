"""lr2-check-rnic between the guests: what it says of Soft-RoCE."""

from collections.abc import Mapping

from check_rnic import CHECKS

from .bench import Bench, Failed
from .cases import Test, listens_tcp

# Longer than all checks of one kind of traffic take.
_TRAFFIC_S = 50
# All verdicts on Soft-RoCE are "as expected"; by check, what is to be observed besides. The number of ICMP packets, and all
# times, are the guests' own.
_CALM = ("no NAK, and nothing sent again",)
OBSERVED: Mapping[str, tuple[str, ...]] = {
    "baseline": ("path MTU 4096", "packets per AckReq: 16;", "no limit of credits", "the same UDP source port both ways", "UDP checksum zero"),
    "gap": ("1 NAK ", "the responder discards what is behind a gap"),
    "nak": ("the requester went back", "ours differs from the responder's own in IP identification"),
    "second-nak": ("a second NAK of the same PSN before an ACK was ignored",),
    "ack": (*_CALM, "ours differ from the responder's own in IP identification"),
    "held": _CALM,
    "duplicate": ("an ACK came", *_CALM),
    "ack-request": ("an ACK of it came", *_CALM),
    "swallowed-acks": _CALM,
    "old-ack": _CALM,
    "control": (*_CALM, "no ICMP"),
    "tunnel": _CALM,
    "cnp": _CALM,
    "timeout": ("once more", "with the next response it went on"),
    "control-among-reads": (*_CALM, "no ICMP"),
    "read-response": ("from the lost packet on", "answered from RC READ_RESPONSE_MIDDLE on"),
    "atomic-response": ("not executed twice",),
    "alive": ("with 0 NAKs",),
}


def tried() -> Test:
    """Traffic of each kind in turn, as long as it is asked for; then the verdicts."""
    return _tried


def _tried(bench: Bench) -> str:
    trial = bench.link.trial
    if trial is None:
        raise Failed("no lr2-check-rnic is the wire")
    for command, until in (
        ("ib_write_bw -s 65536", '"traffic":"reads"'),
        ("ib_read_bw -s 65536", '"traffic":"atomics"'),
        ("ib_atomic_bw -A FETCH_AND_ADD", '"event":"done"'),
    ):
        _traffic(bench, command, until)
    checks = {check["name"]: check for check in trial.report()["checks"]}
    if tuple(checks) != CHECKS:
        raise Failed(f"checks {', '.join(checks)} instead of {', '.join(CHECKS)}")
    problems = []
    for name, check in checks.items():
        lacking = [words for words in OBSERVED[name] if words not in check["observed"]]
        if check["verdict"] != "as expected" or lacking:
            problems.append(f"{name}: {check['verdict']}, lacks {lacking}: {check['observed']}")
    if problems:
        raise Failed("\n".join(problems))
    return f"{len(checks)} checks, their verdicts as they are known of Soft-RoCE"


def _traffic(bench: Bench, command: str, until: str) -> None:
    """One queue pair of perftest, until lr2-check-rnic has said `until`."""
    assert bench.link.trial
    trial = bench.link.trial
    program = command.split()[0]
    # It has far more to do than there is time for.
    common = f"{command} -d rxe0 -F -u 18 -m 4096 -n 1000000"

    def meanwhile() -> None:
        try:
            trial.wait(until, _TRAFFIC_S)
        finally:
            bench.client.run(f"killall {program}", 10)

    bench.pair(
        f"{common} -x {bench.gid(bench.server)}",
        f"{common} -x {bench.gid(bench.client)} {bench.server.ip}",
        listens_tcp(18515),
        serves_on=True,
        meanwhile=meanwhile,
        may_fail=True,
    )
