#!/bin/bash
# SPDX-License-Identifier: MIT
# The live commands on a real GPU: what top, memtrace and mon say beside what nvidia-smi says at the same time. Two jobs, one of
# which leaks; a third that began before tracing. About two minutes; their texts come to $OUT. Runs as root in a mount
# namespace of its own. Exit status 1 when a figure of theirs is missing, or is not the driver's.
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ "${1:-}" != inside ]; then
	exec unshare --mount --propagation private "$0" inside
fi
. tests/gpu/build.sh >/dev/null
python=${PYTHON:-python3}
OUT=${OUT:-$(mktemp -d)}
mount -t tmpfs tmpfs /run && mkdir -p /run/gpuxray /run/job
cp tests/gpu/night/*.py /run/job
bad=0
fail() {
	echo "FAILED: $*"
	bad=1
}
job() {
	(cd /run/job && exec "$python" "$@" >>/run/jobs.log 2>&1) &
}

# One that is there before anybody traces.
job notebook.py 150
early=$!
sleep 12
timeout 60 ./gpuxray memtrace -p $early -n 4 --wide >"$OUT/memtrace-own.txt" 2>&1 || fail "memtrace with a tracer of its own"
cat "$OUT/memtrace-own.txt"
grep -q 'before tracing' "$OUT/memtrace-own.txt" || fail "memtrace says nothing of what was held before"

cat >/run/gpuxray.conf <<'CONF'
nvml_interval = "1s";
metrics = { listen = "unix:/run/gpuxray/metrics.sock"; };
CONF
./gpuxray run --config /run/gpuxray.conf --rules tests/gpu/rules.conf --sink json >/run/records.json 2>/run/gpuxray.log &
daemon=$!
for _ in $(seq 200); do [ -S /run/gpuxray/status.sock ] && break; sleep 0.1; done
job serve.py 90
job train.py 70 0.5
train=$!
sleep 45
COLUMNS=110 ./gpuxray top --once >"$OUT/top.txt" || fail "top --once"
nvidia-smi --query-gpu=index,uuid,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,enforced.power.limit --format=csv >"$OUT/nvidia-smi.txt" 2>&1
nvidia-smi pmon -c 1 -s um >>"$OUT/nvidia-smi.txt" 2>&1
./gpuxray mon --once >"$OUT/metrics.txt" || fail "mon --once"
cat "$OUT/top.txt" "$OUT/nvidia-smi.txt"
grep -E '^(gpu_|gpuxray_device_|gpuxray_process_(live|driver|growth)|gpuxray_call_duration_seconds_(sum|count))' "$OUT/metrics.txt"
for name in gpu_process_used_memory_bytes gpu_process_sm_utilization_percent gpu_total_memory_bytes gpuxray_call_duration_seconds_count \
	gpuxray_process_growth_bytes_per_second; do
	grep -q "^$name{" "$OUT/metrics.txt" || fail "no $name"
done
timeout 30 ./gpuxray memtrace -p $train -n 5 --wide >"$OUT/memtrace.txt" 2>&1 || fail "memtrace beside the daemon"
timeout 30 ./gpuxray memtrace -p $train -n 1 --print-stacks --top 2 >>"$OUT/memtrace.txt" 2>&1 || fail "memtrace --print-stacks"
cat "$OUT/memtrace.txt"
grep -q 'train.py:' "$OUT/memtrace.txt" || fail "no line of the job in its stacks"
"$python" - "$OUT/metrics.txt" <<'PY' || fail "a scrape"
import re, socket, statistics, subprocess, sys, time
took = []
for _ in range(10):
    time.sleep(1.1)  # an answer is kept for a second
    start = time.monotonic()
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/gpuxray/metrics.sock")
    s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    n = 0
    while part := s.recv(1 << 16):
        n += len(part)
    took.append((time.monotonic() - start) * 1e3)
print(f"scrape: median {statistics.median(took):.2f} ms, worst {max(took):.2f} ms, {n} bytes")
text = open(sys.argv[1]).read()
total = float(re.search(r'^gpu_total_memory_bytes{[^}]*gpu_index="0"} (\S+)', text, re.M)[1])
want = int(subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], text=True,
                          capture_output=True).stdout or 0) << 20
print(f"memory of GPU 0: {total:.0f}, nvidia-smi {want}")
sys.exit(0 if not want or abs(total - want) < (64 << 20) else 1)
PY
./gpuxray memtrace -p $train >"$OUT/memtrace-end.txt" 2>&1 || fail "memtrace until the end"
tail -n 12 "$OUT/memtrace-end.txt"
grep -q 'has ended' "$OUT/memtrace-end.txt" || fail "memtrace says nothing of the end"
kill $daemon
wait $daemon || fail "the daemon's exit status"
cat /run/gpuxray.log
exit $bad
