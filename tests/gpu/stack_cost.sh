#!/bin/bash
# SPDX-License-Identifier: MIT
# What stacks cost the programs that are watched, on a real GPU: see stack_cost.py. About three minutes. Run as root,
# with ./gpuxray built.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/build.sh
build stack_cost gcc -std=gnu11 -O2 -g -fomit-frame-pointer -I"$CUDA/include" tests/gpu/stack_cost.c \
	-L"$CUDA/lib64/stubs" -lcuda -o "$BUILT/stack_cost"
set -o pipefail
python3 tests/gpu/stack_cost.py "$BUILT" 2>&1 | tee "$OUT/stack_cost.txt"
