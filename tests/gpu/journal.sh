#!/bin/bash
# SPDX-License-Identifier: MIT
# A real job on a real GPU, as the journal tells of it. Runs as root in a mount namespace of its own, with a journald of its
# own: JOURNAL is a folder with systemd-journald, journalctl and their libraries, for machines without systemd. Exit status
# 1 when the record of the failed allocation does not name the line that made it.
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ "${1:-}" != inside ]; then
	exec unshare --mount --propagation private "$0" inside
fi
. tests/gpu/build.sh >/dev/null
journal=${JOURNAL:-/lib/systemd}
# With the libraries of that folder only where they are wanted: the job has its own.
journalctl() {
	local program=$journal/journalctl
	[ -x "$program" ] || program=/usr/bin/journalctl
	LD_LIBRARY_PATH=$journal "$program" --no-pager "$@"
}
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal /run/gpuxray /etc
[ -s /etc/machine-id ] || echo 0123456789abcdef0123456789abcdef >/etc/machine-id
LD_LIBRARY_PATH=$journal "$journal/systemd-journald" >/run/journald.log 2>&1 &
for _ in $(seq 100); do [ -S /run/systemd/journal/socket ] && break; sleep 0.1; done
cat >/run/rules.conf <<'RULES'
version = 1;
rules = (
  { name = "quota"; kind = "live_bytes";    fire_above = "32GiB"; for = "0s"; severity = "warning"; },
  { name = "oom";   kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; }
);
RULES
./gpuxray run --config /dev/null --rules /run/rules.conf --sink journal 2>/run/gpuxray.log &
daemon=$!
for _ in $(seq 100); do [ -S /run/gpuxray/status.sock ] && break; sleep 0.1; done
mkdir /run/job && cp tests/gpu/train.py /run/job
(cd /run/job && timeout 120 "${PYTHON:-python3}" train.py 2>&1 | tail -n 2)
sleep 1
kill $daemon
wait $daemon
sleep 1
journalctl -t gpuxray
echo
journalctl -t gpuxray GPUXRAY_RULE=oom -o verbose
journalctl -t gpuxray GPUXRAY_RULE=oom -o json | grep -q 'Attention.forward (.*train.py:1[78])'
