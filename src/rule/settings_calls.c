/* SPDX-License-Identifier: MIT */
#include "rule/settings_calls.h"

#include <string.h>

#include "rule/conf.h"
#include "rule/rule_names.h"

#define TEXT_MAX 1024	/* bytes of a pattern */
#define LITERAL_MIN 3	/* characters of a library's pattern that are no wildcard */
#define ARGS 6		/* arg0 to arg5 are in registers */

static const char *const key_names[] = { "library", "symbol", "op",	"class", "address",
					 "bytes",   "device", "result", "stack", NULL };
enum key {
	KEY_LIBRARY,
	KEY_SYMBOL,
	KEY_OP,
	KEY_CLASS,
	KEY_ADDRESS,
	KEY_BYTES,
	KEY_DEVICE,
	KEY_RESULT,
	KEY_STACK,
	KEY_MAX,
};
_Static_assert(ARRAY_SIZE(key_names) == KEY_MAX + 1, "a name for each key");

static const char *const op_names[] = { "alloc", "free", NULL };
static const char *const class_names[] = { "framework", "device",   "managed", "host",
					   "array",	"physical", "async",   NULL };
static const uint8_t classes[] = { CLASS_FRAMEWORK, CLASS_DEVICE, CLASS_MANAGED, CLASS_HOST,
				   CLASS_ARRAY,	    CLASS_PHYSICAL, CLASS_ASYNC };
_Static_assert(ARRAY_SIZE(class_names) == ARRAY_SIZE(classes) + 1, "a class for each name");
static const char *const result_names[] = { "zero", "pointer", "none", NULL };
static const uint8_t results[] = { RESULT_ZERO, RESULT_POINTER, RESULT_NONE };

/* One group of the list as it is written. */
struct row {
	struct errors *errors;
	const config_setting_t *group;
	const config_setting_t *key[KEY_MAX]; /* NULL = absent */
	const char *text[KEY_MAX];
	struct call_desc desc;
	bool address_is_result;
};

/* "arg0" to "arg5", then end. */
static bool parse_arg(const char *text, const char **ret_end, uint8_t *ret)
{
	if (strncmp(text, "arg", 3) != 0 || text[3] < '0' || text[3] >= '0' + ARGS)
		return false;
	*ret = (uint8_t)(text[3] - '0');
	*ret_end = text + 4;
	return true;
}

static bool parse_whole_arg(const char *text, uint8_t *ret)
{
	const char *end;

	return parse_arg(text, &end, ret) && !*end;
}

/* "arg7" deserves another answer than nonsense. */
static int arg_error(struct row *w, enum key k, const char *forms)
{
	const char *p = strstr(w->text[k], "arg");

	for (; p; p = strstr(p + 3, "arg")) {
		const size_t digits = strspn(p + 3, "0123456789");

		if (digits > 1 || (digits == 1 && p[3] >= '0' + ARGS))
			return conf_error(w->errors, w->key[k],
					  "%s = \"%s\" is out of range: arguments go from arg0 to arg%d, the object of a C++ "
					  "method being arg0", key_names[k], w->text[k], ARGS - 1);
	}
	return conf_error(w->errors, w->key[k], "%s = \"%s\" is none of %s", key_names[k], w->text[k], forms);
}

static int missing(struct row *w, enum key k, const char *cure)
{
	return conf_error(w->errors, w->group, "this call has no %s: add %s", key_names[k], cure);
}

static int collect_key(struct row *w, const config_setting_t *e)
{
	const int k = rule_name_find(key_names, config_setting_name(e));
	int r;

	if (k < 0)
		return conf_unknown(w->errors, e, "key of a call", config_setting_name(e), key_names);
	if (k == KEY_STACK) {
		bool ignored;

		r = conf_bool(w->errors, e, &ignored);
	} else {
		r = conf_string(w->errors, e, &w->text[k]);
		if (r == 0 && strlen(w->text[k]) > TEXT_MAX)
			r = conf_error(w->errors, e, "%s is longer than %d bytes", key_names[k], TEXT_MAX);
	}
	w->key[k] = e;
	if (r < 0)
		w->text[k] = NULL;
	return r;
}

static int collect(struct row *w)
{
	int r = conf_group(w->errors, w->group);

	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(w->group); i++) {
		int q = collect_key(w, config_setting_get_elem(w->group, (unsigned)i));

		r = q < 0 ? q : r;
	}
	return r;
}

/* Place of the value in names, otherwise if the key is absent, or -EINVAL. */
static int choose(struct row *w, enum key k, const char *const *names, int otherwise)
{
	int i;

	if (!w->key[k])
		return otherwise;
	i = rule_name_find(names, w->text[k]);
	return i >= 0 ? i : conf_unknown(w->errors, w->key[k], key_names[k], w->text[k], names);
}

static int read_library(struct row *w)
{
	const char *text = w->text[KEY_LIBRARY];
	size_t literal = 0;

	if (!w->key[KEY_LIBRARY])
		return missing(w, KEY_LIBRARY,
			       "a pattern for the names of its files, such as library = \"libc10_cuda.so*\"");
	if (strchr(text, '/'))
		return conf_error(w->errors, w->key[KEY_LIBRARY],
				  "library = \"%s\" is compared with the name of a file without its folders: leave them out",
				  text);
	for (const char *p = text; *p; p++)
		literal += !strchr("*?[]!-", *p);
	if (literal < LITERAL_MIN)
		return conf_error(w->errors, w->key[KEY_LIBRARY],
				  "library = \"%s\" fits nearly every file: write more of the name", text);
	return 0;
}

static int read_symbol(struct row *w)
{
	const char *text = w->text[KEY_SYMBOL];

	if (!w->key[KEY_SYMBOL])
		return missing(w, KEY_SYMBOL, "the function's name, such as symbol = \"pool_alloc\"");
	if (!text[strspn(text, "*?:")])
		return conf_error(w->errors, w->key[KEY_SYMBOL], "symbol = \"%s\" fits nearly every function: write more of "
				  "the name", text);
	return 0;
}

static int read_address(struct row *w)
{
	static const char forms[] = "\"argN\" (the address itself), \"*argN\" (the call writes it there) and \"result\" "
				    "(the call returns it)";
	const char *text = w->text[KEY_ADDRESS];
	const bool is_alloc = w->desc.op == CALL_ALLOC;

	if (!w->key[KEY_ADDRESS])
		return missing(w, KEY_ADDRESS, is_alloc ? "where the address is, such as address = \"*arg0\" or \"result\"" :
							  "which argument is freed, such as address = \"arg0\"");
	if (strcmp(text, "result") == 0 && is_alloc) {
		w->address_is_result = true;
		return 0;
	}
	if (text[0] == '*' && is_alloc && parse_whole_arg(text + 1, &w->desc.addr_arg))
		return 0;
	if (parse_whole_arg(text, &w->desc.addr_arg)) {
		w->desc.flags |= is_alloc ? CALL_F_ADDR_VALUE : 0;
		return 0;
	}
	if (!is_alloc && (text[0] == '*' || strcmp(text, "result") == 0))
		return conf_error(w->errors, w->key[KEY_ADDRESS],
				  "address = \"%s\": what is freed is an argument: write \"argN\"", text);
	return arg_error(w, KEY_ADDRESS, is_alloc ? forms : "\"arg0\" to \"arg5\"");
}

static int read_bytes(struct row *w)
{
	const char *text = w->text[KEY_BYTES], *end;
	uint8_t first, second;

	if (w->desc.op == CALL_FREE)
		return w->key[KEY_BYTES] ? conf_error(w->errors, w->key[KEY_BYTES], "bytes says nothing at a free, the "
						      "allocation's bytes are known: remove it") : 0;
	if (!w->key[KEY_BYTES])
		return missing(w, KEY_BYTES, "which argument has the size, such as bytes = \"arg1\"");
	if (!parse_arg(text, &end, &first) || (*end && (*end != '*' || !parse_whole_arg(end + 1, &second))))
		return arg_error(w, KEY_BYTES, "\"argN\" and \"argN*argM\"");
	w->desc.size_how = SIZE_ARG;
	w->desc.size_arg = first;
	if (!*end)
		return 0;
	if (second != first + 1)
		return conf_error(w->errors, w->key[KEY_BYTES],
				  "bytes = \"%s\": only an argument and the next one can be multiplied", text);
	w->desc.size_how = SIZE_PRODUCT;
	return 0;
}

static int read_device(struct row *w)
{
	w->desc.device_how = w->desc.class == CLASS_FRAMEWORK ? DEVICE_NONE : DEVICE_CURRENT;
	if (!w->key[KEY_DEVICE])
		return 0;
	if (w->desc.op == CALL_FREE)
		return conf_error(w->errors, w->key[KEY_DEVICE],
				  "device says nothing at a free, the allocation's device is known: remove it");
	if (!parse_whole_arg(w->text[KEY_DEVICE], &w->desc.device_arg))
		return arg_error(w, KEY_DEVICE, "\"arg0\" to \"arg5\"");
	w->desc.device_how = DEVICE_ARG;
	return 0;
}

static int read_result(struct row *w)
{
	const bool is_free = w->desc.op == CALL_FREE;
	int i = choose(w, KEY_RESULT, result_names, w->address_is_result ? 1 : is_free ? 2 : 0);

	if (i < 0)
		return i;
	w->desc.result = results[i];
	if (w->address_is_result && w->desc.result != RESULT_POINTER)
		return conf_error(w->errors, w->key[KEY_RESULT],
				  "result = \"%s\" contradicts address = \"result\": leave result out", w->text[KEY_RESULT]);
	if (!w->address_is_result && w->desc.result == RESULT_POINTER)
		return conf_error(w->errors, w->key[KEY_RESULT],
				  "result = \"pointer\" goes with address = \"result\": write \"zero\" or \"none\"");
	return 0;
}

static int read_stack(struct row *w)
{
	const bool is_free = w->desc.op == CALL_FREE;
	bool wanted = !is_free;

	if (w->key[KEY_STACK])
		wanted = config_setting_get_bool(w->key[KEY_STACK]);
	if (is_free && wanted)
		return conf_error(w->errors, w->key[KEY_STACK], "no stack is taken of a free: remove it");
	w->desc.flags |= wanted ? CALL_F_STACK : 0;
	return 0;
}

static int read_row(struct row *w)
{
	static int (*const readers[])(struct row *w) = { read_library, read_symbol, read_address, read_bytes,
							 read_device,  read_result, read_stack };
	int op, class, r = 0;

	w->desc.stream_arg = ARG_NONE;
	if (!w->key[KEY_OP])
		return missing(w, KEY_OP, "op = \"alloc\" or \"free\"");
	op = choose(w, KEY_OP, op_names, 0);
	class = choose(w, KEY_CLASS, class_names, 0);
	if (op < 0 || class < 0)
		return MIN(op, class);
	w->desc.op = op == 0 ? CALL_ALLOC : CALL_FREE;
	w->desc.class = classes[class];
	w->desc.kind = classes[class] == CLASS_FRAMEWORK ? ADDR_FRAMEWORK : ADDR_POINTER;
	w->desc.slot = classes[class] == CLASS_FRAMEWORK;
	for (size_t i = 0; r != -ENOMEM && i < ARRAY_SIZE(readers); i++) {
		int q = readers[i](w);

		r = q < 0 ? q : r;
	}
	return r;
}

static const struct user_call *find_same(const struct settings *s, const char *library, const char *symbol)
{
	for (size_t i = 0; i < s->calls_len; i++)
		if (strcmp(s->calls[i].library, library) == 0 && strcmp(s->calls[i].symbol, symbol) == 0)
			return &s->calls[i];
	return NULL;
}

int settings_add_call(struct settings *s, const struct user_call *row)
{
	struct user_call *more = realloc(s->calls, (s->calls_len + 1) * sizeof(*more)), *u;

	if (!more) {
		free(row->file);
		return -ENOMEM;
	}
	s->calls = more;
	u = &more[s->calls_len++]; /* freed with the settings, whatever is missing */
	*u = *row;
	u->library = strdup(row->library);
	u->symbol = strdup(row->symbol);
	return u->library && u->symbol ? 0 : -ENOMEM;
}

static int read_call(struct errors *errors, const config_setting_t *e, struct settings *settings)
{
	struct row w = { .errors = errors, .group = e };
	const struct user_call *same;
	struct user_call u;
	int r = collect(&w);

	if (r == 0)
		r = read_row(&w);
	if (r < 0)
		return r;
	same = find_same(settings, w.text[KEY_LIBRARY], w.text[KEY_SYMBOL]);
	if (same)
		return conf_error(errors, e, "this function is in the list already, at line %d: remove one of the two",
				  same->line);
	if (settings->calls_len == USER_CALLS_MAX)
		return conf_error(errors, e, "more than %d calls do not fit: one pattern may stand for several functions",
				  USER_CALLS_MAX);
	u = (struct user_call){ .library = (char *)w.text[KEY_LIBRARY], .symbol = (char *)w.text[KEY_SYMBOL], .desc = w.desc };
	r = conf_source(e, &u.file, &u.line);
	return r < 0 ? r : settings_add_call(settings, &u);
}

int settings_calls_read(struct errors *errors, const config_setting_t *s, struct settings *settings)
{
	int r = 0;

	if (!config_setting_is_list(s))
		return conf_error(errors, s, "calls needs a list of groups: ( { library = \"...\"; ... }, { ... } )");
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		int q = read_call(errors, config_setting_get_elem(s, (unsigned)i), settings);

		r = q < 0 ? q : r;
	}
	return r;
}

void user_calls_free(struct user_call *list, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		free(list[i].library);
		free(list[i].symbol);
		free(list[i].file);
	}
	free(list);
}
