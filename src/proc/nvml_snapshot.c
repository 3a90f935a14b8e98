/* SPDX-License-Identifier: MIT */
#include "proc/nvml_snapshot.h"

#include <string.h>

struct gpu_device gpu_device_unknown(const char *driver)
{
	struct gpu_device d = {
		.index = -1,
		.parent = -1,
		.total_bytes = UINT64_MAX,
		.used_bytes = UINT64_MAX,
		.busy_percent = UINT32_MAX,
		.memory_busy_percent = UINT32_MAX,
		.celsius = UINT32_MAX,
		.milliwatts = UINT32_MAX,
		.milliwatts_max = UINT32_MAX,
	};

	(void)snprintf(d.driver, sizeof(d.driver), "%s", driver);
	return d;
}

int gpu_snapshot_add_device(struct gpu_snapshot *s, const struct gpu_device *d)
{
	struct gpu_device *more;

	if (s->device_count >= GPU_DEVICES_MAX)
		return -E2BIG;
	more = reallocarray(s->devices, s->device_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->devices = more;
	s->devices[s->device_count++] = *d;
	return 0;
}

int gpu_snapshot_grow(struct gpu_snapshot *s, size_t count)
{
	struct gpu_process *more;

	if (count == 0)
		return 0;
	more = reallocarray(s->processes, s->process_count + count, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->processes = more;
	return 0;
}

static int gpu_process_compare(const void *a, const void *b)
{
	const struct gpu_process *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

void gpu_snapshot_fold(struct gpu_snapshot *s, size_t first)
{
	size_t kept = first;

	if (s->process_count <= first)
		return;
	qsort(s->processes + first, s->process_count - first, sizeof(*s->processes), gpu_process_compare);
	for (size_t i = first + 1; i < s->process_count; i++) {
		struct gpu_process *to = &s->processes[kept], *p = &s->processes[i];

		if (to->pid != p->pid || to->device != p->device) {
			s->processes[++kept] = *p;
			continue;
		}
		to->kinds |= p->kinds;
		if (to->used_bytes == UINT64_MAX || (p->used_bytes != UINT64_MAX && p->used_bytes > to->used_bytes))
			to->used_bytes = p->used_bytes;
		/* Not known, the largest number, goes before all: a source may not see some of the work. */
		to->sm_percent = MAX(to->sm_percent, p->sm_percent);
	}
	s->process_count = kept + 1;
}

int gpu_snapshot_copy(const struct gpu_snapshot *from, struct gpu_snapshot *ret)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = *from;

	/* One more than needed: an empty list is NULL on neither side. */
	s.devices = calloc(s.device_count + 1, sizeof(*s.devices));
	s.processes = calloc(s.process_count + 1, sizeof(*s.processes));
	if (!s.devices || !s.processes)
		return -ENOMEM;
	if (s.device_count > 0)
		memcpy(s.devices, from->devices, s.device_count * sizeof(*s.devices));
	if (s.process_count > 0)
		memcpy(s.processes, from->processes, s.process_count * sizeof(*s.processes));
	*ret = s;
	s = (struct gpu_snapshot){ 0 };
	return 0;
}

uint32_t gpu_figure(uint64_t value, uint64_t max, size_t *left_out)
{
	if (value <= max)
		return (uint32_t)value;
	if (value != UINT64_MAX)
		(*left_out)++;
	return UINT32_MAX;
}

int gpu_snapshot_append(struct gpu_snapshot *s, struct gpu_snapshot *from)
{
	size_t base = s->device_count;
	struct gpu_device *more = s->devices;

	if (from->device_count > 0) {
		more = reallocarray(s->devices, base + from->device_count, sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->devices = more;
	}
	if (gpu_snapshot_grow(s, from->process_count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < from->device_count; i++) {
		struct gpu_device *d = &s->devices[s->device_count++];

		*d = from->devices[i];
		if (d->parent >= 0)
			d->parent += (int)base;
	}
	for (size_t i = 0; i < from->process_count; i++) {
		struct gpu_process *p = &s->processes[s->process_count++];

		*p = from->processes[i];
		p->device += (uint32_t)base;
	}
	s->is_complete = s->is_complete && from->is_complete;
	s->left_out_count += from->left_out_count;
	gpu_snapshot_done(from);
	return 0;
}

void gpu_snapshot_done(struct gpu_snapshot *s)
{
	free(s->devices);
	free(s->processes);
	*s = (struct gpu_snapshot){ 0 };
}

/* Up to max hexadecimal digits; moves *s behind them. */
static int hex_parse(const char **s, int max, unsigned int *ret)
{
	unsigned int v = 0;
	int n = 0;

	for (; n < max; n++) {
		char c = (*s)[n];

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned int)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (unsigned int)((c | 0x20) - 'a' + 10);
		else
			break;
	}
	*s += n;
	*ret = v;
	return n > 0 ? 0 : -EINVAL;
}

int gpu_pci_parse(const char *text, char ret[16])
{
	unsigned int domain, bus, slot, function;
	char buf[24];
	int n;

	ret[0] = '\0';
	if (hex_parse(&text, 8, &domain) < 0 || *text++ != ':' || hex_parse(&text, 2, &bus) < 0 || *text++ != ':' ||
	    hex_parse(&text, 2, &slot) < 0 || *text++ != '.' || hex_parse(&text, 1, &function) < 0 || *text != '\0' ||
	    slot > 31 || function > 7)
		return -EINVAL;
	n = snprintf(buf, sizeof(buf), "%04x:%02x:%02x.%x", domain, bus, slot, function);
	if (n < 0 || n >= 16)
		return -EINVAL;
	memcpy(ret, buf, (size_t)n + 1);
	return 0;
}
