"""The steps, in order: quick ones that fail often come first."""

import sys
from dataclasses import dataclass

from debs import PROGRAMS, TARGET

from . import ROOT

Command = list[str]

TARGET_S = 25 * 60
"""For all steps on two cores, from a fresh clone."""


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    stage: int
    """A stage starts only if nothing failed in the ones before."""
    budget_s: int
    """Of a run of all steps on two cores, in seconds. Above it the step fails. About two and a half times that of a quiet run; more for downloads and tools that a bare machine lacks."""
    commands: list[Command]
    limit_s: int = 1500
    """Also where nothing is built and the step runs alone: for hangs."""
    environment: tuple[tuple[str, str], ...] = ()
    beside: str = ""
    """It starts together with this earlier step, on the time that the steps leave idle; nothing else may depend on its speed."""


def _cargo(*arguments: str) -> Command:
    return ["cargo", arguments[0], "--quiet", "--locked", *arguments[1:]]


def _python(module: str, *arguments: str) -> Command:
    return [sys.executable, "-m", module, *arguments]


def _scripts() -> list[Command]:
    folder = ROOT / "scripts"
    files = [path for path in (*folder.rglob("*"), *(ROOT / "packaging").rglob("*.p*")) if path.is_file()] + [ROOT / ".ci" / "run"]
    shell = [str(path) for path in files if path.suffix == ".sh" or path.open("rb").read(2) == b"#!"]
    python = [str(path) for path in files if path.suffix == ".py"]
    # SC2187: busybox sh is checked as dash, which it resembles.
    return [["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--exclude=SC2187", *sorted(shell)], ["pyflakes3", *sorted(python)], _python("checks.bind_nics"), _python("checks.check_rnic"), _python("checks.options")]


def all_steps(is_long: bool = False, is_quick: bool = False) -> list[Step]:
    unit = [_python("checks.rust_tests", "quick")] if is_quick else [_python("checks.rust_tests", "pure"), _python("checks.rust_tests", "doc")]
    clippy = [*_cargo("clippy", "--workspace", "--all-targets"), "--", "-D", "warnings"]
    # A workspace of its own.
    fuzz = ["--manifest-path", "fuzz/Cargo.toml"]
    # Dependencies that are checked there need no second check.
    clippy_fuzz = [*_cargo("clippy", *fuzz, "--target-dir", str(TARGET), "--all-targets"), "--", "-D", "warnings"]
    programs = [part for name in (*PROGRAMS, "lr2-instructions") for part in ("--bin", name)]
    browser = [str(ROOT / "scripts" / "lib" / "browser.sh")]
    short = [] if is_long else ["--short"]
    warnings_are_errors = (("RUSTDOCFLAGS", "-D warnings"),)
    return [
        Step("rules", "unsafe code, file sizes, paths outside the tree", 1, 50, [_python("checks.rules")]),
        Step("scripts", "shellcheck, pyflakes, scripts/bind-nics on a tree that stands for /sys, and wrong options of the scripts", 1, 50, _scripts()),
        Step("fmt", "cargo fmt --check", 1, 50, [["cargo", "fmt", "--check"], ["cargo", "fmt", *fuzz, "--check"]]),
        Step("clippy", "cargo clippy on all targets, warnings are errors", 1, 260, [clippy, clippy_fuzz]),
        Step("docs", "rustdoc, warnings are errors", 1, 75, [_cargo("doc", "--workspace", "--no-deps")], environment=warnings_are_errors),
        Step("unit", "unit, property and doc tests of what needs no DPDK", 2, 1450, unit),
        Step("dissector", "wireshark/lr2.lua in tshark, on messages of our own encoders", 2, 50, [_python("checks.rust_tests", "dissector")]),
        Step("dpdk", "tests of what uses DPDK, on ports that need no NIC", 2, 390, [_python("checks.rust_tests", "dpdk")]),
        Step("fuzz", "scripts/fuzz in a short form: every parser, and sequences of operations", 2, 170, [_python("checks.fuzz", "--pinned")]),
        Step("deny", "licences, sources, duplicates, direction and use of dependencies", 2, 480, [_python("checks.deny", "--build"), _python("checks.deny")], beside="rules"),
        Step("prepare", "downloads: packages that single steps need, the guest of rdma-e2e, the bare system of packages", 2, 480, [[str(ROOT / "scripts" / "lib" / "prepare.sh")]], beside="rules"),
        # One build: with another selection of packages, dependencies have other features, and are compiled again.
        Step("build", "the programs, optimised", 3, 480, [_cargo("build", "--release", *programs)], beside="dpdk"),
        Step("commands", "the commands in README and docs/: programs, options, files and tests that they name, and those that are over at once", 3, 50, [_python("checks.commands")]),
        Step("packages", "scripts/package, and what it makes installed into a chroot of debootstrap", 3, 200, [_python("checks.packages")]),
        Step("session", "two boxes of the packages as a new user has them: traffic, loss, lr2ctl, capture, page, alerts, the usual mistakes, and a WAN that is cut", 3, 240, [browser, _python("checks.session")]),
        Step("instructions", "scripts/instructions: what each stage of a packet's way takes, against what is pinned", 3, 260, [_python("checks.instructions")], beside="packages"),
        Step("metrics", "a Prometheus scrapes gateways under traffic; alert rules and dashboard", 3, 120, [_python("checks.metrics")]),
        Step("page", "the page at / in Chromium, of gateways under traffic", 3, 90, [browser, _python("checks.page")]),
        Step("demo", "scripts/demo in a short form with loss on each segment, and its figures", 3, 280, [_python("checks.demo")]),
        Step("tcp", "a kernel's TCP through the tunnel at 1 % and 5 % loss, against its rate without loss and with boxes that do nothing; scripts/lab", 3, 160, [[str(ROOT / "scripts" / "lab")], _python("checks.tcp")]),
        Step("two-pairs", "scripts/two-pairs: boxes between ECMP routers restarted in turn", 3, 370, [[str(ROOT / "scripts" / "two-pairs"), *short]]),
        Step("bench", "scripts/bench for a moment: the traffic port, and the checks on what it counts", 3, 120, [_python("checks.bench")]),
        Step("rdma-e2e", "scripts/rdma-e2e: Soft-RoCE between two guests", 3, 900, [[str(ROOT / "scripts" / "rdma-e2e"), *short]]),
    ]


LONG = ("docs", "dissector", "dpdk", "fuzz", "deny", "prepare", "build", "commands", "packages", "session", "instructions", "metrics", "page", "demo", "tcp", "two-pairs", "bench", "rdma-e2e")
"""Steps that --quick leaves out. `unit` has fewer crates then."""
