"""lr2-check-rnic between the guests: what it says of Soft-RoCE."""

from collections.abc import Mapping

from check_rnic import CHECKS

from .bench import Bench, Failed
from .cases import Test, listens_tcp

# Longer than all checks of one kind of traffic take.
_TRAFFIC_S = 50
# By check, the verdict on Soft-RoCE, and words of what is to be observed.
EXPECTED: Mapping[str, tuple[str, str]] = {name: ("as expected", "") for name in CHECKS}


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
    for name, (verdict, words) in EXPECTED.items():
        check = checks[name]
        if check["verdict"] != verdict or words not in check["observed"]:
            problems.append(f"{name}: {check['verdict']} instead of {verdict}, {words!r}: {check['observed']}")
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
