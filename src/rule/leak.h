/* SPDX-License-Identifier: MIT */
/*
 * Survivor occupancy: live bytes by the epoch in which they were born. A leak keeps something of almost every epoch; a
 * cache only of those in which it grew, a sawtooth of the last few. And what has outlived an epoch must really become
 * more, trough by trough: of work that lives long and is freed at last, every epoch holds something too. Judged at the
 * epoch of the rule and at twice and four times it, so that a staircase whose steps lie further apart is
 * seen as well. What is freed at an age of a quarter of a window or more refutes: blocks that live so long are not lost
 * yet (struct leak_lives).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/rule.h"

/* Rules with the same epoch, count and classes share their counters. */
struct leak_scale {
	uint64_t epoch_ns;
	uint32_t epochs;
	uint32_t classes;
	uint32_t max_group; /* coarsest level: epochs taken together, 1, 2 or 4 */
	uint32_t slots;	    /* counters of a ring */
};

/* How old blocks of a site were when they were freed: bytes by power of two of seconds. Half of each is forgotten within
 * so many times that age. */
#define LEAK_LIVES 20 /* the last one is 6 days and more */
#define LEAK_LIVES_MEMORY 16
struct leak_lives {
	float bytes[LEAK_LIVES];
	uint64_t since_ns; /* up to when they have been forgotten */
};

struct leak_ring {
	uint64_t newest; /* epoch of the newest slot; epoch e lies in slot e % slots */
	uint64_t origin_ns; /* born before: not told apart, in older */
	uint64_t older;	 /* live bytes of no slot */
	uint64_t window; /* sum of the slots */
	uint32_t at;	 /* slot of the newest epoch */
	/*
	 * One block or a few that are made anew and larger each time: none is ever old, so it is how much there is at the
	 * start of each epoch that counts.
	 */
	bool is_remade;
	uint64_t slot[]; /* then as many of the history: at the start of epoch e, live bytes born before epoch e - 1; where
			    is_remade, all live bytes */
};

/* How the growth looks, beyond what decides whether there is one. */
struct leak_evidence {
	double occupancy;  /* share of the judged epochs that still hold bytes */
	double steadiness; /* bytes born in the newer half over those of the older one */
	double rise;	   /* by how much the troughs have risen, as a share of the bytes */
	double biggest;	   /* share of the epoch that holds most */
	double before;	   /* bytes of the window before this one over those of this one; negative = not known */
	double late;	   /* freed late, over the bytes that were kept */
	double freed;	   /* freed at whatever age lately, over the bytes that were kept */
	double slowing;	   /* bytes of the older half of the run over those of the newer one; 1 = it is too short to say */
	double trend;	   /* Kendall's tau over all epochs that are known: 1 = each kept less than the one before, -1 more */
	uint64_t run_ns;   /* for how long, up to now, each epoch kept about as much (a quarter to four times the mean) */
};

struct leak_verdict {
	bool is_growing;
	bool is_flat; /* nothing is left of the newest quarter of the epochs */
	uint32_t group;
	uint64_t mature_bytes; /* born in the judged epochs and still there */
	uint64_t span_ns;      /* of the judged epochs */
	struct leak_evidence evidence; /* where is_growing */
};

void leak_scale_init(struct leak_scale *s, const struct rule *r);
/* bytes are live already. NULL when out of memory. */
struct leak_ring *leak_ring_new(const struct leak_scale *s, uint64_t now_ns, uint64_t bytes);
/* epoch is that of the birth: birth_ns / epoch_ns. */
void leak_ring_add_in(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t epoch,
		      uint64_t bytes);
void leak_ring_sub_in(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t epoch,
		      uint64_t bytes);
void leak_ring_add(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t bytes);
void leak_ring_sub(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t bytes);
/* Forgets all bytes and knows the births of what is added from now on. */
void leak_ring_clear(struct leak_ring *ring, const struct leak_scale *s);
/* Makes epoch the newest, folding those that fall out of the window into older. */
void leak_ring_advance(struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch);
/* Asks for the memory that a judgement at that epoch looks at first. */
void leak_ring_prefetch(const struct leak_ring *ring, const struct leak_scale *s, uint32_t slot);
/* ... and what an event of a block of that epoch changes. */
void leak_ring_prefetch_slot(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch);
/* Adds to sum what from holds by epoch and as history, as births in either case; from is as far as sum or further.
 * sum is for judging only. */
void leak_ring_sum(struct leak_ring *sum, const struct leak_ring *from, const struct leak_scale *s);
/* Holds it one block or a few that may be made anew and larger each time? Not so in a new ring. */
void leak_ring_set_remade(struct leak_ring *ring, bool is_remade);
void leak_lives_add(struct leak_lives *l, uint64_t now_ns, uint64_t age_ns, uint64_t bytes);
/* Bytes freed at that age or more, as far as they are remembered. */
double leak_lives_beyond(struct leak_lives *l, uint64_t now_ns, uint64_t age_ns);
/* Bytes freed at that age or more, while epoch has just begun. */
double leak_lives_late(struct leak_lives *l, const struct leak_scale *s, uint64_t epoch, uint32_t group);
/* Do they, late being the bytes of such? */
bool leak_is_refuted(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group, double late);
/* Adds bytes of whose births nothing is known. */
void leak_ring_add_older(struct leak_ring *ring, const struct leak_scale *s, uint64_t bytes);
/* Makes the newest epoch of two rings the same. */
void leak_ring_align(struct leak_ring *a, struct leak_ring *b, const struct leak_scale *s);
/* Adds all of from to the ring: what is taken from it later may have been added to either. Aligns them. */
void leak_ring_merge(struct leak_ring *ring, struct leak_ring *from, const struct leak_scale *s);
/*
 * The verdict while epoch has just begun; min_bytes: growth below it is none; lives: of the site, NULL = not known.
 * is_growing is of the finest level that grows; when none does, mature_bytes and span_ns are of level group, which is
 * the one the last growing verdict had (or 1), and so is is_flat; without needs_numbers they are not told then.
 */
void leak_judge(struct leak_ring *ring, const struct leak_scale *s, const struct rule *r, struct leak_lives *lives,
		uint64_t min_bytes, uint64_t epoch, uint32_t group, bool needs_numbers, struct leak_verdict *ret);
/* Bytes freed, as far as they are remembered. */
struct leak_frees {
	double late, all;
};
/* One level of that, whatever late frees say; they are for the evidence. */
void leak_judge_level(const struct leak_ring *ring, const struct leak_scale *s, const struct rule *r, uint64_t min_bytes,
		      uint64_t epoch, uint32_t group, const struct leak_frees *frees, struct leak_verdict *v);
/* Several rings that are looked at as if they were one, their sum, without making it. */
struct leak_rings {
	struct leak_ring *const *list;
	size_t len;
	uint64_t newest; /* all were advanced to; some may be further */
};

/* The judged epochs of a level, from the newest on. */
struct leak_shape {
	uint64_t total, newer, older, max;
	uint32_t parts, occupied, newest_occupied;
};

/* false: too few epochs are occupied, or nothing is new, so that it cannot grow; nor can any choice of these rings. The
 * shape ends where that is known. */
bool leak_shape(const struct leak_rings *rings, const struct leak_scale *s, const struct rule *r, uint64_t epoch,
		uint32_t group, struct leak_shape *ret);
/* is_growing of leak_judge_level(). */
bool leak_shape_grows(const struct leak_shape *h, const struct leak_rings *rings, const struct leak_scale *s,
		      const struct rule *r, uint64_t min_bytes, uint64_t epoch, uint32_t group);
/* Bytes of the judged epochs of that level: for finding the site that contributes most. */
uint64_t leak_mature(struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group);
/* Live bytes born in the epochs first to last, as far as the ring reaches. */
uint64_t leak_between(const struct leak_ring *ring, const struct leak_scale *s, uint64_t first, uint64_t last);
uint64_t leak_growth_per_hour(const struct leak_verdict *v);
