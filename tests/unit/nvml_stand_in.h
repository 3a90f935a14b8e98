/* SPDX-License-Identifier: MIT */
/* The stand-in NVML that the end-to-end tests run on, built for a test, and this process as one that uses its cards. */
#pragma once

#include "nvml_make.h"
#include "tests/fake_gpu/fake_gpu.h"

#define SOURCES "tests/fake_gpu/libnvidia-ml.c tests/fake_gpu/state.c"

struct stand_in {
	struct nvml_library lib;
	struct fake_gpu_state *state;
	char state_path[128];
};

static inline void stand_in_done(struct stand_in *f)
{
	static const char *const names[] = {
		"FAKE_GPU_STATE", "FAKE_GPU_MIG",      "FAKE_NVML_LISTS",  "FAKE_NVML_LOST",
		"FAKE_GPU_COUNT", "FAKE_NVML_NO_USED", "FAKE_NVML_GHOSTS", "FAKE_NVML_FIGURES",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unsetenv(names[i]);
	free(f->state);
	nvml_library_done(&f->lib);
}

/* The start of a process as the stand-in checks it. */
static inline uint64_t start_ticks(void)
{
	char text[1024] = "", *p;
	FILE *f = fopen("/proc/self/stat", "re");

	if (f) {
		(void)!fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
	}
	p = strrchr(text, ')');
	for (int field = 2; field < 22 && p; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* This process holds used0 bytes of card 0 and used1 of card 1. */
static inline bool stand_in_new(struct stand_in *f, uint64_t used0, uint64_t used1)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;
	const char *cc = getenv("CC");
	FILE *file;
	bool ok;

	f->state = calloc(1, sizeof(*f->state));
	if (!f->state || !temp_proc_new(&f->lib.dir))
		return false;
	f->state->magic = FAKE_GPU_MAGIC;
	f->state->slots[0] = (struct fake_gpu_slot){
		.pid = (uint32_t)getpid(),
		.start_ticks = start_ticks(),
		.used_bytes = { used0, used1 },
		.contexts = { used0 != 0, used1 != 0 },
	};
	(void)snprintf(f->state_path, sizeof(f->state_path), "%s/state", f->lib.dir.root);
	file = fopen(f->state_path, "we");
	if (!file)
		return false;
	ok = fwrite(f->state, sizeof(*f->state), 1, file) == 1;
	if (fclose(file) != 0 || !ok)
		return false;
	(void)setenv("FAKE_GPU_STATE", f->state_path, 1);
	(void)snprintf(f->lib.path, sizeof(f->lib.path), "%s/libnvidia-ml.so.1", f->lib.dir.root);
	strbuf_addf(&command, "%s -D_GNU_SOURCE -shared -fPIC -w -o %s " SOURCES, cc ? cc : "cc", f->lib.path);
	return command.error == 0 && system(strbuf_str(&command)) == 0;
}

/* What the stand-in says from now on. */
static inline bool stand_in_figures(const struct stand_in *f, const char *text)
{
	char path[160], fresh[168];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s.figures", f->state_path);
	(void)snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = fopen(fresh, "we");
	if (!file || fputs(text, file) < 0)
		return false;
	return fclose(file) == 0 && rename(fresh, path) == 0;
}

static inline int stand_in_read(const struct stand_in *f, struct gpu_snapshot *ret)
{
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	const char *reason;
	int r;

	gpu_snapshot_done(ret);
	r = nvml_open(f->lib.path, &n, &reason);
	return r < 0 ? r : nvml_read(n, ret);
}
