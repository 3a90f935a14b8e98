#!/bin/bash
# SPDX-License-Identifier: MIT
# Random operations on a real driver under the daemon: each process's own ledger against gpuxray's books, and the
# driver's figure beside. Run as root, with ./gpuxray built. SEEDS="1 2 3" and THREADS="1 4" choose, EXCEPT="ipc,graph"
# leaves families of calls out. One table last; exit status 1 on any difference.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/build.sh

program=$BUILT/work_random
build work_random gcc -std=gnu11 -O1 -g -D_GNU_SOURCE -fno-omit-frame-pointer -pthread \
	tests/fake_gpu/work_random.c tests/fake_gpu/random_*.c tests/fake_gpu/common.c -L"$CUDA/lib64/stubs" -lcuda -ldl -o "$program"
[ -x "$program" ] || exit 1
exec python3 tests/gpu/random_compare.py "$program"
