/* SPDX-License-Identifier: MIT */
/* How busy and hot a card is and whose work that is, through NVML. For nvml.c. */
#pragma once

#include "proc/nvml_records.h"
#include "proc/nvml_snapshot.h"

/* More than any host has: an answer above is garbage. */
#define NVML_CARDS_MAX 256

/* A card's samples of its processes' work, as they were asked last. */
struct nvml_work {
	char uuid[96];	     /* of the card; another one's are worth nothing */
	uint64_t asked_ns;   /* monotonic; 0 = never */
	uint64_t since_usec; /* wall clock: where the next samples begin */
	struct nvml_share *shares;
	size_t count;
	bool is_known; /* false: the driver does not tell */
};

struct nvml_util {
	/* Each is NULL where the library does not have it. */
	int (*rates)(void *, void *);
	int (*temperature)(void *, int, unsigned int *);
	int (*temperature_v)(void *, void *);
	int (*power)(void *, unsigned int *);
	int (*power_limit)(void *, unsigned int *);
	int (*work)(void *, void *, unsigned int *, unsigned long long);
	struct nvml_work cards[NVML_CARDS_MAX]; /* by index */
};

void nvml_util_done(struct nvml_util *u);
/*
 * Fills the figures of the device at that place of s, and of its processes unless it is a card in MIG mode, whose
 * processes are at its instances. No call is begun after until_ns: -ETIME. Else 0 or -ENOMEM.
 */
int nvml_util_read(struct nvml_util *u, void *card, size_t place, bool is_mig, uint64_t until_ns,
		   struct gpu_snapshot *s);
