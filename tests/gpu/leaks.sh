#!/bin/bash
# SPDX-License-Identifier: MIT
# Records programs that leak and programs that only look so, on a real GPU: see leaks.py and
# tests/traces/leaks/README.md. Run as root, with ./gpuxray built. What is worth keeping goes to $OUT: leaks-SET.tar.gz,
# leaks-SET.txt and leaks-SET-all.trace.gz.
#	tests/gpu/leaks.sh --seconds 540 --set tune|held [--only a,b] [--jobs N] [--check]
#	... --seconds 150 --set held --config tests/gpu/leak_tensors.conf --suffix tensors --rate 160 --only torch-list,...
set -u
cd "$(dirname "$0")/../.." || exit 1
export WORK=${WORK:-/tmp/gpuxray-gpu} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export OUT=${OUT:-$WORK} CUDA_PATH=${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}
export BUILT=${BUILT:-$WORK/built} PATH=$PATH:$CUDA_PATH/bin
mkdir -p "$OUT" "$BUILT" || exit 1

# The driver's libraries may lie outside the loader's search path.
for dir in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib; do
	[ -e "$dir/libcuda.so.1" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir"
done

build() { # NAME COMMAND...: what cannot be built is said, and fails when it is to be run
	local name=$1
	shift
	[ -z "${REBUILD:-}" ] && [ "$BUILT/$name" -nt "tests/gpu/$name.${SOURCE:?}" ] &&
		[ "$BUILT/$name" -nt tests/gpu/leak_run.h ] && return
	timeout -k 5 90 "$@" -o "$BUILT/$name" >"$WORK/build_$name.log" 2>&1 && return
	echo "cannot build $name: $*"
	cat "$WORK/build_$name.log"
}

SOURCE=cu build leak_cuda nvcc -O2 -g -cudart static tests/gpu/leak_cuda.cu &
SOURCE=c build leak_driver gcc -std=gnu11 -D_GNU_SOURCE -O2 -g "-I$CUDA_PATH/include" tests/gpu/leak_driver.c \
	"-L$CUDA_PATH/lib64/stubs" -lcuda &
wait
exec python3 tests/gpu/leaks.py "$@"
