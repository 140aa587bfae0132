"""Wrong options of the scripts, before they install or build anything: `python3 -m checks.options`, in scripts/test."""

import subprocess
import sys

# Module, its options, and a part of the last line of the error.
_REFUSED = (
    ("demo", "--loss 2", "give a share"),
    ("demo", "--json /nowhere/x", "there is no folder /nowhere"),
    ("demo", "--paths 4 --spray frob", "the policies are earliest"),
    ("demo", "--spray all", "--spray is for a tunnel with several --paths"),
    ("demo", "--paths 4 --mode off --spray reps", "--spray is for a tunnel with several --paths"),
    ("bench", "--rounds 0", "at least 1"),
    ("bench", "--payload 10", "nothing is measured"),
    ("bench", "--flows 0", "nothing is measured"),
    ("bench", "--json /nowhere/x", "there is no folder /nowhere"),
    ("bench", "--json /", "it is a folder"),
    ("rdma_e2e", "--loss 9", "give a share"),
    ("rdma_e2e", "--rate fast", "give a rate such as 1Gbps"),
    ("rdma_e2e", "--delay 10", "give a time such as 10ms"),
    ("rdma_e2e", "--seed -1", "give a number of 0 or more"),
    ("rdma_e2e", "--json /nowhere/x", "there is no folder /nowhere"),
    ("rdma_e2e", "--scene rnic --only nvme", "no test nvme in rnic"),
    ("two_pairs", "--rate fast", "give a rate such as 1Gbps"),
    ("two_pairs", "--rtt 10", "give a time such as 10ms"),
    ("two_pairs", "--loss 2", "give a share"),
    ("two_pairs", "--qps 0", "give a number greater than 0"),
    ("checks.instructions", "--renew sentry", "give none"),
    ("checks.instructions", "sentry frob", "no case contains frob"),
    ("checks.fuzz", "frob", "no target frob"),
    ("checks", "frob", "no step frob"),
    ("debs", "frob", "unrecognized arguments"),
)
_TAKEN = (
    ("demo", "--paths 4 --mode tunnel,tunnel-udp --spray reps,earliest"),
    ("rdma_e2e", "--loss 5% --rate 10Gbps --delay 0ms --seed 0"),
    ("two_pairs", "--loss 0 --rate 40Mbps --rtt 5ms --qps 1"),
    ("bench", "--payload 1024 --flows 64 --loss 0.05"),
    ("checks.instructions", "sentry depot"),
)


def _run(module: str, options: str) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, "-m", module, "--check", *options.split()], capture_output=True, text=True, check=False)
    return ended.returncode, (ended.stderr or ended.stdout).strip()


def main() -> int:
    problems = []
    for module in sorted({module for module, *_ in _REFUSED}):
        # Exit code 2 is for a wrong option, and for a machine that lacks something (lr2_die in setup.sh).
        code, said = _run(module, "--help")
        if code != 0 or "2 could not run" not in " ".join(said.split()):
            problems.append(f"{module} --help: exit code {code}, and nothing of 2 could not run")
    for module, options, part in _REFUSED:
        code, said = _run(module, options)
        if code != 2 or part not in said.rpartition("\n")[2]:
            problems.append(f"{module} {options}: exit code {code}, {said!r} instead of {part!r} in the last line")
    for module, options in _TAKEN:
        code, said = _run(module, options)
        if code != 0:
            problems.append(f"{module} {options}: exit code {code}, {said!r}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
