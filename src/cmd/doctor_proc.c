/* SPDX-License-Identifier: MIT */
/* Kernel, privileges and processes. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/units.h"
#include "cmd/doctor_facts.h"
#include "proc/pid_namespace.h"
#include "proc/procfs.h"
#include "trace/library.h"

#define TEXT_BYTES_MAX (1u << 20)
#define PATHS_SHOWN_MAX 8

/* NULL when it cannot be read. */
static char *read_text(const char *root, const char *path)
{
	char full[PATH_MAX];
	char *text = NULL;
	size_t len;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	return file_read(AT_FDCWD, full, TEXT_BYTES_MAX, &text, &len) < 0 ? NULL : text;
}

/* "none [integrity] confidentiality" */
static void read_lockdown(const char *sys_root, struct doctor_facts *f)
{
	_cleanup_free_ char *text = read_text(sys_root, "/kernel/security/lockdown");
	char *from = text ? strchr(text, '[') : NULL;

	if (from)
		(void)snprintf(f->lockdown, sizeof(f->lockdown), "%.*s", (int)strcspn(from + 1, "]"), from + 1);
}

static void read_status(const char *proc_root, struct doctor_facts *f)
{
	_cleanup_free_ char *text = read_text(proc_root, "/self/status");
	const char *at = text ? strstr(text, "\nCapEff:") : NULL;

	if (at)
		f->capabilities = strtoull(at + strlen("\nCapEff:"), NULL, 16);
	at = text ? strstr(text, "\nUid:") : NULL;
	/* The effective one is the second. */
	if (!at || sscanf(at, "\nUid: %*u %u", &f->uid) != 1)
		f->uid = geteuid();
}

static void read_user_namespace(const char *proc_root, struct doctor_facts *f)
{
	_cleanup_free_ char *text = read_text(proc_root, "/self/uid_map");
	unsigned int inside, outside, count;

	f->is_user_namespace = text && sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 &&
			       !(inside == 0 && outside == 0 && count == UINT32_MAX);
}

/* Of the last mount on the root of /proc, which covers the others. */
static void read_hidepid(const char *proc_root, struct doctor_facts *f)
{
	_cleanup_free_ char *text = read_text(proc_root, "/self/mounts");
	char *rest = text, *line, *at;

	while (rest && (line = strsep(&rest, "\n"))) {
		char where[256], type[64], options[1024];

		if (sscanf(line, "%*s %255s %63s %1023s", where, type, options) != 3 || strcmp(where, "/proc") != 0)
			continue;
		f->hidepid[0] = '\0';
		at = strcmp(type, "proc") == 0 ? strstr(options, "hidepid=") : NULL;
		if (!at)
			continue;
		at += strlen("hidepid=");
		(void)snprintf(f->hidepid, sizeof(f->hidepid), "%.*s", (int)strcspn(at, ","), at);
		if (strcmp(f->hidepid, "0") == 0 || strcmp(f->hidepid, "off") == 0)
			f->hidepid[0] = '\0';
	}
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 ...": the first word that begins as a number. */
static void read_nvidia_driver(const char *proc_root, struct doctor_facts *f)
{
	_cleanup_free_ char *text = read_text(proc_root, "/driver/nvidia/version");
	char *rest = text ? strstr(text, "NVRM version:") : NULL, *word;

	if (rest)
		rest[strcspn(rest, "\n")] = '\0';
	while (rest && (word = strsep(&rest, " \t"))) {
		if (*word < '0' || *word > '9' || !strchr(word, '.'))
			continue;
		(void)snprintf(f->nvidia_driver, sizeof(f->nvidia_driver), "%s", word);
		return;
	}
}

void doctor_read_kernel(const struct doctor_env *env, struct doctor_facts *f)
{
	_cleanup_free_ char *release = read_text(env->proc_root, "/sys/kernel/osrelease");
	_cleanup_free_ char *paranoid = read_text(env->proc_root, "/sys/kernel/perf_event_paranoid");
	struct pid_namespace ns = {};
	struct rlimit lock = {};
	struct utsname u = {};
	char path[PATH_MAX];

	(void)uname(&u);
	(void)snprintf(f->machine, sizeof(f->machine), "%s", u.machine);
	(void)snprintf(f->release, sizeof(f->release), "%.*s", release ? (int)strcspn(release, "\n") : 64, release ?: u.release);
	(void)sscanf(f->release, "%u.%u", &f->major, &f->minor);
	(void)snprintf(path, sizeof(path), "%s/kernel/btf/vmlinux", env->sys_root);
	f->has_btf = access(path, R_OK) == 0;
	read_lockdown(env->sys_root, f);
	read_status(env->proc_root, f);
	read_user_namespace(env->proc_root, f);
	read_hidepid(env->proc_root, f);
	read_nvidia_driver(env->proc_root, f);
	f->has_paranoid = paranoid && sscanf(paranoid, "%d", &f->paranoid) == 1;
	(void)getrlimit(RLIMIT_MEMLOCK, &lock);
	f->memlock_bytes = lock.rlim_cur == RLIM_INFINITY ? UINT64_MAX : lock.rlim_cur;
	f->pid_namespace_error = pid_namespace_read(env->proc_root, &ns);
	f->is_initial = ns.is_initial;
	f->is_own_proc = ns.is_own_proc;
}

/* Once each, and of very many only that there are more. */
static void add_path(struct strbuf *sb, const char *path, size_t *count)
{
	const char *at = sb->len ? strstr(strbuf_str(sb), path) : NULL;

	if (at && strchr(", ", at[strlen(path)]))
		return;
	if (++*count < PATHS_SHOWN_MAX)
		strbuf_addf(sb, "%s%s", sb->len ? ", " : "", path);
	else if (*count == PATHS_SHOWN_MAX)
		strbuf_adds(sb, ", ...");
}

static bool is_filtered(const char *proc_root, uint32_t pid)
{
	char path[64];
	_cleanup_free_ char *text = NULL;
	const char *at;

	(void)snprintf(path, sizeof(path), "/%u/status", pid);
	text = read_text(proc_root, path);
	at = text ? strstr(text, "\nSeccomp:") : NULL;
	return at && strtoul(at + strlen("\nSeccomp:"), NULL, 10) == 2;
}

static int look_at(const char *proc_root, uint32_t pid, struct doctor_facts *f, size_t *paths)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	bool is_user = false;
	int r = maps_read(proc_root, pid, 0, &as);

	if (r < 0) {
		f->unreadable += r == -EACCES || r == -EPERM;
		return r == -ENOMEM ? r : 0;
	}
	for (size_t i = 0; i < as->count; i++) {
		if (!library_is_driver(as->mappings[i].path))
			continue;
		is_user = true;
		add_path(&f->mapped, as->mappings[i].path, paths);
	}
	if (!is_user)
		return 0;
	f->users++;
	if (is_filtered(proc_root, pid) && f->filtered++ == 0)
		f->first_filtered = pid;
	return 0;
}

static void find_installed(const char *root, struct strbuf *sb)
{
	static const char *const dirs[] = {
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
		"/usr/local/nvidia/lib64", "/opt/rocm/lib", "/run/opengl-driver/lib", "/usr/lib/wsl/lib",
	};
	static const char *const names[] = { "libcuda.so.1", "libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6",
					     "libamdhip64.so.7", "libze_loader.so.1" };
	size_t count = 0;

	for (size_t d = 0; d < ARRAY_SIZE(dirs); d++) {
		for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
			char path[PATH_MAX];

			(void)snprintf(path, sizeof(path), "%s%s/%s", root, dirs[d], names[n]);
			if (access(path, F_OK) == 0)
				add_path(sb, path + strlen(root), &count);
		}
	}
}

int doctor_read_processes(const struct doctor_env *env, struct doctor_facts *f)
{
	_cleanup_closedir_ DIR *d = opendir(env->proc_root);
	size_t paths = 0;
	uint32_t pid;
	int r = 0;

	for (struct dirent *e = d ? readdir(d) : NULL; e && r == 0; e = readdir(d))
		if (parse_u32(e->d_name, &pid) == 0)
			r = look_at(env->proc_root, pid, f, &paths);
	find_installed(env->root, &f->installed);
	return r < 0 ? r : f->mapped.error < 0 ? f->mapped.error : f->installed.error;
}
