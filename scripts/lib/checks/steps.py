"""The steps, in order: quick ones that fail often come first."""

import shutil
import sys
from dataclasses import dataclass

from debs import PROGRAMS

from . import ROOT

# Crates that build and run on a machine without DPDK, and the others.
_PURE = ("api", "common", "ctl", "manual", "settings", "sentry", "depot", "rnic", "link", "switch", "tunnel", "datapath", "analysis", "simulator", "tests", "benches")
_DPDK = ("dpdk-sys-wrapper", "gateway", "testbed")

Command = list[str]


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    stage: int
    """A stage starts only if nothing failed in the ones before."""
    limit_s: int
    """Well beyond its time on two cores with nothing built: for hangs."""
    commands: list[Command]
    environment: tuple[tuple[str, str], ...] = ()
    beside: str = ""
    """It starts together with this earlier step, on the time that the steps leave idle; nothing else may depend on its speed."""


def _packages(names: tuple[str, ...]) -> Command:
    return [part for name in names for part in ("-p", name)]


def _cargo(*arguments: str) -> Command:
    return ["cargo", arguments[0], "--quiet", "--locked", *arguments[1:]]


def _python(module: str, *arguments: str) -> Command:
    return [sys.executable, "-m", module, *arguments]


def _unit() -> list[Command]:
    pure = _packages(_PURE)
    if shutil.which("cargo-nextest"):
        # It runs no doc tests.
        run = ["cargo", "nextest", "run", "--locked", "--status-level=fail", "--final-status-level=slow", *pure]
        return [run, _cargo("test", "--doc", *pure)]
    return [_cargo("test", *pure)]


def _dissector() -> Command:
    return _cargo("test", "-p", "analysis", "--features", "tshark", "--test", "dissector")


def _scripts() -> list[Command]:
    folder = ROOT / "scripts"
    files = [path for path in (*folder.rglob("*"), *(ROOT / "packaging").rglob("*.p*")) if path.is_file()] + [ROOT / ".ci" / "run"]
    shell = [str(path) for path in files if path.suffix == ".sh" or path.open("rb").read(2) == b"#!"]
    python = [str(path) for path in files if path.suffix == ".py"]
    # SC2187: busybox sh is checked as dash, which it resembles.
    return [["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--exclude=SC2187", *sorted(shell)], ["pyflakes3", *sorted(python)], _python("checks.bind_nics"), _python("checks.check_rnic"), _python("checks.options")]


def all_steps() -> list[Step]:
    clippy = [*_cargo("clippy", "--workspace", "--all-targets"), "--", "-D", "warnings"]
    # A workspace of its own.
    fuzz = ["--manifest-path", "fuzz/Cargo.toml"]
    clippy_fuzz = [*_cargo("clippy", *fuzz, "--all-targets"), "--", "-D", "warnings"]
    programs = [part for name in PROGRAMS for part in ("--bin", name)]
    browser = [str(ROOT / "scripts" / "lib" / "browser.sh")]
    warnings_are_errors = (("RUSTDOCFLAGS", "-D warnings"),)
    return [
        Step("rules", "unsafe code, file sizes, paths outside the tree", 1, 30, [_python("checks.rules")]),
        Step("scripts", "shellcheck, pyflakes, scripts/bind-nics on a tree that stands for /sys, and wrong options of the scripts", 1, 60, _scripts()),
        Step("fmt", "cargo fmt --check", 1, 60, [["cargo", "fmt", "--check"], ["cargo", "fmt", *fuzz, "--check"]]),
        Step("clippy", "cargo clippy on all targets, warnings are errors", 1, 600, [clippy, clippy_fuzz]),
        Step("docs", "rustdoc, warnings are errors", 1, 480, [_cargo("doc", "--workspace", "--no-deps")], warnings_are_errors),
        Step("unit", "unit, property and doc tests of what needs no DPDK", 2, 1500, _unit()),
        Step("dissector", "wireshark/lr2.lua in tshark, on messages of our own encoders", 2, 300, [_dissector()]),
        Step("dpdk", "tests of what uses DPDK, on ports that need no NIC", 2, 900, [_cargo("test", *_packages(_DPDK))]),
        Step("fuzz", "scripts/fuzz in a short form: every parser, and sequences of operations", 2, 480, [_python("checks.fuzz", "--pinned")]),
        Step("deny", "licences, sources, duplicates, direction and use of dependencies", 2, 600, [_python("checks.deny")]),
        # The second is the program of the step `instructions`, which runs beside others: a build would keep them from building.
        Step("build", "the programs, optimised", 3, 600, [_cargo("build", "--release", *programs), _cargo("build", "--release", "-p", "benches", "--bin", "lr2-instructions")]),
        Step("commands", "the commands in README and docs/: programs, options, files and tests that they name, and those that are over at once", 3, 120, [_python("checks.commands")]),
        Step("packages", "scripts/package, and what it makes installed into a chroot of debootstrap", 3, 600, [_python("checks.packages")]),
        Step("session", "two boxes of the packages as a new user has them: traffic, loss, lr2ctl, capture, page, alerts, the usual mistakes, and a WAN that is cut", 3, 400, [browser, _python("checks.session")]),
        Step("instructions", "scripts/instructions: what each stage of a packet's way takes, against what is pinned", 3, 480, [_python("checks.instructions")], beside="packages"),
        Step("metrics", "a Prometheus scrapes gateways under traffic; alert rules and dashboard", 3, 300, [_python("checks.metrics")]),
        Step("page", "the page at / in Chromium, of gateways under traffic", 3, 400, [browser, _python("checks.page")]),
        Step("demo", "scripts/demo in a short form with loss on each segment, and its figures", 3, 480, [_python("checks.demo")]),
        Step("tcp", "a kernel's TCP through the tunnel at 1 % and 5 % loss, against its rate without loss and with boxes that do nothing", 3, 360, [_python("checks.tcp")]),
        Step("two-pairs", "scripts/two-pairs: each of four boxes between ECMP routers restarted in turn", 3, 600, [[str(ROOT / "scripts" / "two-pairs")]]),
        Step("bench", "scripts/bench for a moment: the traffic port, and the checks on what it counts", 3, 300, [_python("checks.bench")]),
        Step("rdma-e2e", "scripts/rdma-e2e: Soft-RoCE between two guests", 3, 900, [[str(ROOT / "scripts" / "rdma-e2e")]]),
    ]


LONG = ("build", "commands", "packages", "session", "instructions", "metrics", "page", "demo", "tcp", "two-pairs", "bench", "rdma-e2e")
"""Steps that --quick leaves out."""
