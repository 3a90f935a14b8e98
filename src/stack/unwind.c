/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/unwind_cache.h"
#include "stack/unwind_expr.h"

#define EXPR_MAX 1024

/* A signed return address has its signature above the address (arm64). User addresses have 48 bits; larger ones are
 * given only to a process that asks for them. */
#define LINK_ADDRESS_MASK ((UINT64_C(1) << 48) - 1)

struct unwinder {
	struct unwind_cache cache;
	uint64_t work;
	bool has_rules;
	uint32_t depth;
	struct unwound_frame *frames;
};

struct value {
	uint64_t v;
	/* Where in the stack it came from; 0 = it is computed from sp, ... */
	uint64_t stored_at;
	bool is_initial; /* ... or the probe took it */
};

struct walk {
	struct unwinder *u;
	const struct raw_stack *s;
	struct unwound *out;
	size_t count;
	struct value regs[CFI_REGISTERS]; /* of the last frame; CFI_RA: its pc */
	uint32_t known; /* bit n: regs[n] */
	uint32_t missed; /* not known because it lay outside the copy */
	uint64_t work;
	bool has_missed; /* a read of the row being applied lay outside the copy, ... */
	enum unwind_reason missed_as; /* ... for this reason */
	/* Calls leave the return address in a register, and it is saved at the bottom of a frame, not at its top. */
	bool has_link;
	int error; /* -ENOMEM */
	struct cache_memo memo;
};

int unwinder_new(struct objects *objects, const struct unwinder_limits *limits, struct unwinder **ret)
{
	_cleanup_(unwinder_freep) struct unwinder *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	r = unwind_cache_init(&u->cache, objects, limits);
	if (r < 0)
		return r;
	u->has_rules = !limits->frame_pointers_only;
	u->work = limits->work;
	u->depth = limits->depth ? limits->depth : 1;
	u->frames = calloc(u->depth, sizeof(*u->frames));
	if (!u->frames)
		return -ENOMEM;
	*ret = TAKE_PTR(u);
	return 0;
}

void unwinder_free(struct unwinder *u)
{
	if (!u)
		return;
	unwind_cache_done(&u->cache);
	free(u->frames);
	free(u);
}

size_t unwinder_bytes(const struct unwinder *u)
{
	return sizeof(*u) + u->depth * sizeof(*u->frames) + unwind_cache_bytes(&u->cache);
}

static bool in_copy(const struct walk *w, uint64_t addr, size_t len)
{
	const uint64_t at = addr - w->s->sp;

	return addr >= w->s->sp && at <= w->s->copy_len && len <= w->s->copy_len - at;
}

/* Does one of these bytes of the copy lie in a page that could not be read? */
static bool is_missing(const struct walk *w, uint64_t addr, size_t len)
{
	const uint64_t page = w->s->sp / STACK_PIECE, first = addr / STACK_PIECE - page,
		       last = (addr + len - 1) / STACK_PIECE - page;

	return (first < 32 && w->s->missing >> first & 1) || (last < 32 && w->s->missing >> last & 1);
}

/* len: 1 to 8. */
static bool is_readable(const struct walk *w, uint64_t addr, size_t len)
{
	return in_copy(w, addr, len) && !is_missing(w, addr, len);
}

/* Whether what lies at addr was cut off, or is not of this stack at all. */
static enum unwind_reason reason_outside(const struct walk *w, uint64_t addr)
{
	return addr >= w->s->sp && w->s->is_truncated ? UNWIND_COPY_END : UNWIND_OUTSIDE;
}

static bool read_stack(struct walk *w, uint64_t addr, size_t len, uint64_t *ret)
{
	uint64_t v = 0;

	if (!is_readable(w, addr, len)) {
		w->has_missed = true;
		w->missed_as = in_copy(w, addr, len) ? UNWIND_MISSING : reason_outside(w, addr);
		return false;
	}
	memcpy(&v, w->s->copy + (addr - w->s->sp), len);
	for (size_t i = 0; len == 8 && i < w->s->fix_count; i++) {
		if (w->s->fixes[i].address == addr)
			v = w->s->fixes[i].value;
	}
	*ret = v;
	return true;
}

/* The position of the frames depends on the word at addr. */
static void note_address_slot(struct walk *w, uint64_t addr)
{
	struct unwound *out = w->out;
	const uint64_t slot = addr - w->s->sp;

	if (!is_readable(w, addr, 8) || slot >= UNWIND_NO_SLOT)
		return;
	/* Several rules of one frame name the same one; what is left twice all the same does no harm. */
	for (size_t i = out->address_slot_count, n = 0; i > 0 && n < 8; i--, n++) {
		if (out->address_slots[i - 1] == slot)
			return;
	}
	if (out->address_slot_count == UNWOUND_ADDRESS_SLOTS_MAX)
		out->has_more_slots = true;
	else
		out->address_slots[out->address_slot_count++] = (uint32_t)slot;
}

static void note_register(struct walk *w, unsigned int reg)
{
	const struct value *v = &w->regs[reg];

	if (v->stored_at)
		note_address_slot(w, v->stored_at);
	else if (v->is_initial && reg != CFI_SP && reg != CFI_RA)
		w->out->register_mask |= 1u << cfi_dwarf(reg);
}

static bool expr_register(void *userdata, unsigned int dwarf, uint64_t *ret)
{
	const unsigned int reg = cfi_register(dwarf);
	struct walk *w = userdata;

	if (reg >= CFI_REGISTERS || !(w->known & 1u << reg))
		return false;
	note_register(w, reg);
	*ret = w->regs[reg].v;
	return true;
}

static bool expr_memory(void *userdata, uint64_t addr, unsigned int size, uint64_t *ret)
{
	struct walk *w = userdata;

	if (!read_stack(w, addr, size, ret))
		return false;
	note_address_slot(w, addr);
	return true;
}

/* Rare: the expression's bytes are read from the file each time. 0, -ENODATA, -EBADMSG, -EBADF, -ENOMEM. */
static int evaluate(struct walk *w, const struct mapping *m, const struct cfi_row *row, const struct cfi_rule *rule,
		    const uint64_t *cfa, uint64_t *ret)
{
	const struct expr_reader reader = { .userdata = w, .get_register = expr_register, .get_memory = expr_memory };
	const struct cache_object *ob = NULL;
	uint8_t code[EXPR_MAX];
	int r;

	r = cache_memo_get(&w->memo, &w->u->cache, w->s->pid, m, &ob);
	if (r < 0)
		return r;
	r = ob->elf ? cfi_expression(row, rule, ob->elf, code, sizeof(code)) : -EBADMSG;
	if (r < 0)
		return r;
	return expr_eval(code, (size_t)r, cfa, &reader, ret);
}

/* The address or value that a rule speaks of, before any read of the stack; *ret_is_stored: the word lies there. */
static int rule_operand(struct walk *w, const struct mapping *m, const struct cfi_row *row,
			const struct cfi_rule *rule, const uint64_t *cfa, uint64_t *ret, bool *ret_is_stored)
{
	const uint64_t value = (uint64_t)(int64_t)rule->value;

	*ret_is_stored = rule->kind == CFI_AT_CFA || rule->kind == CFI_AT_REGISTER || rule->kind == CFI_AT_EXPRESSION;
	switch (rule->kind) {
	case CFI_AT_CFA:
	case CFI_CFA_PLUS:
		*ret = *cfa + value;
		return 0;
	case CFI_REGISTER:
	case CFI_AT_REGISTER:
		if (!(w->known & 1u << rule->reg)) {
			w->has_missed |= w->missed >> rule->reg & 1;
			return -ENODATA;
		}
		note_register(w, rule->reg);
		*ret = w->regs[rule->reg].v + value;
		return 0;
	case CFI_EXPRESSION:
	case CFI_AT_EXPRESSION:
		return evaluate(w, m, row, rule, cfa, ret);
	default:
		return -EBADMSG;
	}
}

static int find_cfa(struct walk *w, const struct mapping *m, const struct cfi_row *row, uint64_t *ret)
{
	bool is_stored = false;
	uint64_t v = 0;
	int r;

	r = rule_operand(w, m, row, &row->cfa, NULL, &v, &is_stored);
	if (r < 0)
		return r;
	if (is_stored) {
		note_address_slot(w, v);
		if (!read_stack(w, v, 8, &v))
			return -ENODATA;
	}
	*ret = v;
	return 0;
}

/* One register of the caller. 0; -ENODATA: not known, which matters only once a rule needs it. */
static int find_register(struct walk *w, const struct mapping *m, const struct cfi_row *row, unsigned int reg,
			 uint64_t cfa, struct value *ret)
{
	const struct cfi_rule *rule = &row->regs[reg];
	const bool is_kept = rule->kind == CFI_SAME || (rule->kind == CFI_UNSPECIFIED && (CFI_SAVED >> reg & 1));
	struct value v = {};
	bool is_stored = false;
	int r;

	if (is_kept) {
		w->has_missed |= w->missed >> reg & 1;
		*ret = w->regs[reg];
		return w->known >> reg & 1 ? 0 : -ENODATA;
	}
	if (rule->kind == CFI_UNSPECIFIED && reg == CFI_SP) {
		*ret = (struct value){ .v = cfa };
		return 0;
	}
	if (rule->kind == CFI_UNSPECIFIED || rule->kind == CFI_UNDEFINED)
		return -ENODATA;
	r = rule_operand(w, m, row, rule, &cfa, &v.v, &is_stored);
	if (r < 0)
		return r;
	if (is_stored) {
		v.stored_at = v.v;
		if (!read_stack(w, v.stored_at, 8, &v.v))
			return -ENODATA;
	} else if (rule->kind == CFI_REGISTER) {
		v.stored_at = w->regs[rule->reg].stored_at;
		v.is_initial = w->regs[rule->reg].is_initial;
	}
	*ret = v;
	return 0;
}

static struct unwound_frame *last_frame(struct walk *w)
{
	return &w->u->frames[w->count - 1];
}

enum step {
	STEP_ON,
	STEP_END,
	STEP_NO_ROW, /* try the frame pointer, else end */
};

static enum step step_error(struct walk *w, int r, enum unwind_reason *ret_reason)
{
	switch (r) {
	case -ENOMEM:
		w->error = r;
		return STEP_END;
	case -ENOENT:
		*ret_reason = UNWIND_NO_INFO;
		return STEP_NO_ROW;
	case -EBADF:
		/* Most likely compiled without frame pointers: no guessing. */
		*ret_reason = UNWIND_UNREADABLE;
		return STEP_END;
	case -ENOBUFS:
		*ret_reason = UNWIND_WORK;
		return STEP_END;
	case -ENODATA:
		*ret_reason = UNWIND_NO_REGISTER;
		return STEP_END;
	default:
		*ret_reason = UNWIND_BAD_INFO;
		return STEP_END;
	}
}

static enum step apply_failed(struct walk *w, int r, enum unwind_reason *ret_reason)
{
	const enum step step = step_error(w, r, ret_reason);

	if (r == -ENODATA && w->has_missed)
		*ret_reason = w->missed_as;
	return step == STEP_NO_ROW ? STEP_END : step;
}

/* A caller's stack pointer. Only what called nothing yet may have no frame, where a call leaves nothing on the stack. */
static bool is_up(struct walk *w, uint64_t sp)
{
	return sp > w->regs[CFI_SP].v || (sp == w->regs[CFI_SP].v && MACHINE_HAS_LINK && last_frame(w)->is_exact);
}

/* Computes the caller's registers. */
static enum step apply_row(struct walk *w, const struct mapping *m, const struct cfi_row *row,
			   enum unwind_reason *reason)
{
	struct unwound_frame *frame = last_frame(w);
	struct value regs[CFI_REGISTERS] = {};
	uint32_t known = 0, missed = 0;
	enum unwind_reason missed_as;
	uint64_t cfa = 0;
	int r;

	w->has_missed = false;
	missed_as = w->missed_as;
	frame->is_signal = row->is_signal;
	r = find_cfa(w, m, row, &cfa);
	if (row->regs[CFI_RA].kind == CFI_UNDEFINED && r != -ENOMEM) {
		frame->cfa = r == 0 && in_copy(w, cfa, 0) && cfa > w->regs[CFI_SP].v ? cfa : 0;
		*reason = UNWIND_COMPLETE;
		return STEP_END;
	}
	if (r < 0)
		return apply_failed(w, r, reason);
	if (!in_copy(w, cfa, 0)) {
		*reason = reason_outside(w, cfa);
		return STEP_END;
	}
	if (!is_up(w, cfa)) {
		*reason = UNWIND_LOOP;
		return STEP_END;
	}
	for (unsigned int reg = 0; reg < CFI_REGISTERS; reg++) {
		w->has_missed = false;
		r = find_register(w, m, row, reg, cfa, &regs[reg]);
		if (r == -ENOMEM)
			return apply_failed(w, r, reason);
		known |= (uint32_t)(r == 0) << reg;
		missed |= (uint32_t)(r < 0 && w->has_missed) << reg;
		if (r < 0 && (reg == CFI_RA || reg == CFI_SP))
			return apply_failed(w, r, reason);
		if (w->has_missed)
			missed_as = w->missed_as;
	}
	w->missed_as = missed_as;
	if (!is_up(w, regs[CFI_SP].v)) {
		*reason = UNWIND_LOOP;
		return STEP_END;
	}
	frame->cfa = cfa;
	if (w->has_link)
		regs[CFI_RA].v &= LINK_ADDRESS_MASK;
	if (regs[CFI_RA].stored_at)
		frame->return_slot = (uint32_t)(regs[CFI_RA].stored_at - w->s->sp);
	memcpy(w->regs, regs, sizeof(regs));
	w->known = known;
	w->missed = missed;
	return STEP_ON;
}

/* A return address below cfa and nothing else changed but bp, if new_bp is not NULL. */
static void apply_simple(struct walk *w, uint64_t cfa, uint64_t ra, const struct value *new_bp)
{
	struct unwound_frame *frame = last_frame(w);

	frame->cfa = cfa;
	frame->return_slot = (uint32_t)(cfa - 8 - w->s->sp);
	w->regs[CFI_RA] = (struct value){ .v = ra, .stored_at = cfa - 8 };
	w->regs[CFI_SP] = (struct value){ .v = cfa };
	w->known &= CFI_SAVED;
	w->missed &= CFI_SAVED;
	if (new_bp)
		w->regs[CFI_BP] = *new_bp;
	w->known |= 1u << CFI_RA | 1u << CFI_SP;
}

/* What lies at the frame pointer: the caller's, and the return address. False: it is none, or there is no caller. */
static bool read_record(struct walk *w, struct value *ret_bp, uint64_t *ret_ra, enum unwind_reason *ret_reason)
{
	const uint64_t bp = w->regs[CFI_BP].v;
	struct value next = { .stored_at = bp };
	uint64_t ra;

	if (!(w->known & 1u << CFI_BP) || bp % 8 != 0) {
		*ret_reason = UNWIND_NO_INFO;
		return false;
	}
	if (bp < w->regs[CFI_SP].v) {
		*ret_reason = bp == 0 ? UNWIND_COMPLETE : bp < w->s->sp ? UNWIND_OUTSIDE : UNWIND_LOOP;
		return false;
	}
	if (!read_stack(w, bp, 8, &next.v) || !read_stack(w, bp + 8, 8, &ra)) {
		*ret_reason = w->missed_as;
		return false;
	}
	*ret_bp = next;
	*ret_ra = w->has_link ? ra & LINK_ADDRESS_MASK : ra;
	return true;
}

/* The other registers may have changed: they are not known any more. */
static void apply_record(struct walk *w, const struct value *next, uint64_t ra)
{
	struct unwound_frame *frame = last_frame(w);
	const uint64_t bp = w->regs[CFI_BP].v;

	note_register(w, CFI_BP);
	apply_simple(w, bp + 16, ra, next);
	w->known &= 1u << CFI_BP | 1u << CFI_SP | 1u << CFI_RA;
	if (w->has_link && !w->u->has_rules)
		frame->cfa = next->v >= bp + 16 && in_copy(w, next->v, 0) ? next->v : 0;
	if (w->has_link)
		w->known &= ~(1u << CFI_SP); /* it is not below that */
	frame->is_guessed = true;
}

/* Code without rules: generated, or assembly. If bp is a frame pointer then it leads up this stack, and the word above
 * it into code. False: it is none. */
static bool guess_frame(struct walk *w, enum unwind_reason *reason)
{
	enum unwind_reason why = UNWIND_COMPLETE;
	struct value next;
	uint64_t ra;

	if (!read_record(w, &next, &ra, &why)) {
		if (why == UNWIND_MISSING)
			*reason = why;
		return false;
	}
	/* What is saved there may be any value: the caller need not keep a frame pointer itself. */
	if (!address_space_find(w->s->space, ra))
		return false;
	apply_record(w, &next, ra);
	return true;
}

/* The return address of a function that has not run yet. */
static enum step apply_entry(struct walk *w, enum unwind_reason *reason)
{
	uint64_t ra = 0;

	if (w->has_link) {
		last_frame(w)->cfa = w->s->sp;
		w->regs[CFI_RA].v = w->s->lr & LINK_ADDRESS_MASK;
		w->known &= ~CFI_LINK;
		return STEP_ON;
	}
	if (!read_stack(w, w->s->sp, 8, &ra)) {
		*reason = w->missed_as;
		return STEP_END;
	}
	apply_simple(w, w->s->sp + 8, ra, NULL);
	return STEP_ON;
}

static enum step step_by_rules(struct walk *w, const struct mapping *m, uint64_t pc, enum unwind_reason *reason)
{
	const struct cache_object *ob = NULL;
	const struct cfi_row *row = NULL;
	enum step step;
	bool is_file;
	int r;

	r = cache_memo_get(&w->memo, &w->u->cache, w->s->pid, m, &ob);
	is_file = r != -ENOENT;
	if (r == 0)
		r = unwind_cache_row(&w->u->cache, ob, m->offset + (pc - m->start), &w->work, &row);
	step = r == 0 ? apply_row(w, m, row, reason) : step_error(w, r, reason);
	if (step != STEP_NO_ROW)
		return step;
	if (!is_file)
		*reason = UNWIND_NO_FILE;
	/* Where a C library without rules starts a thread, it sets bp to 0, as the ABI wants. */
	if (r == -ENOENT && is_file && w->known & 1u << CFI_BP && w->regs[CFI_BP].v == 0)
		*reason = UNWIND_COMPLETE;
	return guess_frame(w, reason) ? STEP_ON : STEP_END;
}

static enum step step_by_frame_pointer(struct walk *w, enum unwind_reason *reason)
{
	struct value next;
	uint64_t ra;

	if (!read_record(w, &next, &ra, reason))
		return STEP_END;
	apply_record(w, &next, ra);
	return STEP_ON;
}

/* From the last frame to its caller's registers. STEP_NO_ROW does not come out of here. */
static enum step step_up(struct walk *w, enum unwind_reason *reason)
{
	const struct unwound_frame *frame = last_frame(w);
	/* A return address may lie behind the last instruction of its function. */
	const uint64_t pc = frame->is_exact ? frame->pc : frame->pc - 1;
	const struct mapping *m = address_space_find(w->s->space, pc);

	w->out->at = m;
	if (w->count == 1 && w->s->at_entry)
		return apply_entry(w, reason);
	if (!m) {
		*reason = w->s->space ? UNWIND_NOT_MAPPED : UNWIND_NO_MAPS;
		return STEP_END;
	}
	return w->u->has_rules ? step_by_rules(w, m, pc, reason) : step_by_frame_pointer(w, reason);
}

static void add_frame(struct walk *w, uint64_t pc, bool is_exact)
{
	w->u->frames[w->count++] =
		(struct unwound_frame){ .pc = pc, .is_exact = is_exact, .return_slot = UNWIND_NO_SLOT };
}

/* Is the return address one to go on from? */
static bool is_code(struct walk *w, uint64_t ra, enum unwind_reason *reason)
{
	const struct mapping *m;

	if (ra == 0) {
		*reason = UNWIND_COMPLETE;
		return false;
	}
	/* One behind the last call of a mapping is good: pc - 1 is what counts. */
	m = address_space_find(w->s->space, ra);
	if (!m)
		m = address_space_find(w->s->space, ra - 1);
	if (m && m->path && strcmp(m->path, "[uprobes]") == 0) {
		w->out->at = m;
		*reason = UNWIND_RETURN_PROBE;
		return false;
	}
	if (!m)
		*reason = w->s->space ? UNWIND_NOT_MAPPED : UNWIND_NO_MAPS;
	return m != NULL;
}

int unwind(struct unwinder *u, const struct raw_stack *s, struct unwound *ret)
{
	struct unwound out = { .frames = u->frames };
	struct walk w = { .u = u, .s = s, .out = &out, .work = u->work };
	uint64_t regs[CFI_REGISTERS];

	w.has_link = MACHINE_HAS_LINK || (!u->has_rules && s->lr);
	if (s->copy_len >= UNWIND_NO_SLOT)
		return -E2BIG;
	w.known = machine_registers(s, regs);
	for (unsigned int reg = 0; reg < CFI_REGISTERS; reg++) {
		if (w.known >> reg & 1)
			w.regs[reg] = (struct value){ .v = regs[reg], .is_initial = true };
	}
	add_frame(&w, s->ip, true);

	while (step_up(&w, &out.reason) == STEP_ON && is_code(&w, w.regs[CFI_RA].v, &out.reason)) {
		if (w.count == u->depth) {
			out.reason = UNWIND_DEPTH;
			break;
		}
		add_frame(&w, w.regs[CFI_RA].v, last_frame(&w)->is_signal);
	}
	cache_memo_done(&w.memo);
	if (w.error)
		return w.error;
	out.count = w.count;
	*ret = out;
	return 0;
}
