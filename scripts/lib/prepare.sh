#!/usr/bin/env bash
# Downloads and unpacks, for the step `prepare` of scripts/test: the packages that single steps need, the guest of
# scripts/rdma-e2e and the bare system of the step `packages`. All that finds its work done then.
set -euo pipefail
# shellcheck source=setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
lr2_packages "to look at the page, to run guests and to ping" chromium qemu-system-x86 iputils-ping
lr2_routers
"$LR2_ROOT/scripts/guest/build.sh"
lr2_python checks.packages --bare
