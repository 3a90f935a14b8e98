#!/bin/bash
# SPDX-License-Identifier: MIT
# PyTorch's tensors, by the rows for its caching allocator, on a real GPU; with --cost also what it costs. Run as root, with ./gpuxray built.
set -u
cd "$(dirname "$0")/../.." || exit 1
export WORK=${WORK:-/tmp/gpuxray-gpu} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export OUT=${OUT:-$WORK}
mkdir -p "$WORK"
exec python3 tests/gpu/tensors.py "$@"
