# shellcheck shell=bash
# Preparing the machine for one of the scripts in this folder: packages, the
# Rust toolchain, the programs. To be sourced by a script with `set -euo pipefail`.
#
# Everything is quiet: output goes to $LR2_LOG, of which the end is shown when a
# step fails. Effects to be undone afterwards (processes, hugepages, folders) are
# left to lr2run (Python), which undoes them on any exit or signal.

LR2_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Files worth keeping between runs, all of them outside the source tree.
LR2_CACHE=${XDG_CACHE_HOME:-/var/cache}/lr2-gateway
LR2_LOG=$LR2_CACHE/setup.log
export LR2_ROOT LR2_CACHE

lr2_say() { printf '%s\n' "$*" >&2; }

# lr2_die MESSAGE: prints why the script can't go on and what to do, and exits with 2, "could not run". Exit code 1 means
# that a check ran and failed.
lr2_die() {
    lr2_say "${0##*/}: $*"
    exit 2
}

# lr2_step TITLE COMMAND...: run a command into the log.
lr2_step() {
    local title=$1
    shift
    lr2_say "  $title ..."
    mkdir -p "$LR2_CACHE"
    # The log of many runs; it must not grow for ever.
    find "$LR2_LOG" -size +1M -delete 2>/dev/null || true
    printf '\n# %s: %s\n' "$(date '+%F %T')" "$*" >>"$LR2_LOG"
    if ! "$@" >>"$LR2_LOG" 2>&1 </dev/null; then
        tail -n 30 "$LR2_LOG" >&2
        lr2_die "$title: failed; the whole log is $LR2_LOG"
    fi
}

lr2_need_root() {
    [ "$(id -u)" = 0 ] || lr2_die "must run as root (DPDK, apt): try  sudo $0 $*"
}

# lr2_missing PACKAGE...: those that are not installed, one a line.
lr2_missing() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

# Many machines (containers above all) come without package lists, or with stale
# ones: refresh them only when apt can't do without.
lr2_apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}
lr2_apt_try() {
    lr2_apt_get "$@" || { lr2_apt_get update && lr2_apt_get "$@"; }
}

# lr2_packages WHY PACKAGE...: install missing packages, and say beforehand which and why.
lr2_packages() {
    local why=$1 missing
    shift
    mapfile -t missing < <(lr2_missing "$@")
    [ ${#missing[@]} = 0 ] && return
    command -v apt-get >/dev/null || lr2_die "needs these packages $why, and there is no apt here: ${missing[*]}"
    lr2_say "${0##*/} needs these packages $why; apt-get installs them now: ${missing[*]}"
    lr2_step "installing ${missing[*]}" lr2_apt_try install -y --no-install-recommends "${missing[@]}"
}

# lr2_unpack WHY PACKAGE NAME FOLDER: unpack a package into the cache, and set NAME to that folder of it. For a package
# whose installation would start a service on this machine.
lr2_unpack() {
    local why=$1 package=$2 folder
    folder=$LR2_CACHE/packages/$package
    if [ ! -e "$folder" ]; then
        command -v apt-get >/dev/null || lr2_die "needs this package $why, and there is no apt here: $package"
        lr2_say "${0##*/} needs this package $why; it is unpacked into $folder now, and not installed: $package"
        mkdir -p "${folder%/*}"
        lr2_step "unpacking $package" lr2_unpack_into "$package" "$folder"
    fi
    export "$3=$folder/$4"
}

# lr2_unpack_into PACKAGE FOLDER: the folder is there only if all went well.
lr2_unpack_into() (
    set -e
    work=$(mktemp -d "$2.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # apt drops its privileges to download.
    chmod 755 "$work"
    cd "$work"
    lr2_apt_try download "$1"
    dpkg-deb -x ./*.deb root
    mv root "$2"
)

lr2_need_cargo() {
    if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    command -v cargo >/dev/null || lr2_die "needs a Rust toolchain, and found no cargo. Get one with
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
    then start this script again."
}

# Packages for building the programs, beside cargo.
LR2_BUILD_PACKAGES=(build-essential pkg-config libclang-dev libdpdk-dev)

# lr2_routers: packages for routers in network namespaces; sets LR2_FRR to FRR's folder.
lr2_routers() {
    lr2_packages "to make the network" iproute2 ethtool libcap2 libc-ares2 libjson-c5 libyang2
    lr2_unpack "to route" frr LR2_FRR .
}

# lr2_build PROGRAM...: build in release mode; sets LR2_BIN to the folder they are in.
lr2_build() {
    local program args=()
    lr2_packages "to build the programs with DPDK" "${LR2_BUILD_PACKAGES[@]}"
    lr2_need_cargo
    for program in "$@"; do args+=(--bin "$program"); done
    lr2_step "building $*" cargo build --quiet --release --locked --manifest-path "$LR2_ROOT/Cargo.toml" "${args[@]}"
    LR2_BIN=${CARGO_TARGET_DIR:-$LR2_ROOT/target}/release
    export LR2_BIN
}

# lr2_python MODULE ARGUMENT...: hand over to a Python module of this folder.
lr2_python() {
    lr2_packages "to run the scripts" python3
    PYTHONPATH=$LR2_ROOT/scripts/lib PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 -m "$@"
}

# lr2_begin MODULE ARGUMENT...: answers --help, becomes root, and checks the options, since a mistake
# in them should not wait for packages or a build.
lr2_begin() {
    local module=$1 option
    shift
    for option in "$@"; do
        case $option in -h | --help) lr2_python "$module" --help ;; esac
    done
    lr2_need_root "$@"
    (lr2_python "$module" --check "$@")
}
