#!/usr/bin/env bash
# Installs Chromium, for the step of scripts/test that looks at the gateway's page: large, and nothing else needs it.
set -euo pipefail
# shellcheck source=setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
lr2_packages "to look at the gateway's page" chromium
