# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# To be sourced at the root of the repository: builds the C and CUDA programs of tests/gpu into $BUILT. What cannot be built
# is said, and fails when it is to be run.
export WORK=${WORK:-/tmp/gpuxray-gpu} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export OUT=${OUT:-$WORK}
BUILT=${BUILT:-$WORK/built}
CUDA=${CUDA_HOME:-/usr/local/cuda}
PATH=$PATH:$CUDA/bin
mkdir -p "$OUT" "$BUILT"

# The driver's libraries may lie outside the loader's search path.
for dir in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib; do
	[ -e "$dir/libcuda.so.1" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir"
done

build() { # NAME COMMAND...
	local name=$1
	shift
	"$@" >"$WORK/build_$name.log" 2>&1 && return
	echo "cannot build $name: $*"
	cat "$WORK/build_$name.log"
}

for runtime in static shared; do
	build cuda_$runtime nvcc -O1 -g -Xcompiler -fno-omit-frame-pointer -cudart $runtime -Xlinker "-rpath=$CUDA/lib64" \
		-o "$BUILT/cuda_$runtime" tests/gpu/plain.cu
done
build cost nvcc -O2 -g -Xcompiler -fno-omit-frame-pointer -cudart static -o "$BUILT/cost" tests/gpu/cost.cu
for name in plain_driver driver_facts memory_facts; do
	build $name gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -fno-omit-frame-pointer -I"$CUDA/include" "tests/gpu/$name.c" \
		-L"$CUDA/lib64/stubs" -lcuda -ldl -o "$BUILT/$name"
done
