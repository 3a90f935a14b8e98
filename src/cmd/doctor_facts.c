/* SPDX-License-Identifier: MIT */
#include "cmd/doctor_facts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-bus.h>
#include <systemd/sd-journal.h>

#include "cmd/status_server.h"
#include "record/ids.h"
#include "rule/rule.h"
#include "rule/settings.h"
#include "stack/elf_file.h"
#include "trace/calls.h"
#include "trace/search.h"

#define NVML_WAIT_MS 10000
#define BUS_WAIT_USEC (5 * 1000 * 1000)

static bool exists_in(const char *root, const char *const *dirs, size_t len, const char *name)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < len; i++) {
		(void)snprintf(path, sizeof(path), "%s%s/%s", root, dirs[i], name);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

static void read_catalog(const char *root, struct doctor_facts *f)
{
	static const char *const dirs[] = { "/usr/lib/systemd/catalog", "/usr/local/lib/systemd/catalog",
					    "/etc/systemd/catalog" };
	_cleanup_free_ char *text = NULL;
	sd_id128_t id;

	f->has_catalog_file = exists_in(root, dirs, ARRAY_SIZE(dirs), "gpuxray.catalog");
	/* journalctl's own look into its database, which is the host's. */
	f->is_catalog_known = !*root && sd_id128_from_string(MESSAGE_ID_START, &id) >= 0 &&
			      sd_journal_get_catalog_for_message_id(id, &text) >= 0;
}

static void ask_systemd(struct doctor_facts *f)
{
	static const char service[] = "org.freedesktop.systemd1", unit[] = "org.freedesktop.systemd1.Unit",
			  path[] = "/org/freedesktop/systemd1/unit/gpuxray_2eservice";
	_cleanup_free_ char *load = NULL, *active = NULL;
	sd_bus *bus = NULL;

	if (sd_bus_open_system(&bus) < 0)
		return;
	(void)sd_bus_set_method_call_timeout(bus, BUS_WAIT_USEC);
	/* A unit that nobody has gets "inactive" as well. */
	if (sd_bus_get_property_string(bus, service, path, unit, "LoadState", NULL, &load) >= 0 &&
	    strcmp(load, "loaded") == 0 &&
	    sd_bus_get_property_string(bus, service, path, unit, "ActiveState", NULL, &active) >= 0) {
		f->has_unit = true;
		(void)snprintf(f->unit_state, sizeof(f->unit_state), "%s", active);
	}
	sd_bus_flush_close_unref(bus);
}

static void read_service(const struct doctor_env *env, struct doctor_facts *f)
{
	static const char *const dirs[] = { "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
					    "/usr/lib/systemd/system", "/lib/systemd/system" };
	static const char *const running[] = { "/run/systemd" };
	_cleanup_free_ char *answer = NULL;

	/* As sd_booted() asks. */
	f->has_systemd = exists_in(env->root, running, 1, "system");
	f->has_unit = exists_in(env->root, dirs, ARRAY_SIZE(dirs), "gpuxray.service");
	if (f->has_systemd && !*env->root)
		ask_systemd(f);
	(void)snprintf(f->socket, sizeof(f->socket), "%s", env->socket);
	f->daemon_error = status_ask(env->socket, true, &answer);
}

static int read_rules(const char *root, const struct settings *s, struct doctor_facts *f)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	int r = ruleset_load(root, s->rules, s->rules_len, &f->rule_errors, &rs);

	if (rs) {
		f->rules = rs->len;
		f->rule_files = rs->file_count;
	}
	return r == -ENOMEM ? r : 0;
}

static int look_at_library(const char *path, struct doctor_library *ret)
{
	_cleanup_(elf_file_freep) struct elf_file *elf = NULL;
	_cleanup_(search_done) struct search s = {};
	int fd, r;

	*ret = (struct doctor_library){ .path = strdup(path) };
	if (!ret->path)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	r = fd < 0 ? -errno : elf_file_open(fd, &elf);
	if (r == 0)
		r = search_file(elf, path, true, false, &s);
	ret->error = r;
	ret->functions = s.len;
	return r == -ENOMEM ? r : 0;
}

static int read_libraries(const struct doctor_env *env, const struct settings *s, struct doctor_facts *f)
{
	int r = calls_init(NULL, 0);

	f->libraries = calloc(env->libraries_len + s->libraries_len + 1, sizeof(*f->libraries));
	if (!f->libraries)
		return -ENOMEM;
	for (size_t i = 0; i < env->libraries_len && r == 0; i++)
		r = look_at_library(env->libraries[i], &f->libraries[f->libraries_len++]);
	for (size_t i = 0; i < s->libraries_len && r == 0; i++)
		r = look_at_library(s->libraries[i], &f->libraries[f->libraries_len++]);
	return r;
}

static int read_files(const struct doctor_env *env, struct doctor_facts *f)
{
	_cleanup_(settings_done) struct settings s = {};
	int r = settings_init(&s);

	if (r == 0 && settings_load(env->root, NULL, &f->config_errors, &s) == -ENOMEM)
		r = -ENOMEM;
	if (r == 0)
		r = read_rules(env->root, &s, f);
	if (r < 0)
		return r;
	(void)snprintf(f->journal.sink, sizeof(f->journal.sink), "%s", s.sink);
	f->journal.records_per_minute = s.limits.records_per_minute;
	f->journal.history_per_minute = s.limits.history_per_minute;
	return read_libraries(env, &s, f);
}

int doctor_read(const struct doctor_env *env, struct doctor_facts *ret)
{
	int r;

	*ret = (struct doctor_facts){};
	doctor_read_kernel(env, ret);
	r = doctor_read_processes(env, ret);
	if (r == 0)
		r = read_files(env, ret);
	if (r < 0)
		return r;
	doctor_read_journal(env->root, &ret->journal);
	read_catalog(env->root, ret);
	read_service(env, ret);
	doctor_try_nvml(NULL, NVML_WAIT_MS, &ret->nvml);
	/* Last: it raises the limit of locked memory, and makes the call table its own. */
	doctor_try_probe(ret, &ret->probe);
	return 0;
}
