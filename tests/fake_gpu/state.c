/* SPDX-License-Identifier: MIT */
/* The file through which processes on the stand-in and the stand-in NVML see each other. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_gpu.h"

uint64_t state_env(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	char *end;
	uint64_t v;

	if (!s || *s < '0' || *s > '9')
		return otherwise;
	v = strtoull(s, &end, 10);
	return *end ? otherwise : v;
}

int state_device_count(void)
{
	uint64_t n = state_env("FAKE_GPU_COUNT", 2);

	return n > FAKE_GPU_MAX ? FAKE_GPU_MAX : (int)n;
}

uint64_t state_device_bytes(void)
{
	return state_env("FAKE_GPU_BYTES", 16ull << 30);
}

void state_uuid(int index, uint8_t ret[16])
{
	static const uint8_t base[16] = { 0xfa, 0x4e, 0x00, 0x00, 0x6b, 0x1d, 0x42, 0x9c,
					  0x8f, 0x00, 0x5e, 0xed, 0xc0, 0xde, 0x00, 0x00 };

	memcpy(ret, base, 16);
	ret[3] = (uint8_t)index;
	ret[15] = (uint8_t)(0x10 + index);
}

void state_uuid_text(int index, char ret[41])
{
	uint8_t u[16];
	char *p = ret + 4;

	state_uuid(index, u);
	memcpy(ret, "GPU-", 4);
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		p += snprintf(p, 3, "%02x", u[i]);
	}
}

static void state_path(char *ret, size_t size, const char *suffix)
{
	const char *path = getenv("FAKE_GPU_STATE");

	if (path)
		snprintf(ret, size, "%s%s", path, suffix);
	else
		snprintf(ret, size, "/dev/shm/fake-gpu-%u%s", (unsigned int)getuid(), suffix);
}

/* The value of a word name=value in text. */
static bool find_figure(const char *text, const char *name, uint64_t *ret)
{
	size_t len = strlen(name);

	for (const char *word = text + strspn(text, " \n,"); *word; word += strspn(word, " \n,")) {
		size_t word_len = strcspn(word, " \n,");

		if (word_len > len + 1 && strncmp(word, name, len) == 0 && word[len] == '=') {
			*ret = strtoull(word + len + 1, NULL, 10);
			return true;
		}
		word += word_len;
	}
	return false;
}

uint64_t state_figure_named(const char *name, uint64_t otherwise)
{
	const char *env = getenv("FAKE_NVML_FIGURES");
	char path[512], text[4096] = "";
	uint64_t v;
	int fd;

	state_path(path, sizeof(path), ".figures");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof(text) - 1);

		text[n > 0 ? n : 0] = 0;
		close(fd);
	}
	return find_figure(text, name, &v) || (env && find_figure(env, name, &v)) ? v : otherwise;
}

uint64_t state_figure(const char *name, int index, uint64_t otherwise)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%d", name, index);
	return state_figure_named(key, state_figure_named(name, otherwise));
}

struct fake_gpu_state *state_map(void)
{
	struct fake_gpu_state *s;
	struct stat st;
	char path[512];
	int fd;

	state_path(path, sizeof(path), "");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return NULL;
	/* An empty state is all zero, so whoever comes first only has to make the file long enough. */
	if (fstat(fd, &st) < 0 || ((size_t)st.st_size < sizeof(*s) && ftruncate(fd, sizeof(*s)) < 0)) {
		close(fd);
		return NULL;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (s == MAP_FAILED)
		return NULL;
	if (s->magic != 0 && s->magic != FAKE_GPU_MAGIC) {
		munmap(s, sizeof(*s));
		return NULL;
	}
	s->magic = FAKE_GPU_MAGIC;
	return s;
}

uint64_t state_start_ticks(uint32_t pid)
{
	char path[40], buf[1024], *p;
	unsigned long long ticks = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = 0;
	p = strrchr(buf, ')'); /* the name before it may hold anything */
	if (!p)
		return 0;
	for (int field = 2; field < 22 && p; field++)
		p = strchr(p + 1, ' ');
	if (p)
		ticks = strtoull(p, NULL, 10);
	return ticks;
}

/* The same for all code in this image of the process, another one after exec. */
static uint32_t image_id(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t v = 1;

	if (random)
		memcpy(&v, random, sizeof(v));
	v *= 0x9e3779b97f4a7c15ull;
	return (uint32_t)(v >> 32) | 1;
}

static int slot_is_stale(const struct fake_gpu_slot *slot, uint32_t pid, uint32_t self, uint64_t self_start,
			 uint32_t image)
{
	if (pid == self)
		return slot->start_ticks != self_start || slot->image != image;
	return state_start_ticks(pid) != slot->start_ticks;
}

struct fake_gpu_slot *state_claim(void)
{
	struct fake_gpu_state *s = state_map();
	uint32_t self = (uint32_t)getpid(), image = image_id();
	uint64_t start = state_start_ticks(self);

	/* Twice: slots of the dead are taken only when none is free, for their check costs a look into /proc; but what
	 * this very process left before an exec has to go at once, or NVML would count it. */
	for (int round = 0; s && round < 2; round++) {
		for (int i = 0; i < FAKE_GPU_SLOTS; i++) {
			struct fake_gpu_slot *slot = &s->slots[i];
			uint32_t pid = __atomic_load_n(&slot->pid, __ATOMIC_ACQUIRE);

			if (pid == self && slot_is_stale(slot, pid, self, start, image))
				__atomic_compare_exchange_n(&slot->pid, &pid, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
		}
		for (int i = 0; i < FAKE_GPU_SLOTS; i++) {
			struct fake_gpu_slot *slot = &s->slots[i];
			uint32_t pid = __atomic_load_n(&slot->pid, __ATOMIC_ACQUIRE);

			if (pid && (round == 0 || !slot_is_stale(slot, pid, self, start, image)))
				continue;
			if (!__atomic_compare_exchange_n(&slot->pid, &pid, self, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				continue;
			slot->start_ticks = 0; /* readers do not count it until it is complete */
			memset(slot->used_bytes, 0, sizeof(slot->used_bytes));
			memset(slot->contexts, 0, sizeof(slot->contexts));
			slot->context_bytes = state_env("FAKE_GPU_CONTEXT_BYTES", 0);
			/* Not set: UINT64_MAX and 1. */
			s->sm[i] = (uint32_t)(state_env("FAKE_GPU_SM", UINT64_MAX) + 1);
			slot->image = image;
			__atomic_store_n(&slot->start_ticks, start, __ATOMIC_RELEASE);
			return slot;
		}
	}
	return calloc(1, sizeof(struct fake_gpu_slot));
}
