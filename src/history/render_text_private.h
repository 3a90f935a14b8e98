/* SPDX-License-Identifier: MIT */
/* The parts of the report for eyes, each a section that is left out where there is nothing to say. */
#pragma once

#include "base/units.h"
#include "history/render_text_pen.h"

/* The parts of the text, each with its heading; nothing where there is nothing to tell. */
void text_moments(struct pen *p);
void text_devices(struct pen *p);
void text_processes(struct pen *p);
void text_incidents(struct pen *p);
void text_failures(struct pen *p);
void text_sites(struct pen *p);

/* "python3[4711] train.service": with what says more than a number, the unit, else pod, Slurm job, container, script. */
void text_who(const struct pen *p, const struct story_process *proc, struct strbuf *sb);
/* The part behind the number; nothing where nothing says more. */
void text_label(const struct story_process *proc, struct strbuf *sb);
/* "9 processes of evaluate.service", this and others that are alike. */
void text_those(const struct pen *p, const struct story_process *proc, size_t n, struct strbuf *sb);
/* What an incident is about, a process as text_who does. */
void text_subject(const struct pen *p, const struct story_incident *i, struct strbuf *sb);
/* Its message is that of a later record than its first, with what was true then. */
bool text_is_later(const struct story_incident *i);
/* It is over because its process has ended, which sets nothing right. */
bool text_is_by_end(const struct story_incident *i);
/* Nothing was said about it, nothing was refused to it: it may be told together with others. */
bool text_is_plain(const struct story_process *proc);

/* Processes that are alike: of one host, program, user, tag and service. */
struct kinds {
	size_t *of; /* the kind, from 0, of each process of the story by its position there */
	size_t len;
};

/* 0 or -ENOMEM; to be freed with kinds_done either way. */
int kinds_find(const struct story *s, struct kinds *ret);
void kinds_done(struct kinds *k);

/* What counts most of a long list. */
#define TOP_MAX 24

struct top_item {
	unsigned rank;	 /* lowest first, then */
	uint64_t weight; /* highest first, then */
	uint64_t usec;	 /* earliest first */
	unsigned kind;
	const void *what;
};

struct top {
	struct top_item items[TOP_MAX]; /* in that order */
	size_t len, max;		/* max: at most TOP_MAX */
	size_t total;			/* that were added */
};

/* Keeps an item if it is one of the first; then puts those in the order of their time. */
void top_add(struct top *top, struct top_item item);
void top_by_time(struct top *top);
/* "[12 more]" where some do not fit. */
void text_more(struct pen *p, size_t more);

/* What a rule made of a failed allocation that is told as such: not told once more. */
bool text_is_failure(const struct story *s, const struct story_incident *i);

/* 0 = critical, the higher the less it says; what is not known is as info. */
unsigned severity_rank(const char *severity);
enum pen_style severity_style(const char *severity);
/* "41.2 GiB", "?" */
const char *text_bytes(char buf[FORMAT_UNITS_MAX], uint64_t bytes);
/* "52 %" of a whole, "" where that is not known. */
const char *text_share(char buf[FORMAT_UNITS_MAX], uint64_t bytes, uint64_t whole);
const char *text_seconds(char buf[FORMAT_UNITS_MAX], uint64_t seconds);
