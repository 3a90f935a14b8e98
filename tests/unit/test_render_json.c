/* SPDX-License-Identifier: MIT */
/* That it is the schema that the man page tells is checked end to end, by a reader of JSON. */
#include "render_make.h"
#include "test.h"

/* ---- a strict reader: NULL = that is no JSON */

static const char *read_value(const char *p);

static const char *read_string(const char *p)
{
	if (*p++ != '"')
		return NULL;
	for (; *p != '"'; p++) {
		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p != '\\')
			continue;
		p++;
		if (*p == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") >= 4)
			p += 4;
		else if (!*p || !strchr("\"\\/bfnrt", *p))
			return NULL;
	}
	return p + 1;
}

static const char *read_list(const char *p, char close, bool has_keys)
{
	if (*++p == close)
		return p + 1;
	for (;; p++) {
		if (has_keys) {
			p = read_string(p);
			if (!p || *p++ != ':')
				return NULL;
		}
		p = read_value(p);
		if (!p)
			return NULL;
		if (*p == close)
			return p + 1;
		if (*p != ',')
			return NULL;
	}
}

static const char *read_value(const char *p)
{
	static const char *const words[] = { "null", "true", "false" };
	size_t digits;

	if (*p == '{')
		return read_list(p, '}', true);
	if (*p == '[')
		return read_list(p, ']', false);
	if (*p == '"')
		return read_string(p);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strncmp(p, words[i], strlen(words[i])) == 0)
			return p + strlen(words[i]);
	}
	digits = strspn(p, "0123456789.");
	return digits > 0 && (*p != '0' || digits == 1 || p[1] == '.') ? p + digits : NULL;
}

static char *render(const struct story *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *text = NULL;
	const char *end;

	render_json(s, &sb);
	if (strbuf_steal(&sb, &text) < 0)
		abort();
	end = read_value(text);
	if (!end || strcmp(end, "\n") != 0) {
		printf("# no JSON: %s\n", text);
		test_failures++;
	}
	return text;
}

#define EXPECT_PART(text, part)                                                                                        \
	do {                                                                                                           \
		if (!strstr(text, part)) {                                                                             \
			printf("# %s:%d: no %s\n", __FILE__, __LINE__, part);                                          \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

TEST(nothing)
{
	_cleanup_free_ char *text = render(&make_nothing);

	EXPECT_STR(text, "{\"version\":\"" GPUXRAY_VERSION "\",\"from_usec\":1796058000000000,\"until_usec\":1796108400000000,"
			 "\"records\":1,\"hosts\":[{\"name\":\"gpu01\",\"machine_id\":\"0123456789abcdef0123456789abcdef\"}],"
			 "\"devices\":[],\"processes\":[],\"incidents\":[],\"failures\":[],\"stacks\":{},\"gaps\":[],"
			 "\"left_out\":[]}\n");
}

TEST(all_of_a_night)
{
	_cleanup_free_ char *text = render(&make_night);

	EXPECT_PART(text, "{\"host\":0,\"uuid\":\"GPU-22222222-2222-2222-2222-222222222222\",\"index\":1,\"total_bytes\":null,"
			  "\"peak_bytes\":2147483648,\"peak_usec\":1796059800000000,\"used\":[]}");
	EXPECT_PART(text, "\"used\":[[1796058000000000,10737418240,10737418240,10737418240],[");
	EXPECT_PART(text, "{\"host\":0,\"pid\":500,\"start_time\":1,\"comm\":\"nb\",\"exe\":null,\"cmdline\":null,\"user\":null,"
			  "\"unit\":null,\"container\":null,\"pod\":null,\"slurm_job\":null,\"tag\":null,"
			  "\"pod_name\":null,\"pod_namespace\":null,\"container_name\":null,"
			  "\"first_usec\":1796061600000000,\"last_usec\":1796061600000000,\"end_usec\":null,\"ended\":false,"
			  "\"cut\":true,\"peak_bytes\":314572800,\"peak_usec\":1796061600000000,\"live_bytes\":314572800,"
			  "\"host_bytes\":null,\"managed_bytes\":null,\"driver_bytes\":null,\"alloc_count\":null,"
			  "\"free_count\":null,\"fail_count\":null,\"allocated_bytes\":null,\"lost_events\":0,\"exact\":true,"
			  "\"held\":[{\"device\":null,\"peak_bytes\":314572800,\"peak_usec\":1796061600000000,"
			  "\"points\":[[1796061600000000,0,314572800,314572800]]}],\"peak_stack\":null,\"sites\":[],"
			  "\"incidents\":0}");
	EXPECT_PART(text, "\"allocated_bytes\":18446744073709551614,");
	EXPECT_PART(text, "\"sites\":[{\"stack\":\"0123456789abcdef\",\"bytes\":33285996544,\"last_bytes\":1073741824,"
			  "\"peak_bytes\":35433480192},");
	EXPECT_PART(text, "{\"id\":null,\"host\":0,\"rule\":\"huge\",\"event\":\"single_alloc\",\"severity\":\"notice\","
			  "\"scope\":\"process\",\"subject\":\"nb[500]\",\"process\":2,\"device\":null,\"state\":\"single\","
			  "\"begin_usec\":1796061600000000,\"last_usec\":1796061600000000,\"end_usec\":null,\"before\":false,"
			  "\"duration_sec\":null,\"value\":null,\"limit\":null,\"peak_value\":null,\"value_unit\":null,"
			  "\"growth_bytes_per_hour\":null,\"full_in_sec\":null,\"leaked_bytes\":null,\"confidence\":null,"
			  "\"caveat\":null,\"message\":\"nb[500] allocated 300 MiB at once (rule huge)\","
			  "\"documentation\":null,\"stack\":null,\"records\":1}");
	EXPECT_PART(text, "\"growth_bytes_per_hour\":4294967296,\"full_in_sec\":36000,\"leaked_bytes\":21474836480,"
			  "\"confidence\":0.875,");
	EXPECT_PART(text, "\"count\":2,\"host\":0,\"process\":0,\"device\":0,\"bytes\":2147483648,"
			  "\"function\":\"cuMemAlloc_v2\",\"error\":\"2 CUDA_ERROR_OUT_OF_MEMORY\",");
	EXPECT_PART(text, "\"live_bytes\":44023414784,\"device_bytes\":85899345920,\"device_used_bytes\":84825604096,"
			  "\"holders\":[{\"process\":0,\"bytes\":44023414784,\"as_of_usec\":1796086800000000},"
			  "{\"process\":1,\"bytes\":33285996544,\"as_of_usec\":1796083200000000}],"
			  "\"holders_left_out\":1,\"other_bytes\":7516192768}");
	EXPECT_PART(text, "\"fedcba9876543210\":{\"frames\":[\"cuMemAlloc_v2+0x0 (libcuda.so.1)\","
			  "\"fill_cache(int, char const*)+0x44 (server) at cache.cc:81\",\"main+0x10 (server)\"],"
			  "\"info\":\"cut: 3 frames could not be unwound\"}");
	EXPECT_PART(text, "\"00000000000000aa\":{\"frames\":[],\"info\":null}");
	EXPECT_PART(text, "{\"kind\":\"down\",\"host\":0,\"from_usec\":1796094000000000,\"until_usec\":1796101800000000,"
			  "\"count\":null,\"text\":\"gpuxray was not running for 2h 10m\"}");
	EXPECT_PART(text, "\"left_out\":[{\"what\":\"processes\",\"count\":12},{\"what\":\"unreadable\",\"count\":1}]}");
}

TEST(hostile_text)
{
	static const char hostile[] = "\"\\\x01\n\x7f\xff\xc2\x9b</script>\xe2\x80\xa8";
	struct story_stack stack = { hostile, hostile, hostile };
	struct story_host host = { hostile, NULL };
	struct story_incident i = make_once;
	struct story s = make_nothing;
	_cleanup_free_ char *text = NULL;

	i.subject = i.message = i.rule = hostile;
	i.confidence = 0.0 / 0.0;
	i.begin_usec = UINT64_MAX - 1;
	s.hosts = (struct story_host *[]){ &host };
	s.stacks = (struct story_stack *[]){ &stack };
	s.stacks_len = 1;
	s.incidents = (struct story_incident *[]){ &i };
	s.incidents_len = 1;
	text = render(&s);
	EXPECT_PART(text, "\"name\":\"\\\"\\\\\\u0001\\n\\u007f\xef\xbf\xbd\\u009b</script>\xe2\x80\xa8\"");
	EXPECT_PART(text, "\"begin_usec\":18446744073709551614,");
	EXPECT_PART(text, "\"confidence\":null,");
	EXPECT_PART(text, "\"host\":null,\"rule\":"); /* of a host that is not in the list */
}

TEST(numbers_of_places)
{
	struct story_device *devices[] = { &make_gpu1, &make_gpu0 };
	struct story_host *hosts[] = { &make_other_host, &make_host };
	struct story s = make_night;
	_cleanup_free_ char *text = NULL;

	s.devices = devices;
	s.hosts = hosts;
	s.hosts_len = 2;
	text = render(&s);
	EXPECT_PART(text, "\"hosts\":[{\"name\":\"gpu02\",\"machine_id\":null},{\"name\":\"gpu01\",");
	EXPECT_PART(text, "\"devices\":[{\"host\":1,\"uuid\":\"GPU-22222222");
	EXPECT_PART(text, "\"process\":1,\"device\":1,\"state\":\"firing\"");
}

TEST_MAIN()
