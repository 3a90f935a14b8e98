#!/bin/bash
# SPDX-License-Identifier: MIT
# A night in nine minutes on a real GPU: an inference server, a notebook that nobody closed, short jobs, and a training job
# that remembers too much until there is no memory left. Its journal comes to $OUT/night.journal; `gpuxray report --file`
# tells it. Needs 140 GiB of GPU memory. Runs as root in a mount namespace of its own, with a journald of its own: JOURNAL
# is a folder with systemd-journald, journalctl and their libraries, for machines without systemd. Exit status 1 when the
# journal does not tell of the leak, of its line, or of who held the memory when it ran out.
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ "${1:-}" != inside ]; then
	exec unshare --mount --propagation private "$0" inside
fi
. tests/gpu/build.sh >/dev/null
seconds=${SECONDS_OF_NIGHT:-520}
python=${PYTHON:-python3}
journal=${JOURNAL:-/lib/systemd}
journalctl() {
	local program=$journal/journalctl
	[ -x "$program" ] || program=/usr/bin/journalctl
	LD_LIBRARY_PATH=$journal "$program" --no-pager -t gpuxray "$@"
}
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal /run/gpuxray /run/job /run/cgroup
[ -s /etc/machine-id ] || echo 0123456789abcdef0123456789abcdef >/etc/machine-id
hostname gpu01 2>/dev/null
LD_LIBRARY_PATH=$journal "$journal/systemd-journald" >/run/journald.log 2>&1 &
journald=$!
for _ in $(seq 100); do [ -S /run/systemd/journal/socket ] && break; sleep 0.1; done

# The jobs as services, where cgroups can be made: the daemon reads the unit from the name.
mount -t cgroup2 none /run/cgroup 2>/dev/null && mkdir -p /run/cgroup/system.slice 2>/dev/null ||
	echo "no cgroups here: the jobs have no units"
job() { # UNIT COMMAND...
	local group=/run/cgroup/system.slice/$1
	shift
	mkdir -p "$group" 2>/dev/null
	(echo $BASHPID >"$group/cgroup.procs" 2>/dev/null; cd /run/job && exec "$python" "$@" >>/run/jobs.log 2>&1) &
}
cp tests/gpu/night/*.py /run/job

cat >/run/gpuxray.conf <<'CONF'
sample_interval = "5s";
health_interval = "1m";
CONF
# The shipped leak rule thinks in hours; here a night has minutes.
cat >/run/rules.conf <<'RULES'
version = 1;
rules = (
  { name = "device-nearly-full"; kind = "live_bytes"; scope = "device"; fire_above = "92%"; resolve_below = "88%"; for = "5s"; severity = "critical"; },
  { name = "alloc-failed"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; },
  { name = "leak"; kind = "leak"; scope = "process"; epoch = "10s"; epochs = 8; occupancy = 0.9; keep_ratio = 0.7; min_growth = "1GiB";
    for_epochs = 3; severity = "warning"; escalate = { full_in = "5m"; severity = "error"; }; }
);
RULES
./gpuxray run --config /run/gpuxray.conf --rules /run/rules.conf --sink journal 2>/run/gpuxray.log &
daemon=$!
for _ in $(seq 100); do [ -S /run/gpuxray/status.sock ] && break; sleep 0.1; done

job inference.service serve.py "$seconds"
sleep 12
job notebook.service notebook.py "$seconds"
sleep 8
job train.service train.py "$seconds" 0.5
train=$!
(for _ in $(seq 9); do sleep 45; job evaluate.service evaluate.py 6 8; done) &
wait $train
echo "the training job ended with status $? after ${SECONDS} s"
sleep 10
job train.service train.py $((seconds > SECONDS + 20 ? seconds - SECONDS - 15 : 5)) 0.5
again=$!
wait $again
sleep 5
kill $daemon
wait $daemon
sleep 1
kill $journald
wait $journald 2>/dev/null
find /run/log/journal -name '*.journal' -exec cp {} "$OUT/night.journal" \;
cp /run/jobs.log "$OUT/jobs.log"
cat /run/gpuxray.log
count() { journalctl -o cat --file "$OUT/night.journal" "$@" | wc -l; }
echo "samples $(count GPUXRAY_EVENT=sample), ends $(count GPUXRAY_EVENT=process_exit), call sites told $(journalctl -o json --file "$OUT/night.journal" GPUXRAY_EVENT=site | wc -l)"
journalctl -o short --file "$OUT/night.journal" -p notice | grep -v '^ '
ls -l "$OUT/night.journal"
journalctl -o json --file "$OUT/night.journal" GPUXRAY_EVENT=leak | grep -q 'train.py' &&
	journalctl -o json --file "$OUT/night.journal" GPUXRAY_EVENT=alloc_failure | grep -q 'train.service\|train.py'
