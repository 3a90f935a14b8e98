/* SPDX-License-Identifier: MIT */
/* Libraries in place of the driver's, each with answers of its own, and what their readers say. */
#pragma once

#include "base/strbuf.h"
#include "proc/nvml.h"
#include "temp_proc.h"
#include "test.h"

/* A library with the interface of the driver's, its answers chosen by macros at build time. */
static const char nvml_source[] =
	"#include <string.h>\n"
	"#include <unistd.h>\n"
	"#ifndef DEVICES\n#define DEVICES 2\n#endif\n"
	"#ifndef RECORDS\n#define RECORDS\n#endif\n"
	"#ifndef OTHERS\n#define OTHERS\n#endif\n"
	"#ifndef GRAPHICS\n#define GRAPHICS\n#endif\n"
	"#ifndef MPS\n#define MPS\n#endif\n"
	"#ifndef TOTAL\n#define TOTAL 1000000ull\n#endif\n"
	"#ifndef USED\n#define USED 400000ull\n#endif\n"
	"#ifndef INIT\n#define INIT 0\n#endif\n"
	"#ifndef LIST_ERROR\n#define LIST_ERROR(id) 0\n#endif\n"
	"#ifndef DRAW_ERROR\n#define DRAW_ERROR(id) 0\n#endif\n"
	"#ifndef UUID_ERROR\n#define UUID_ERROR(id) 0\n#endif\n"
	"#ifndef HANDLE_ERROR\n#define HANDLE_ERROR(i) 0\n#endif\n"
	"#define NA 0xffffffffffffffffull\n"
	"struct memory { unsigned long long total, free, used; };\n"
	"struct v1 { unsigned pid; unsigned long long used; };\n"
	"struct v2 { unsigned pid; unsigned long long used; unsigned gi, ci; };\n"
	"struct v535 { unsigned pid; unsigned long long used; unsigned gi, ci; unsigned long long protected; };\n"
	"struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };\n"
	"static int devices[DEVICES + 1];\n"
	"static int instances[] = { 100, 101 };\n"
	"#ifdef MIG\n"
	"enum { FIRST = 100, OTHER = 101 };\n"
	"#else\n"
	"enum { FIRST = 0, OTHER = 1 };\n"
	"#endif\n"
	"int nvmlInit_v2(void) { return INIT; }\n"
	"int nvmlShutdown(void) { return 0; }\n"
	"const char *nvmlErrorString(int e) { return e == 9 ? \"Driver Not Loaded\" : \"Unknown Error\"; }\n"
	"int nvmlDeviceGetCount_v2(unsigned *n)\n"
	"{\n"
	"#ifdef HANG\n"
	"	for (;;) pause();\n"
	"#endif\n"
	"#ifdef FAIL_FILE\n"
	"	if (access(FAIL_FILE, F_OK) == 0) return 15;\n"
	"#endif\n"
	"	*n = DEVICES; return 0;\n"
	"}\n"
	"int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)\n"
	"{ devices[i] = i; *d = &devices[i]; return HANDLE_ERROR(i); }\n"
	"#ifndef NO_UUID\n"
	"int nvmlDeviceGetUUID(void *d, char *s, unsigned n)\n"
	"{\n"
	"#ifdef UNTERMINATED\n"
	"	memset(s, 'U', n); return 0;\n"
	"#endif\n"
	"	strcpy(s, *(int *)d >= 100 ? \"MIG-x\" : *(int *)d ? \"GPU-one\" : \"GPU-zero\");\n"
	"	if (*(int *)d >= 100) s[4] = 'a' + *(int *)d - 100;\n"
	"	return UUID_ERROR(*(int *)d);\n"
	"}\n"
	"#endif\n"
	"#ifdef MIG\n"
	"int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending)\n"
	"{ *current = *(int *)d == 0; *pending = *current; return *current ? 0 : 3; }\n"
	"int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { *n = MIG; return 0; }\n"
	"int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **ret)\n"
	"{ if (i != 0 && i != 3) return 6; *ret = &instances[i / 3]; return 0; }\n"
	"#endif\n"
	"#ifdef PCI_V3\n"
	"int nvmlDeviceGetPciInfo_v3(void *d, struct pci *p) { strcpy(p->bus_id, PCI_V3); return 0; }\n"
	"#endif\n"
	"#ifdef PCI_V2\n"
	"int nvmlDeviceGetPciInfo_v2(void *d, struct pci *p) { strcpy(p->legacy, PCI_V2); return 0; }\n"
	"#endif\n"
	"int nvmlDeviceGetName(void *d, char *s, unsigned n) { strcpy(s, \"NVIDIA Test\"); return 0; }\n"
	"int nvmlDeviceGetMemoryInfo(void *d, struct memory *m)\n"
	"{ m->total = TOTAL; m->used = USED; m->free = 0; return 0; }\n"
	"#define LIST(name, record, FIRSTS, ERROR) int name(void *d, unsigned *n, void *out) { \\\n"
	"	static const struct record first[] = { FIRSTS { 0 } }, other[] = { OTHERS { 0 } }; \\\n"
	"	int id = *(int *)d; \\\n"
	"	const struct record *list = id == OTHER ? other : first; \\\n"
	"	unsigned have = (id == OTHER ? sizeof(other) : sizeof(first)) / sizeof(first[0]) - 1; \\\n"
	"	if (ERROR(id)) return ERROR(id); \\\n"
	"	if (id != FIRST && id != OTHER) { *n = 0; return FIRST && id == 0 ? 4 : 0; } \\\n"
	"	if (*n < have) { *n = have; return 7; } \\\n"
	"	memcpy(out, list, have * sizeof(first[0])); *n = have; return 0; }\n"
	"#ifdef V1\nLIST(nvmlDeviceGetComputeRunningProcesses, v1, RECORDS, LIST_ERROR)\n#endif\n"
	"#ifdef V2\nLIST(nvmlDeviceGetComputeRunningProcesses_v2, v2, RECORDS, LIST_ERROR)\n#endif\n"
	"#ifdef V3\nLIST(nvmlDeviceGetComputeRunningProcesses_v3, v2, RECORDS, LIST_ERROR)\n#endif\n"
	"#ifdef V535\nLIST(nvmlDeviceGetComputeRunningProcesses_v3, v535, RECORDS, LIST_ERROR)\n#endif\n"
	"#ifdef DRAW\n"
	"LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, v2, GRAPHICS, DRAW_ERROR)\n"
	"LIST(nvmlDeviceGetMPSComputeRunningProcesses, v1, MPS, DRAW_ERROR)\n"
	"#endif\n"
	"#ifdef CELSIUS_V\n"
	"int nvmlDeviceGetTemperatureV(void *d, struct { unsigned version, sensor; int celsius; } *t)\n"
	"{ if (t->version != (12u | 1u << 24) || t->sensor) return 25; t->celsius = CELSIUS_V; return 0; }\n"
	"#endif\n"
	"#ifdef LIMIT\n"
	"int nvmlDeviceGetPowerManagementLimit(void *d, unsigned *milliwatts) { *milliwatts = LIMIT; return 0; }\n"
	"#endif\n"
	"#ifdef RATES\n"
	"int nvmlDeviceGetUtilizationRates(void *d, unsigned *rates) { RATES; return 0; }\n"
	"#endif\n"
	/* So many processes, each busy with its pid modulo 101. */
	"#ifdef SAMPLES\n"
	"#include <sys/time.h>\n"
	"#ifndef SM\n#define SM ((i + 1) % 101)\n#endif\n"
	"#ifndef STAMP\n#define STAMP now\n#endif\n"
	"struct sample { unsigned pid; unsigned long long stamp; unsigned sm, memory, encoder, decoder; };\n"
	"int nvmlDeviceGetProcessUtilization(void *d, struct sample *out, unsigned *n, unsigned long long since)\n"
	"{\n"
	"	struct timeval t;\n"
	"	unsigned long long now;\n"
	"	gettimeofday(&t, NULL); now = t.tv_sec * 1000000ull + t.tv_usec;\n"
	"	if (*n < SAMPLES) { *n = SIZE_SAID; return 7; }\n"
	"	for (unsigned i = 0; i < SAMPLES; i++)\n"
	"		out[i] = (struct sample){ i + 1, STAMP, SM, 0, 0, 0 };\n"
	"	*n = SAMPLES; return 0;\n"
	"}\n"
	"#endif\n"
	"#ifdef V3_MISSING\n"
	"int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *out) { return 13; }\n"
	"#endif\n"
	"#ifdef COUNT_GARBAGE\n"
	"int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *out)\n"
	"{ *n = 0x7fffffff; return COUNT_GARBAGE; }\n"
	"#endif\n";

struct nvml_library {
	struct temp_proc dir;
	char path[128];
};

static inline void nvml_library_done(struct nvml_library *f)
{
	temp_proc_done(&f->dir);
}

/* Builds the library with these -D options. The name differs each time: a library once loaded stays. */
static inline bool nvml_library_new(struct nvml_library *f, const char *options)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;
	const char *cc = getenv("CC");

	if (!temp_proc_new(&f->dir) || !temp_proc_text(&f->dir, 1, "nvml.c", nvml_source))
		return false;
	(void)snprintf(f->path, sizeof(f->path), "%s/libnvidia-ml.so.1", f->dir.root);
	strbuf_addf(&command, "%s -shared -fPIC -w -DFAIL_FILE='\"%s/fail\"' %s -o %s %s/1/nvml.c", cc ? cc : "cc",
		    f->dir.root, options, f->path, f->dir.root);
	return command.error == 0 && system(strbuf_str(&command)) == 0;
}

/* Opens the library and reads once. */
static inline int read_once(const char *options, struct gpu_snapshot *ret)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	const char *reason = NULL;
	int r;

	if (!nvml_library_new(&f, options)) {
		printf("# the stand-in library does not build: %s\n", options);
		return -1;
	}
	r = nvml_open(f.path, &n, &reason);
	if (r < 0)
		return r;
	return nvml_read(n, ret);
}

/* What the driver said of a pid; UINT64_MAX - 1 if it is not in the list. */
static inline uint64_t used_by(const struct gpu_snapshot *s, uint32_t pid)
{
	for (size_t i = 0; i < s->process_count; i++) {
		if (s->processes[i].pid == pid)
			return s->processes[i].used_bytes;
	}
	return UINT64_MAX - 1;
}
