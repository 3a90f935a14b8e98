/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cmd/doctor_facts.h"
#include "temp_proc.h"

#define MINUTE_USEC UINT64_C(60000000)
#define SET(field, text) (void)snprintf(f.field, sizeof(f.field), "%s", text)
#define DROP(n) f.capabilities &= ~(UINT64_C(1) << (n))

/* A host on which nothing is amiss. */
static struct doctor_facts good(void)
{
	struct doctor_facts f = { .major = 6, .minor = 18, .has_btf = true, .capabilities = UINT64_MAX, .has_paranoid = true,
				  .paranoid = 2, .memlock_bytes = 65536, .is_initial = true, .is_own_proc = true,
				  .probe = { .is_multi = true, .hits = 1 }, .users = 2, .nvml = { .devices = 8 },
				  .journal = { .has_socket = true, .has_var_log = true, .burst = 10000,
					       .interval_usec = 30000000, .records_per_minute = 60,
					       .history_per_minute = 600 },
				  .has_catalog_file = true, .is_catalog_known = true, .rules = 3, .rule_files = 1,
				  .has_systemd = true, .has_unit = true };

	SET(release, "6.18.44");
	SET(machine, "x86_64");
	SET(lockdown, "integrity");
	SET(probe.function, "zlibCompileFlags");
	SET(probe.file, "/lib/libz.so.1");
	SET(journal.sink, "auto");
	SET(journal.storage, "auto");
	SET(unit_state, "active");
	SET(socket, "/run/gpuxray/status.sock");
	strbuf_adds(&f.mapped, "/usr/lib/libcuda.so.1");
	return f;
}

static void kernel(struct doctor_facts *f, uint32_t major, uint32_t minor)
{
	f->major = major;
	f->minor = minor;
	(void)snprintf(f->release, sizeof(f->release), "%u.%u.7", major, minor);
}

static struct doctor_library *add_library(struct doctor_facts *f, const char *path, int error, size_t functions)
{
	f->libraries = calloc(1, sizeof(*f->libraries));
	f->libraries[0] = (struct doctor_library){ .path = strdup(path), .error = error, .functions = functions };
	f->libraries_len = 1;
	return f->libraries;
}

/* The first line of this name that is as bad as wanted has these words in its text and its cure; NULL: has no cure. */
static void expect(struct doctor_facts *f, const char *name, enum doctor_result want, const char *text, const char *cure,
		   int line)
{
	_cleanup_(doctor_report_done) struct doctor_report r = {};
	const struct doctor_line *found = NULL;

	doctor_check(f, &r);
	EXPECT(!r.is_cut);
	for (size_t i = 0; i < r.len && !found; i++)
		if (strcmp(r.lines[i].name, name) == 0 && r.lines[i].result == want)
			found = &r.lines[i];
	if (!found || !strstr(found->text, text) || (cure ? !found->cure || !strstr(found->cure, cure) : found->cure != NULL)) {
		printf("# line %d: %s %s: \"%s\", cure \"%s\"; wanted \"%s\", \"%s\"\n", line, doctor_result_name(want), name,
		       found ? found->text : "(no such line)", found && found->cure ? found->cure : "(none)", text,
		       cure ?: "(none)");
		test_failures++;
	}
	/* Whatever is not well says what to do. */
	for (size_t i = 0; i < r.len; i++)
		EXPECT((r.lines[i].result == DOCTOR_OK) == (r.lines[i].cure == NULL));
	doctor_facts_done(f);
}

#define CASE(name, want, text, cure, ...)                              \
	do {                                                           \
		struct doctor_facts f = good();                        \
		__VA_ARGS__;                                           \
		expect(&f, name, DOCTOR_##want, text, cure, __LINE__); \
	} while (0)

TEST(nothing_amiss)
{
	_cleanup_(doctor_report_done) struct doctor_report r = {};
	struct doctor_facts f = good();

	doctor_check(&f, &r);
	for (size_t i = 0; i < r.len; i++)
		if (r.lines[i].result != DOCTOR_OK)
			printf("# %s: %s\n", r.lines[i].name, r.lines[i].text);
	EXPECT_EQ(r.counts[DOCTOR_OK], r.len);
	EXPECT(r.len >= 20);
	doctor_facts_done(&f);
}

TEST(kernel)
{
	CASE("kernel", OK, "6.18.44", NULL, (void)0);
	CASE("kernel", OK, "6.6.7", NULL, kernel(&f, 6, 6));
	CASE("kernel", OK, "7.0.7", NULL, kernel(&f, 7, 0));
	CASE("kernel", WARN, "no uprobe_multi", "6.6", kernel(&f, 6, 5));
	CASE("kernel", WARN, "no uprobe_multi", "6.6", kernel(&f, 6, 1));
	CASE("kernel", WARN, "older than 6.1", "6.1", kernel(&f, 6, 0));
	CASE("kernel", FAIL, "older than 6.1", "6.1", kernel(&f, 6, 0); f.probe.error = -EPERM);
	CASE("btf", FAIL, "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF", f.has_btf = false);
	CASE("lockdown", OK, "no lockdown", NULL, SET(lockdown, ""));
	CASE("lockdown", OK, "integrity", NULL, (void)0);
	CASE("lockdown", FAIL, "confidentiality", "lockdown=integrity", SET(lockdown, "confidentiality"));
	CASE("memlock", OK, "since Linux 5.11", NULL, kernel(&f, 5, 11));
	CASE("memlock", OK, "not limited", NULL, kernel(&f, 5, 10));
	CASE("memlock", WARN, "64 KiB", "LimitMEMLOCK=infinity", kernel(&f, 5, 10); DROP(CAP_SYS_RESOURCE));
	CASE("memlock", OK, "not limited", NULL, kernel(&f, 5, 10); DROP(CAP_SYS_RESOURCE); f.memlock_bytes = UINT64_MAX);
}

TEST(privileges)
{
	CASE("user", OK, "root", NULL, (void)0);
	CASE("user", WARN, "OBJECT_PID", "root", f.uid = 1000);
	CASE("capabilities", FAIL, "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH", "run as root",
	     f.capabilities = 0);
	CASE("capabilities", FAIL, "lacks CAP_BPF", "run as root", DROP(39); DROP(CAP_SYS_ADMIN));
	CASE("capabilities", FAIL, "lacks CAP_PERFMON", "run as root", DROP(38); DROP(CAP_SYS_ADMIN));
	CASE("capabilities", FAIL, "lacks CAP_SYS_PTRACE", "run as root", DROP(CAP_SYS_PTRACE));
	CASE("capabilities", FAIL, "lacks CAP_DAC_READ_SEARCH", "run as root", DROP(CAP_DAC_READ_SEARCH);
	     DROP(CAP_DAC_OVERRIDE));
	CASE("capabilities", OK, "all", NULL, DROP(CAP_DAC_READ_SEARCH));
	CASE("capabilities", OK, "all", NULL, DROP(38); DROP(39); DROP(40));
	CASE("capabilities", OK, "all", NULL, DROP(CAP_SYS_ADMIN));
	CASE("capabilities", FAIL, "lacks CAP_SYS_ADMIN", "run as root", DROP(CAP_SYS_ADMIN); kernel(&f, 6, 5));
	CASE("capabilities", WARN, "CAP_CHECKPOINT_RESTORE", "give it", DROP(CAP_SYS_ADMIN); DROP(40));
	CASE("capabilities", FAIL, "user namespace", "rootless", f.is_user_namespace = true);
	CASE("perf", OK, "is 2", NULL, (void)0);
	CASE("perf", FAIL, "is 2", "CAP_PERFMON", f.capabilities = 0);
	CASE("perf", FAIL, "is 2", "CAP_PERFMON", f.is_user_namespace = true);
	CASE("perf", OK, "is -1", NULL, f.capabilities = 0; f.paranoid = -1);
	CASE("perf", FAIL, "no perf events", "CONFIG_PERF_EVENTS", f.has_paranoid = false);
}

TEST(processes)
{
	CASE("namespace", WARN, "inside a PID namespace", "hostPID: true", f.is_initial = false);
	CASE("namespace", FAIL, "another PID namespace", "--mount-proc", f.is_initial = f.is_own_proc = false);
	CASE("namespace", FAIL, "No such file", "mount -t proc", f.pid_namespace_error = -ENOENT);
	CASE("proc", OK, "hidepid=2", NULL, SET(hidepid, "2"));
	CASE("proc", FAIL, "hidepid=invisible", "hidepid=0", SET(hidepid, "invisible"); DROP(CAP_SYS_PTRACE));
	CASE("driver", OK, "2 processes map: /usr/lib/libcuda.so.1", NULL, (void)0);
	CASE("driver", OK, "1 process maps", NULL, f.users = 1);
	CASE("driver", OK, "used by no process now: /x/libcuda.so.1 (1 process could", NULL, f.users = 0; f.unreadable = 1;
	     strbuf_adds(&f.installed, "/x/libcuda.so.1"));
	CASE("driver", WARN, "no driver library", "install", f.users = 0);
	CASE("library", OK, "/x.so: 31 functions", NULL, add_library(&f, "/x.so", 0, 31));
	CASE("library", FAIL, "/x.so: No such file", "--library", add_library(&f, "/x.so", -ENOENT, 0));
	CASE("library", FAIL, "/x.so: no library", "--library", add_library(&f, "/x.so", -ENOEXEC, 0));
	CASE("library", FAIL, "/x.so: none of", "libcuda.so.1", add_library(&f, "/x.so", 0, 0));
	CASE("library", OK, "/\\x0a.so", NULL, add_library(&f, "/\n.so", 0, 3));
	CASE("seccomp", OK, "get along", NULL, f.filtered = 1);
	CASE("seccomp", OK, "get along", NULL, f.filtered = 1; kernel(&f, 6, 14));
	CASE("seccomp", OK, "get along", NULL, f.filtered = 1; kernel(&f, 6, 10));
	CASE("seccomp", OK, "get along", NULL, f.filtered = 1; kernel(&f, 6, 12); SET(machine, "aarch64"));
	CASE("seccomp", WARN, "2 processes with a driver library (PID 4711 first)", "6.14", f.filtered = 2;
	     f.first_filtered = 4711; kernel(&f, 6, 13));
	CASE("seccomp", WARN, "none with a driver library", "335", kernel(&f, 6, 11));
}

TEST(probe_and_driver)
{
	CASE("probe", OK, "(uprobe_multi)", NULL, (void)0);
	CASE("probe", OK, "(perf)", NULL, f.probe.is_multi = false);
	CASE("probe", FAIL, "call of it was not seen", "CONFIG_UPROBE_EVENTS", f.probe.hits = 0);
	CASE("probe", FAIL, "cannot load the probes: Operation not permitted", "why not", f.probe.error = -EPERM;
	     SET(probe.function, ""); SET(probe.why, "why not"));
	CASE("probe", FAIL, "cannot be attached to zlibCompileFlags of /lib/libz.so.1: Permission", "why not",
	     f.probe.error = -EACCES; SET(probe.why, "why not"));
	CASE("nvml", OK, "8 devices", NULL, (void)0);
	CASE("nvml", WARN, "libnvidia-ml.so.1 not found", "install", f.nvml.error = -ENOENT;
	     SET(nvml.reason, "libnvidia-ml.so.1 not found"));
	CASE("nvml", WARN, "not loaded", "modprobe", f.nvml.error = -ENODEV);
	CASE("nvml", WARN, "not found, and the driver 580.95.05 is loaded", "NVIDIA_DRIVER_CAPABILITIES=utility",
	     f.nvml.error = -ENOENT; SET(nvml.reason, "libnvidia-ml.so.1 not found"); SET(nvidia_driver, "580.95.05"));
	CASE("nvml", FAIL, "driver (580.95.05) and library (590.1) are of different versions: Driver/library version mismatch",
	     "reboot", f.nvml.error = -EPROTO; SET(nvml.reason, "Driver/library version mismatch");
	     SET(nvidia_driver, "580.95.05"); SET(nvml.library, "590.1"));
	CASE("nvml", FAIL, "driver (?) and library (?) are of different versions", "container", f.nvml.error = -EPROTO);
	CASE("nvml", FAIL, "does not answer", "dmesg", f.nvml.error = -ETIMEDOUT);
	CASE("nvml", FAIL, "cannot be used: Insufficient Permissions", "/dev/nvidia", f.nvml.error = -EIO;
	     SET(nvml.reason, "Insufficient Permissions"));
}

TEST(journal)
{
	CASE("journal", WARN, "no journald", "start systemd-journald", f.journal.has_socket = false);
	CASE("journal", FAIL, "no journald", "start systemd-journald", f.journal.has_socket = false;
	     SET(journal.sink, "journal"));
	CASE("journal", OK, "sink = \"syslog\"", NULL, f.journal.has_socket = false; SET(journal.sink, "syslog"));
	CASE("storage", OK, "Storage=auto", NULL, (void)0);
	CASE("storage", OK, "Storage=persistent", NULL, SET(journal.storage, "persistent"); f.journal.has_var_log = false);
	CASE("storage", WARN, "no /var/log/journal", "Storage=persistent", f.journal.has_var_log = false);
	CASE("storage", WARN, "Storage=volatile", "Storage=persistent", SET(journal.storage, "volatile"));
	CASE("storage", WARN, "stores nothing", "Storage=persistent", SET(journal.storage, "none"));
	/* (60 * 11 + 600) in each of the two minutes that 30 s may touch. */
	CASE("rate", OK, "at most 2520", NULL, f.journal.burst = 2520);
	CASE("rate", WARN, "takes 2519 records in 30s", "RateLimitBurst= in /etc/systemd/journald.conf to 2520",
	     f.journal.burst = 2519);
	CASE("rate", OK, "at most 2520", NULL, f.journal.burst = 2520; f.journal.interval_usec = MINUTE_USEC);
	CASE("rate", WARN, "3780", "3780", f.journal.burst = 2520; f.journal.interval_usec = MINUTE_USEC + 1);
	CASE("rate", OK, "no rate limit", NULL, f.journal.burst = 0);
	CASE("rate", OK, "no rate limit", NULL, f.journal.burst = 1; f.journal.interval_usec = 0);
	CASE("catalog", WARN, "does not know it yet", "journalctl --update-catalog", f.is_catalog_known = false);
	CASE("catalog", WARN, "not installed", "/usr/lib/systemd/catalog", f.is_catalog_known = f.has_catalog_file = false);
}

TEST(files_and_service)
{
	CASE("configuration", FAIL, "/etc/g.conf:3: bad", "gpuxray check", errors_add(&f.config_errors, "/etc/g.conf", 3, "bad"));
	CASE("rules", FAIL, "/r.conf:7: worse", "correct it", errors_add(&f.rule_errors, "/r.conf", 7, "worse"); f.rules = 0);
	CASE("rules", WARN, "there are none", "if it is not meant so", errors_warn(&f.rule_errors, NULL, 0, "there are none");
	     f.rules = 0);
	CASE("rules", FAIL, "5 further ones", "correct", f.rule_errors.dropped_count = 5);
	CASE("rules", OK, "3 rules in 1 file: good", NULL, (void)0);
	CASE("service", OK, "is active", NULL, (void)0);
	CASE("service", OK, "systemd does not run", NULL, f.has_systemd = false);
	CASE("service", WARN, "not installed", "make install", f.has_unit = false);
	CASE("service", WARN, "not active", "enable --now", SET(unit_state, "inactive"));
	CASE("service", WARN, "does not say", "systemctl status", SET(unit_state, ""));
	CASE("service", FAIL, "has failed", "journalctl -e -u gpuxray", SET(unit_state, "failed"));
	CASE("daemon", OK, "answers at /run/gpuxray/status.sock", NULL, (void)0);
	CASE("daemon", FAIL, "none answers", "restart", f.daemon_error = -ENOENT);
	CASE("daemon", WARN, "none answers", "gpuxray run", f.daemon_error = -ECONNREFUSED; SET(unit_state, "inactive"));
	CASE("daemon", WARN, "may not be asked", "root", f.daemon_error = -EACCES);
	CASE("daemon", FAIL, "timed out", "restart", f.daemon_error = -ETIMEDOUT);
}

TEST(journald_conf)
{
	static const struct {
		const char *text, *storage;
		uint64_t burst, interval_usec;
	} cases[] = {
		{ "", "x", 7, 7 },
		{ "[Journal]\nStorage=persistent\nRateLimitBurst=5\nRateLimitIntervalSec=90\n", "persistent", 5, 90000000 },
		{ "RateLimitBurst=5\n[Other]\nRateLimitBurst=6\n", "x", 7, 7 },
		{ "[Journal]\n#RateLimitBurst=5\n; Storage=none\n", "x", 7, 7 },
		{ " [Journal]\r\n RateLimitBurst = 5 \r\n", "x", 5, 7 },
		{ "[Journal]\nRateLimitIntervalSec=5min 20s\n", "x", 7, 320000000 },
		{ "[Journal]\nRateLimitInterval=1h30m\n", "x", 7, 5400000000 },
		{ "[Journal]\nRateLimitIntervalSec=1.5s\n", "x", 7, 1500000 },
		{ "[Journal]\nRateLimitIntervalSec=0\nRateLimitBurst=0", "x", 0, 0 },
		{ "[Journal]\nRateLimitIntervalSec=ten\nRateLimitBurst=many\nStorage=ram\n", "x", 7, 7 },
		{ "[Journal]\nRateLimitIntervalSec=infinity\n", "x", 7, 1000000000000000 },
		{ "[Journal]\nRateLimitIntervalSec=\nRateLimitBurst=\nStorage=\n", "auto", 10000, 30000000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor_journal j = { .burst = 7, .interval_usec = 7, .storage = "x" };

		doctor_parse_journald(cases[i].text, &j);
		EXPECT_STR(j.storage, cases[i].storage);
		EXPECT_EQ(j.burst, cases[i].burst);
		EXPECT_EQ(j.interval_usec, cases[i].interval_usec);
	}
}

static bool put(const struct temp_proc *t, const char *name, const char *text)
{
	char path[512], dir[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", t->root, name);
	for (char *p = path + strlen(t->root) + 1; (p = strchr(p, '/')); p++) {
		(void)snprintf(dir, sizeof(dir), "%.*s", (int)(p - path), path);
		(void)mkdir(dir, 0700);
	}
	file = fopen(path, "we");
	if (!file)
		return false;
	fputs(text, file);
	return fclose(file) == 0;
}

/* By name over all folders; a name in /etc hides the same one elsewhere. */
TEST(journald_dropins)
{
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	struct doctor_journal j = {};

	ASSERT(temp_proc_new(&t));
	doctor_read_journal(t.root, &j);
	EXPECT_STR(j.storage, "auto");
	EXPECT_EQ(j.burst, 10000);
	EXPECT_EQ(j.interval_usec, 30000000);
	EXPECT(!j.has_socket && !j.has_var_log);
	ASSERT(put(&t, "etc/systemd/journald.conf", "[Journal]\nRateLimitBurst=1\nStorage=volatile\n"));
	ASSERT(put(&t, "usr/lib/systemd/journald.conf", "[Journal]\nStorage=none\n"));
	ASSERT(put(&t, "usr/lib/systemd/journald.conf.d/10-a.conf", "[Journal]\nRateLimitBurst=2\n"));
	ASSERT(put(&t, "etc/systemd/journald.conf.d/20-b.conf", "[Journal]\nRateLimitBurst=3\nRateLimitIntervalSec=1\n"));
	ASSERT(put(&t, "run/systemd/journald.conf.d/20-b.conf", "[Journal]\nRateLimitIntervalSec=2\n"));
	ASSERT(put(&t, "etc/systemd/journald.conf.d/99.txt", "[Journal]\nRateLimitBurst=4\n"));
	ASSERT(put(&t, "var/log/journal/x", ""));
	doctor_read_journal(t.root, &j);
	EXPECT_STR(j.storage, "volatile");
	EXPECT_EQ(j.burst, 3);
	EXPECT_EQ(j.interval_usec, 1000000);
	EXPECT(j.has_var_log);
}

TEST(read_kernel)
{
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	struct doctor_env env = { .root = t.root, .proc_root = t.root, .sys_root = t.root };
	struct doctor_facts f = {};

	ASSERT(temp_proc_new(&t));
	ASSERT(put(&t, "sys/kernel/osrelease", "5.14.0-503.el9\n"));
	ASSERT(put(&t, "sys/kernel/perf_event_paranoid", "-1\n"));
	ASSERT(put(&t, "self/status", "Name:\tx\nUid:\t1000\t33\t1000\t1000\nCapPrm:\tff\nCapEff:\t000001fffeffffff\n"));
	ASSERT(put(&t, "self/uid_map", "         0       1000          1\n"));
	ASSERT(put(&t, "self/mounts", "proc /proc proc rw,nosuid,hidepid=invisible,gid=4 0 0\ntmpfs /tmp tmpfs rw 0 0\n"));
	ASSERT(put(&t, "kernel/security/lockdown", "none integrity [confidentiality]\n"));
	doctor_read_kernel(&env, &f);
	EXPECT_STR(f.release, "5.14.0-503.el9");
	EXPECT_EQ(f.major, 5);
	EXPECT_EQ(f.minor, 14);
	EXPECT(f.has_paranoid);
	EXPECT_EQ(f.paranoid, -1);
	EXPECT_EQ(f.uid, 33);
	EXPECT_EQ(f.capabilities, 0x1fffeffffff);
	EXPECT(f.is_user_namespace);
	EXPECT_STR(f.hidepid, "invisible");
	EXPECT_STR(f.lockdown, "confidentiality");
	EXPECT(!f.has_btf);
	EXPECT(f.pid_namespace_error < 0);
	ASSERT(put(&t, "kernel/btf/vmlinux", ""));
	ASSERT(put(&t, "self/uid_map", "         0          0 4294967295\n"));
	ASSERT(put(&t, "self/mounts", "proc /proc proc rw,hidepid=2 0 0\nproc /proc proc rw 0 0\n"));
	doctor_read_kernel(&env, &f);
	EXPECT(f.has_btf);
	EXPECT(!f.is_user_namespace);
	EXPECT_STR(f.hidepid, "");
}

TEST(read_nvidia_driver)
{
	static const struct {
		const char *text, *version;
	} cases[] = {
		{ "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc "
		  "version 12.3.0\n", "535.183.01" },
		{ "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@h)  Tue\n", "580.95.05" },
		{ "NVRM version: none\nGCC version: gcc 12.3.0\n", "" },
		{ "GCC version: gcc 12.3.0\n", "" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(temp_proc_done) struct temp_proc t = {};
		struct doctor_env env = { .root = t.root, .proc_root = t.root, .sys_root = t.root };
		struct doctor_facts f = {};

		ASSERT(temp_proc_new(&t) && put(&t, "driver/nvidia/version", cases[i].text));
		doctor_read_kernel(&env, &f);
		EXPECT_STR(f.nvidia_driver, cases[i].version);
	}
}

TEST(read_processes)
{
	static const char maps[] = "7f00-7f01 r-xp 00000000 fd:00 12 /usr/lib/libcuda.so.1\n"
				   "7f01-7f02 r-xp 00000000 fd:00 13 /usr/lib/libc.so.6\n";
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	struct doctor_env env = { .root = t.root, .proc_root = t.root, .sys_root = t.root };
	struct doctor_facts f = {};

	ASSERT(temp_proc_new(&t));
	ASSERT(temp_proc_text(&t, 11, "maps", maps) && temp_proc_text(&t, 11, "status", "Name:\tx\nSeccomp:\t2\n"));
	ASSERT(temp_proc_text(&t, 12, "maps", maps) && temp_proc_text(&t, 12, "status", "Name:\tx\nSeccomp:\t0\n"));
	ASSERT(temp_proc_text(&t, 13, "maps", strchr(maps, '\n') + 1));
	ASSERT(put(&t, "usr/lib64/libze_loader.so.1", ""));
	EXPECT_EQ(doctor_read_processes(&env, &f), 0);
	EXPECT_EQ(f.users, 2);
	EXPECT_EQ(f.filtered, 1);
	EXPECT_EQ(f.first_filtered, 11);
	EXPECT_STR(strbuf_str(&f.mapped), "/usr/lib/libcuda.so.1");
	EXPECT_STR(strbuf_str(&f.installed), "/usr/lib64/libze_loader.so.1");
	doctor_facts_done(&f);
}

TEST(nvml_not_there)
{
	struct doctor_nvml n;

	doctor_try_nvml("/no/such/library.so", 5000, &n);
	EXPECT_EQ(n.error, -ENOENT);
	EXPECT(strstr(n.reason, "not found"));
}

TEST_MAIN()
