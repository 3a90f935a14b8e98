#!/bin/bash
# SPDX-License-Identifier: MIT
# What the daemon costs the programs it watches, on a real GPU: see cost.py. About five minutes. Run as root, with ./gpuxray
# built.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/build.sh
set -o pipefail
python3 tests/gpu/cost.py "$BUILT" 2>&1 | tee "$OUT/cost.txt"
