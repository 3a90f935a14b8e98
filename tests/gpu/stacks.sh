#!/bin/bash
# SPDX-License-Identifier: MIT
# Stacks of allocations on a real GPU, against what each program says of itself: see stacks_compare.py. Six minutes.
# Run as root, with ./gpuxray built; with names of workloads only those run. All that is printed also goes to
# $OUT/stacks.txt, the records to $OUT/stacks_records.jsonl. Exit status 1 on any difference.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/build.sh
for runtime in static shared; do
	build stacks_native_$runtime nvcc -O2 -cudart $runtime -Xlinker "-rpath=$CUDA/lib64" \
		-o "$BUILT/stacks_native_$runtime" tests/gpu/stacks_native.cu
done
set -o pipefail
python3 tests/gpu/stacks_compare.py "$BUILT" "$@" 2>&1 | tee "$OUT/stacks.txt"
