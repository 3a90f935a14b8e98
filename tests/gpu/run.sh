#!/bin/bash
# SPDX-License-Identifier: MIT
# Real programs on a real GPU under the daemon: what they know of themselves against what gpuxray says. Run as root, with
# ./gpuxray built. Results also in $OUT (default $WORK, /tmp/gpuxray-gpu). Exit status 1 on any difference.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/build.sh

echo "== what the driver does to memory when a context ends"
timeout -k 5 60 "$BUILT/driver_facts" 2>&1 | tee "$OUT/driver_facts.txt"

echo "== programs"
exec python3 tests/gpu/compare.py "$BUILT"
