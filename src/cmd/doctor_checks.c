/* SPDX-License-Identifier: MIT */
#include "cmd/doctor_checks.h"

#include <linux/capability.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"

/* Newer than the oldest headers we build with. */
#define PERFMON 38
#define BPF 39
#define CHECKPOINT_RESTORE 40

#define USEC_PER_MINUTE UINT64_C(60000000)
#define CRITICAL_TIMES 10 /* critical records have so many times the budget for themselves, see record/budget.h */

const char *doctor_result_name(enum doctor_result r)
{
	static const char *const names[DOCTOR_RESULT_MAX] = { "ok", "warn", "fail" };

	return names[r];
}

_printf_(1, 0) static char *clean(const char *fmt, va_list ap)
{
	_cleanup_strbuf_ struct strbuf raw = STRBUF_INIT;
	struct strbuf safe = STRBUF_INIT;
	char *text = NULL;

	strbuf_vaddf(&raw, fmt, ap);
	if (raw.error == 0)
		text_escape(&safe, strbuf_str(&raw), raw.len, 0);
	if (raw.error < 0 || strbuf_steal(&safe, &text) < 0)
		strbuf_done(&safe);
	return text;
}

_printf_(4, 5) static void say(struct doctor_report *r, enum doctor_result result, const char *name, const char *fmt, ...)
{
	struct doctor_line *more = realloc(r->lines, (r->len + 1) * sizeof(*more));
	struct doctor_line *line;
	va_list ap;

	if (!more) {
		r->is_cut = true;
		return;
	}
	r->lines = more;
	line = &more[r->len];
	*line = (struct doctor_line){ .result = result, .name = name };
	va_start(ap, fmt);
	line->text = clean(fmt, ap);
	va_end(ap);
	if (!line->text) {
		r->is_cut = true;
		return;
	}
	r->len++;
	r->counts[result]++;
}

/* Of the line said last. */
_printf_(2, 3) static void cure(struct doctor_report *r, const char *fmt, ...)
{
	va_list ap;

	if (r->is_cut)
		return;
	va_start(ap, fmt);
	r->lines[r->len - 1].cure = clean(fmt, ap);
	va_end(ap);
	if (!r->lines[r->len - 1].cure)
		r->is_cut = true;
}

static bool is_before(const struct doctor_facts *f, uint32_t major, uint32_t minor)
{
	return f->major < major || (f->major == major && f->minor < minor);
}

static bool has(const struct doctor_facts *f, int capability)
{
	return f->capabilities & UINT64_C(1) << capability;
}

static bool can(const struct doctor_facts *f, int capability)
{
	return has(f, capability) || has(f, CAP_SYS_ADMIN);
}

static bool probe_works(const struct doctor_facts *f)
{
	return f->probe.error == 0 && f->probe.hits > 0;
}

static void check_kernel(const struct doctor_facts *f, struct doctor_report *r)
{
	if (is_before(f, 6, 1)) {
		/* Distributions carry newer BPF back to older numbers. */
		say(r, probe_works(f) ? DOCTOR_WARN : DOCTOR_FAIL, "kernel", "Linux %s is older than 6.1", f->release);
		cure(r, "run Linux 6.1 or later; 6.6 or later has cheaper probes");
	} else if (is_before(f, 6, 6)) {
		say(r, DOCTOR_WARN, "kernel", "Linux %s has no uprobe_multi: probes need CAP_SYS_ADMIN and none outlives a "
		    "restart of the daemon", f->release);
		cure(r, "run Linux 6.6 or later if that matters");
	} else {
		say(r, DOCTOR_OK, "kernel", "Linux %s", f->release);
	}
}

static void check_btf(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->has_btf) {
		say(r, DOCTOR_OK, "btf", "the kernel tells its types (/sys/kernel/btf/vmlinux)");
		return;
	}
	say(r, DOCTOR_FAIL, "btf", "the kernel does not tell its types: /sys/kernel/btf/vmlinux cannot be read");
	cure(r, "run a kernel built with CONFIG_DEBUG_INFO_BTF=y; in a container mount the host's /sys");
}

static void check_lockdown(const struct doctor_facts *f, struct doctor_report *r)
{
	if (strcmp(f->lockdown, "confidentiality") == 0) {
		say(r, DOCTOR_FAIL, "lockdown", "the kernel is locked down to \"confidentiality\": BPF may not read memory");
		cure(r, "boot with lockdown=integrity, or without lockdown=");
		return;
	}
	say(r, DOCTOR_OK, "lockdown", "%s", f->lockdown[0] ? f->lockdown : "the kernel has no lockdown");
}

static void add_word(struct strbuf *sb, const char *word)
{
	strbuf_addf(sb, "%s%s", sb->len ? ", " : "", word);
}

/* What is missing for the probes, and for processes of other users. */
static void find_missing(const struct doctor_facts *f, struct strbuf *sb)
{
	if (!can(f, BPF))
		add_word(sb, "CAP_BPF");
	if (!can(f, PERFMON))
		add_word(sb, "CAP_PERFMON");
	if (!has(f, CAP_SYS_ADMIN) && is_before(f, 6, 6))
		add_word(sb, "CAP_SYS_ADMIN");
	if (!has(f, CAP_SYS_PTRACE))
		add_word(sb, "CAP_SYS_PTRACE");
	if (!has(f, CAP_DAC_READ_SEARCH) && !has(f, CAP_DAC_OVERRIDE))
		add_word(sb, "CAP_DAC_READ_SEARCH");
}

static void check_capabilities(const struct doctor_facts *f, struct doctor_report *r)
{
	_cleanup_strbuf_ struct strbuf missing = STRBUF_INIT;

	find_missing(f, &missing);
	if (f->is_user_namespace) {
		say(r, DOCTOR_FAIL, "capabilities", "inside a user namespace, where capabilities do not count for BPF");
		cure(r, "run outside of it, as root; a container must be privileged and not rootless");
	} else if (missing.len > 0) {
		say(r, DOCTOR_FAIL, "capabilities", "user %u lacks %s", f->uid, strbuf_str(&missing));
		cure(r, "run as root, or give these capabilities; in a container run it privileged");
	} else if (!can(f, CHECKPOINT_RESTORE)) {
		say(r, DOCTOR_WARN, "capabilities", "CAP_CHECKPOINT_RESTORE is missing: libraries replaced while in use are "
		    "not probed");
		cure(r, "give it, as gpuxray.service does");
	} else {
		say(r, DOCTOR_OK, "capabilities", "all that is needed");
	}
}

static void check_user(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->uid == 0) {
		say(r, DOCTOR_OK, "user", "root");
		return;
	}
	say(r, DOCTOR_WARN, "user", "user %u: the journal takes OBJECT_PID from root alone, so that `journalctl -u` of a "
	    "traced service does not show its incidents", f->uid);
	cure(r, "run as root; gpuxray.service gives root's power up but for a few capabilities");
}

static void check_perf(const struct doctor_facts *f, struct doctor_report *r)
{
	if (!f->has_paranoid) {
		say(r, DOCTOR_FAIL, "perf", "the kernel has no perf events (/proc/sys/kernel/perf_event_paranoid is not there)");
		cure(r, "run a kernel built with CONFIG_PERF_EVENTS=y");
	} else if (can(f, PERFMON) && !f->is_user_namespace) {
		say(r, DOCTOR_OK, "perf", "perf_event_paranoid is %d, which CAP_PERFMON passes by", f->paranoid);
	} else if (f->paranoid > 0) {
		say(r, DOCTOR_FAIL, "perf", "perf_event_paranoid is %d: without CAP_PERFMON libraries are not seen being loaded",
		    f->paranoid);
		cure(r, "run as root or give CAP_PERFMON");
	} else {
		say(r, DOCTOR_OK, "perf", "perf_event_paranoid is %d", f->paranoid);
	}
}

static void check_memlock(const struct doctor_facts *f, struct doctor_report *r)
{
	char size[FORMAT_UNITS_MAX];

	if (!is_before(f, 5, 11)) {
		say(r, DOCTOR_OK, "memlock", "not a limit of BPF maps since Linux 5.11");
	} else if (f->memlock_bytes == UINT64_MAX || has(f, CAP_SYS_RESOURCE)) {
		say(r, DOCTOR_OK, "memlock", "not limited");
	} else {
		say(r, DOCTOR_WARN, "memlock", "locked memory is limited to %s, and before Linux 5.11 BPF maps count as such",
		    format_bytes(size, f->memlock_bytes));
		cure(r, "set LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited`");
	}
}

static void check_pid_namespace(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->pid_namespace_error < 0) {
		say(r, DOCTOR_FAIL, "namespace", "/proc does not tell of this process: %s", strerror(-f->pid_namespace_error));
		cure(r, "mount /proc: mount -t proc proc /proc");
	} else if (!f->is_own_proc) {
		say(r, DOCTOR_FAIL, "namespace", "/proc is that of another PID namespace");
		cure(r, "mount the own one (unshare --mount-proc), or run outside (in Kubernetes with hostPID: true)");
	} else if (!f->is_initial) {
		say(r, DOCTOR_WARN, "namespace", "inside a PID namespace: only processes in it are seen");
		cure(r, "run outside to see all (in Kubernetes with hostPID: true)");
	} else {
		say(r, DOCTOR_OK, "namespace", "the host's PID namespace");
	}
}

static void check_proc(const struct doctor_facts *f, struct doctor_report *r)
{
	if (!f->hidepid[0]) {
		say(r, DOCTOR_OK, "proc", "/proc shows all processes");
	} else if (has(f, CAP_SYS_PTRACE)) {
		say(r, DOCTOR_OK, "proc", "/proc has hidepid=%s, which CAP_SYS_PTRACE passes by", f->hidepid);
	} else {
		say(r, DOCTOR_FAIL, "proc", "/proc has hidepid=%s: processes of others are not seen", f->hidepid);
		cure(r, "run as root or give CAP_SYS_PTRACE, or `mount -o remount,hidepid=0 /proc`");
	}
}

static void check_probe(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct doctor_probe *p = &f->probe;

	if (p->error < 0 && !p->function[0]) {
		say(r, DOCTOR_FAIL, "probe", "cannot load the probes: %s", strerror(-p->error));
		cure(r, "%s", p->why);
	} else if (p->error < 0) {
		say(r, DOCTOR_FAIL, "probe", "loaded, and cannot be attached to %s of %s: %s", p->function, p->file,
		    strerror(-p->error));
		cure(r, "%s", p->why);
	} else if (p->hits == 0) {
		say(r, DOCTOR_FAIL, "probe", "loaded and attached to %s of %s, and a call of it was not seen", p->function, p->file);
		cure(r, "the kernel lost it: a kernel with CONFIG_UPROBE_EVENTS=y and CONFIG_BPF_EVENTS=y is needed");
	} else {
		say(r, DOCTOR_OK, "probe", "loaded, attached to %s of %s (%s), and its call was seen", p->function, p->file,
		    p->is_multi ? "uprobe_multi" : "perf");
	}
}

static void check_named_libraries(const struct doctor_facts *f, struct doctor_report *r)
{
	for (size_t i = 0; i < f->libraries_len; i++) {
		const struct doctor_library *l = &f->libraries[i];

		if (l->error < 0) {
			say(r, DOCTOR_FAIL, "library", "%s: %s", l->path,
			    l->error == -ENOEXEC ? "no library of this machine" : strerror(-l->error));
			cure(r, "name an existing shared library with --library or \"libraries\" of gpuxray.conf");
		} else if (l->functions == 0) {
			say(r, DOCTOR_FAIL, "library", "%s: none of its functions is one of a GPU driver", l->path);
			cure(r, "name the driver's own library: libcuda.so.1, libamdhip64.so or libze_loader.so.1");
		} else {
			say(r, DOCTOR_OK, "library", "%s: %zu functions to probe", l->path, l->functions);
		}
	}
}

static void check_libraries(const struct doctor_facts *f, struct doctor_report *r)
{
	char blind[80] = "";

	if (f->unreadable > 0)
		(void)snprintf(blind, sizeof(blind), " (%u process%s could not be looked at)", f->unreadable,
			       f->unreadable == 1 ? "" : "es");
	if (f->users > 0)
		say(r, DOCTOR_OK, "driver", "%u process%s: %s%s", f->users, f->users == 1 ? " maps" : "es map",
		    strbuf_str(&f->mapped), blind);
	else if (f->installed.len > 0)
		say(r, DOCTOR_OK, "driver", "installed, used by no process now: %s%s", strbuf_str(&f->installed), blind);
	else {
		say(r, DOCTOR_WARN, "driver", "no driver library (libcuda.so.1, libamdhip64.so, libze_loader.so.1) in a process "
		    "or in the usual folders%s", blind);
		cure(r, "install the GPU's driver; one elsewhere, or in a container, is found when a process loads it");
	}
	check_named_libraries(f, r);
}

static void check_seccomp(const struct doctor_facts *f, struct doctor_report *r)
{
	if (strcmp(f->machine, "x86_64") != 0 || is_before(f, 6, 11) || !is_before(f, 6, 14)) {
		say(r, DOCTOR_OK, "seccomp", "return probes get along with seccomp filters on this kernel");
		return;
	}
	if (f->filtered > 0)
		say(r, DOCTOR_WARN, "seccomp", "%u process%s with a driver library (PID %u first) under a seccomp filter: a return "
		    "probe makes %s issue the uretprobe system call, and a filter that does not know it may end the process",
		    f->filtered, f->filtered == 1 ? "" : "es", f->first_filtered, f->filtered == 1 ? "it" : "them");
	else
		say(r, DOCTOR_WARN, "seccomp", "on this kernel a return probe makes the traced process issue the uretprobe system "
		    "call, and a seccomp filter that does not know it may end the process; none with a driver library has one now");
	cure(r, "run Linux 6.14 or later, which lets it pass, or allow system call 335 in the filters (Docker, Kubernetes)");
}

static void check_nvml_missing(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->nvidia_driver[0]) {
		say(r, DOCTOR_WARN, "nvml", "%s, and the driver %s is loaded: none of its figures are seen, nor processes that "
		    "are not traced", f->nvml.reason, f->nvidia_driver);
		cure(r, "install it in the driver's version; into a container it comes with NVIDIA_DRIVER_CAPABILITIES=utility");
		return;
	}
	say(r, DOCTOR_WARN, "nvml", "%s: no figures of the NVIDIA driver", f->nvml.reason);
	cure(r, "on a host with NVIDIA GPUs install the driver's libnvidia-ml.so.1; on others nothing is missing");
}

static void check_nvml(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct doctor_nvml *n = &f->nvml;

	if (n->error == 0) {
		say(r, DOCTOR_OK, "nvml", "%u device%s", n->devices, n->devices == 1 ? "" : "s");
	} else if (n->error == -ENOENT) {
		check_nvml_missing(f, r);
	} else if (n->error == -ENODEV) {
		say(r, DOCTOR_WARN, "nvml", "the NVIDIA driver is not loaded: %s", n->reason);
		cure(r, "modprobe nvidia; `dmesg` says why if that fails");
	} else if (n->error == -EPROTO) {
		say(r, DOCTOR_FAIL, "nvml", "driver (%s) and library (%s) are of different versions: %s",
		    f->nvidia_driver[0] ? f->nvidia_driver : "?", n->library[0] ? n->library : "?", n->reason);
		cure(r, "the driver was updated while loaded: reboot, or unload and load the nvidia modules; a container must get "
		     "the host's library");
	} else if (n->error == -ETIMEDOUT) {
		say(r, DOCTOR_FAIL, "nvml", "the driver does not answer: %s", n->reason);
		cure(r, "`dmesg | grep -e NVRM -e Xid` says what it hangs at; a reset or a reboot may be needed");
	} else {
		say(r, DOCTOR_FAIL, "nvml", "cannot be used: %s", n->reason);
		cure(r, "see `nvidia-smi` and `dmesg`; a container needs the devices /dev/nvidia*");
	}
}

static void check_storage(const struct doctor_journal *j, struct doctor_report *r)
{
	if (strcmp(j->storage, "none") == 0) {
		say(r, DOCTOR_WARN, "storage", "journald stores nothing (Storage=none): `gpuxray report` finds no records here");
		cure(r, "set Storage=persistent in /etc/systemd/journald.conf");
	} else if (strcmp(j->storage, "persistent") == 0 || (strcmp(j->storage, "auto") == 0 && j->has_var_log)) {
		say(r, DOCTOR_OK, "storage", "the journal outlives a boot (Storage=%s)", j->storage);
	} else {
		say(r, DOCTOR_WARN, "storage", "records are lost at the next boot (Storage=%s%s)", j->storage,
		    j->has_var_log ? "" : ", no /var/log/journal");
		cure(r, "set Storage=persistent in /etc/systemd/journald.conf, then `systemctl restart systemd-journald`");
	}
}

/* Records that may fall into one interval: it can touch one more of our minutes than it is long. */
static uint64_t records_max(const struct doctor_journal *j)
{
	uint64_t a_minute = (uint64_t)j->records_per_minute * (1 + CRITICAL_TIMES) + j->history_per_minute;

	return a_minute * (1 + j->interval_usec / USEC_PER_MINUTE + (j->interval_usec % USEC_PER_MINUTE != 0));
}

static void check_rate(const struct doctor_journal *j, struct doctor_report *r)
{
	char span[FORMAT_UNITS_MAX];
	uint64_t most = records_max(j);

	if (j->burst == 0 || j->interval_usec == 0) {
		say(r, DOCTOR_OK, "rate", "journald has no rate limit");
		return;
	}
	format_duration(span, j->interval_usec * 1000);
	if (j->burst >= most) {
		say(r, DOCTOR_OK, "rate", "journald takes %llu records in %s, at most %llu may be written",
		    (unsigned long long)j->burst, span, (unsigned long long)most);
		return;
	}
	say(r, DOCTOR_WARN, "rate", "journald takes %llu records in %s and drops the rest, and %llu may be written "
	    "(records_per_minute %u, ten times that for critical ones, history_per_minute %u)", (unsigned long long)j->burst,
	    span, (unsigned long long)most, j->records_per_minute, j->history_per_minute);
	cure(r, "raise RateLimitBurst= in /etc/systemd/journald.conf to %llu, or lower the two in gpuxray.conf",
	     (unsigned long long)most);
}

static void check_journal(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct doctor_journal *j = &f->journal;

	if (strcmp(j->sink, "auto") != 0 && strcmp(j->sink, "journal") != 0) {
		say(r, DOCTOR_OK, "journal", "not used: gpuxray.conf has sink = \"%s\"", j->sink);
		return;
	}
	if (!j->has_socket) {
		say(r, strcmp(j->sink, "journal") == 0 ? DOCTOR_FAIL : DOCTOR_WARN, "journal",
		    "/run/systemd/journal/socket does not take records: no journald");
		cure(r, "start systemd-journald; in a container mount that socket; or choose another sink in gpuxray.conf");
		return;
	}
	say(r, DOCTOR_OK, "journal", "/run/systemd/journal/socket takes records");
	check_storage(j, r);
	check_rate(j, r);
}

static void check_catalog(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->is_catalog_known) {
		say(r, DOCTOR_OK, "catalog", "`journalctl -x` explains the records");
	} else if (f->has_catalog_file) {
		say(r, DOCTOR_WARN, "catalog", "gpuxray.catalog is installed, and journalctl does not know it yet");
		cure(r, "journalctl --update-catalog");
	} else {
		say(r, DOCTOR_WARN, "catalog", "gpuxray.catalog is not installed: `journalctl -x` does not explain the records");
		cure(r, "copy contrib/systemd/gpuxray.catalog to /usr/lib/systemd/catalog, then `journalctl --update-catalog`");
	}
}

static void check_errors(const struct errors *errors, const char *name, struct doctor_report *r)
{
	for (size_t i = 0; i < errors->len; i++) {
		const struct error *e = &errors->list[i];
		char line[24] = "";

		if (e->line > 0)
			(void)snprintf(line, sizeof(line), ":%d", e->line);
		say(r, e->is_warning ? DOCTOR_WARN : DOCTOR_FAIL, name, "%s%s%s%s", e->file ?: "", line,
		    e->file ? ": " : "", e->text);
		cure(r, e->is_warning ? "correct it if it is not meant so; `gpuxray check` tells the same" :
					"correct it; `gpuxray check` tells when all is good");
	}
	if (errors->dropped_count > 0) {
		say(r, DOCTOR_FAIL, name, "%zu further ones", errors->dropped_count);
		cure(r, "correct those above first");
	}
}

static void check_files(const struct doctor_facts *f, struct doctor_report *r)
{
	check_errors(&f->config_errors, "configuration", r);
	if (f->config_errors.error_count == 0)
		say(r, DOCTOR_OK, "configuration", "good");
	check_errors(&f->rule_errors, "rules", r);
	if (f->rule_errors.error_count == 0 && f->rules > 0)
		say(r, DOCTOR_OK, "rules", "%zu rule%s in %zu file%s: good", f->rules, f->rules == 1 ? "" : "s", f->rule_files,
		    f->rule_files == 1 ? "" : "s");
}

static void check_service(const struct doctor_facts *f, struct doctor_report *r)
{
	if (!f->has_systemd) {
		say(r, DOCTOR_OK, "service", "systemd does not run here: whoever starts `gpuxray run` keeps it running");
	} else if (!f->has_unit) {
		say(r, DOCTOR_WARN, "service", "gpuxray.service is not installed");
		cure(r, "`make install`, or copy contrib/systemd/gpuxray.service to /etc/systemd/system");
	} else if (strcmp(f->unit_state, "failed") == 0) {
		say(r, DOCTOR_FAIL, "service", "gpuxray.service has failed");
		cure(r, "`journalctl -e -u gpuxray` says why; then `systemctl reset-failed gpuxray` and start it");
	} else if (strcmp(f->unit_state, "inactive") == 0) {
		say(r, DOCTOR_WARN, "service", "gpuxray.service is not active");
		cure(r, "systemctl enable --now gpuxray");
	} else if (!f->unit_state[0]) {
		say(r, DOCTOR_WARN, "service", "gpuxray.service is installed; systemd does not say whether it is active");
		cure(r, "run as root, or ask with `systemctl status gpuxray`");
	} else {
		say(r, DOCTOR_OK, "service", "gpuxray.service is %s", f->unit_state);
	}
}

static void check_daemon(const struct doctor_facts *f, struct doctor_report *r)
{
	bool is_active = strcmp(f->unit_state, "active") == 0;

	if (f->daemon_error == 0) {
		say(r, DOCTOR_OK, "daemon", "answers at %s", f->socket);
	} else if (f->daemon_error == -EACCES) {
		say(r, DOCTOR_WARN, "daemon", "may not be asked at %s", f->socket);
		cure(r, "run as root");
	} else if (f->daemon_error == -ENOENT || f->daemon_error == -ECONNREFUSED) {
		say(r, is_active ? DOCTOR_FAIL : DOCTOR_WARN, "daemon", "none answers at %s", f->socket);
		cure(r, is_active ? "systemctl restart gpuxray" : "systemctl start gpuxray, or `gpuxray run`");
	} else {
		say(r, DOCTOR_FAIL, "daemon", "cannot be asked at %s: %s", f->socket, strerror(-f->daemon_error));
		cure(r, "systemctl restart gpuxray");
	}
}

void doctor_check(const struct doctor_facts *f, struct doctor_report *ret)
{
	static void (*const checks[])(const struct doctor_facts *, struct doctor_report *) = {
		check_kernel, check_btf, check_lockdown, check_user, check_capabilities, check_perf, check_memlock,
		check_pid_namespace, check_proc, check_probe, check_libraries, check_seccomp, check_nvml, check_journal,
		check_catalog, check_files, check_service, check_daemon,
	};

	*ret = (struct doctor_report){};
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		checks[i](f, ret);
}

void doctor_report_done(struct doctor_report *r)
{
	for (size_t i = 0; i < r->len; i++) {
		free(r->lines[i].text);
		free(r->lines[i].cure);
	}
	free(r->lines);
	*r = (struct doctor_report){};
}

void doctor_facts_done(struct doctor_facts *f)
{
	strbuf_done(&f->mapped);
	strbuf_done(&f->installed);
	for (size_t i = 0; i < f->libraries_len; i++)
		free(f->libraries[i].path);
	free(f->libraries);
	errors_done(&f->config_errors);
	errors_done(&f->rule_errors);
	*f = (struct doctor_facts){};
}
