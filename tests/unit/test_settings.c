/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "rule/settings.h"
#include "test.h"

static char *errors_text(const struct errors *e)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	errors_print(e, f);
	fclose(f);
	return text;
}

static bool is_default_syslog(const struct syslog_settings *s)
{
	return s->transport == SYSLOG_UNIX && !s->is_cee && !s->is_newline_framed && s->facility == SYSLOG_FACILITY_DAEMON &&
	       s->max_bytes == 0 && (!s->address || strcmp(s->address, SYSLOG_SOCKET_DEFAULT) == 0) && !s->hostname;
}

static bool is_default(const struct settings *s)
{
	static const struct limits limits = LIMITS_DEFAULT;

	return memcmp(&s->limits, &limits, sizeof(limits)) == 0 && strcmp(s->sink, "auto") == 0 && is_default_syslog(&s->syslog) &&
	       s->rules_len == 0 && s->libraries_len == 0 && s->redact_len == 0 &&
	       !s->metrics.listen && !s->metrics.textfile && s->metrics.interval_ns == 15 * NSEC_PER_SEC &&
	       s->metrics.processes == METRICS_PROCESSES_MAX && !s->metrics.args &&
	       s->allocators_len == 0 && s->allocators_also_len == 0 && s->calls_len == 0 &&
	       s->health_interval_ns == 300 * NSEC_PER_SEC && s->drain_interval_ns == 250 * NSEC_PER_MSEC &&
	       s->nvml_interval_ns == 10 * NSEC_PER_SEC && s->sample_interval_ns == 60 * NSEC_PER_SEC;
}

/* 0 and "" when all is well. */
static int parse(const char *text, struct settings *s, char **ret_errors)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	int r;

	if (settings_init(s) < 0)
		abort();
	r = settings_parse("g.conf", text, &errors, s);
	*ret_errors = errors_text(&errors);
	return r;
}

TEST(empty_is_the_defaults)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_free_ char *errors = NULL;

	EXPECT_EQ(parse("", &s, &errors), 0);
	EXPECT_STR(errors, "");
	EXPECT(is_default(&s));
}

TEST(every_key)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_free_ char *errors = NULL;
	int r;

	r = parse("limits = { processes = 100; live_allocations = 2000L; sites = 300; sites_per_process = 30; "
		  "stacks_per_process = 40;\n"
		  "  stacks_per_second = 45; learned_stacks = 4096;\n"
		  "  incidents = 50; queue = 60; ring_bytes = \"1MiB\"; records_per_minute = 70; "
		  "history_per_minute = 80; libraries = 8; };\n"
		  "sink = \"syslog\";\n"
		  "syslog = { cee = true; server = \"tcp://[fe80::1%eth0]:6514\"; facility = \"local7\";\n"
		  "  framing = \"newline\"; max_bytes = \"4KiB\"; hostname = \"gpu-17.example.org\"; };\n"
		  "rules = [ \"/a\", \"/b\" ]; libraries = \"/lib/x.so\"; redact = ( \"tok_[a-z]+\" );\n"
		  "allocators = [ \"/libpool[.]so\", \"^$\" ]; allocators_also = \"/cache[.]py$\";\n"
		  "health_interval = \"1m\"; drain_interval = \"50ms\"; nvml_interval = \"2s\";\n"
		  "sample_interval = \"5m\";\n"
		  "metrics = { listen = \"[::1]:9999\"; textfile = \"/x/gpu.prom\"; interval = \"30s\"; processes = 0; args = true; };\n",
		  &s, &errors);
	EXPECT_STR(errors, "");
	ASSERT(r == 0);
	EXPECT_EQ(s.limits.processes, 100);
	EXPECT_EQ(s.limits.live_allocations, 2000);
	EXPECT_EQ(s.limits.sites, 300);
	EXPECT_EQ(s.limits.sites_per_process, 30);
	EXPECT_EQ(s.limits.stacks_per_process, 40);
	EXPECT_EQ(s.limits.stacks_per_second, 45);
	EXPECT_EQ(s.limits.learned_stacks, 4096);
	EXPECT_EQ(s.limits.incidents, 50);
	EXPECT_EQ(s.limits.queue, 60);
	EXPECT_EQ(s.limits.ring_bytes, 1 << 20);
	EXPECT_EQ(s.limits.records_per_minute, 70);
	EXPECT_EQ(s.limits.history_per_minute, 80);
	EXPECT_EQ(s.limits.libraries, 8);
	EXPECT_STR(s.sink, "syslog");
	EXPECT(s.syslog.is_cee);
	EXPECT_EQ(s.syslog.transport, SYSLOG_TCP);
	EXPECT_STR(s.syslog.address, "fe80::1%eth0");
	EXPECT_EQ(s.syslog.port, 6514);
	EXPECT_EQ(s.syslog.facility, 23);
	EXPECT(s.syslog.is_newline_framed);
	EXPECT_EQ(s.syslog.max_bytes, 4096);
	EXPECT_STR(s.syslog.hostname, "gpu-17.example.org");
	ASSERT(s.rules_len == 2 && s.libraries_len == 1 && s.redact_len == 1);
	EXPECT_STR(s.rules[1], "/b");
	EXPECT_STR(s.libraries[0], "/lib/x.so");
	EXPECT_STR(s.redact[0], "tok_[a-z]+");
	ASSERT(s.allocators_len == 2 && s.allocators_also_len == 1);
	EXPECT_STR(s.allocators[0], "/libpool[.]so");
	EXPECT_STR(s.allocators[1], "^$");
	EXPECT_STR(s.allocators_also[0], "/cache[.]py$");
	EXPECT_EQ(s.health_interval_ns, 60 * NSEC_PER_SEC);
	EXPECT_EQ(s.drain_interval_ns, 50 * NSEC_PER_MSEC);
	EXPECT_EQ(s.nvml_interval_ns, 2 * NSEC_PER_SEC);
	EXPECT_EQ(s.sample_interval_ns, 300 * NSEC_PER_SEC);
	EXPECT_STR(s.metrics.listen, "[::1]:9999");
	EXPECT_STR(s.metrics.textfile, "/x/gpu.prom");
	EXPECT_EQ(s.metrics.interval_ns, 30 * NSEC_PER_SEC);
	EXPECT_EQ(s.metrics.processes, 0);
	EXPECT(s.metrics.args);
}

static const struct {
	const char *text, *errors;
} bad[] = {
	{ "\nsinc = \"json\";", "g.conf:2: error: unknown key \"sinc\": did you mean \"sink\"?\n" },
	{ "colour = 1;", "g.conf:1: error: unknown key \"colour\": known are limits, sink, syslog, rules, libraries, "
			 "redact, omit, allocators, allocators_also, calls, trace_frameworks, "
			 "health_interval, drain_interval, nvml_interval, sample_interval, metrics\n" },
	{ "version = 1;", "g.conf:1: error: \"version\" is a key of a rule file, not of the daemon's configuration: "
			  "rules lie in /etc/gpuxray/rules.d\n" },
	{ "sink = \"jornal\";", "g.conf:1: error: unknown sink \"jornal\": did you mean \"journal\"?\n" },
	{ "sink = 1;", "g.conf:1: error: sink needs a string in double quotes\n" },
	{ "syslog = true;", "g.conf:1: error: syslog needs a group: { key = value; ... }\n" },
	{ "syslog = { cee = 1; };", "g.conf:1: error: cee needs true or false, without quotes\n" },
	{ "syslog = { format = \"cee\"; };", "g.conf:1: error: unknown key of syslog \"format\": known are cee, server, "
					     "facility, framing, max_bytes, hostname\n" },
	{ "syslog = { server = \"loghost\"; };",
	  "g.conf:1: error: server: \"loghost\" is none of \"unix:/dev/log\", \"udp://HOST:514\" and "
	  "\"tcp://HOST:601\"\n" },
	{ "syslog = { server = \"tls://a\"; };", "g.conf:1: error: server: \"tls://a\" is none of \"unix:/dev/log\", "
						 "\"udp://HOST:514\" and \"tcp://HOST:601\"\n" },
	{ "syslog = { server = \"unix:log\"; };", "g.conf:1: error: server: \"log\" must be an absolute path\n" },
	{ "syslog = { server = \"tcp://\"; };", "g.conf:1: error: server: no host: write \"tcp://HOST:601\"\n" },
	{ "syslog = { server = \"udp://:514\"; };", "g.conf:1: error: server: no host: write \"udp://HOST:514\"\n" },
	{ "syslog = { server = \"udp://a:0\"; };",
	  "g.conf:1: error: server: port \"0\" is not a number from 1 to 65535\n" },
	{ "syslog = { server = \"udp://a:65536\"; };",
	  "g.conf:1: error: server: port \"65536\" is not a number from 1 to 65535\n" },
	{ "syslog = { server = \"udp://a:99999999999999999999\"; };",
	  "g.conf:1: error: server: port \"99999999999999999999\" is not a number from 1 to 65535\n" },
	{ "syslog = { server = \"udp://a: 5\"; };",
	  "g.conf:1: error: server: port \" 5\" is not a number from 1 to 65535\n" },
	{ "syslog = { server = \"udp://a:\"; };", "g.conf:1: error: server: port \"\" is not a number from 1 to 65535\n" },
	{ "syslog = { server = \"udp://a:syslog\"; };",
	  "g.conf:1: error: server: port \"syslog\" is not a number from 1 to 65535\n" },
	{ "syslog = { server = \"tcp://::1\"; };",
	  "g.conf:1: error: server: an IPv6 address stands in brackets: \"[::1]:601\"\n" },
	{ "syslog = { server = \"tcp://[::1\"; };", "g.conf:1: error: server: \"[::1\" has no closing bracket\n" },
	{ "syslog = { server = \"tcp://[1.2.3.4]\"; };",
	  "g.conf:1: error: server: what is in brackets is no IPv6 address: \"[1.2.3.4]\"\n" },
	{ "syslog = { server = \"tcp://[fe80::1%]\"; };",
	  "g.conf:1: error: server: what is in brackets is no IPv6 address: \"[fe80::1%]\"\n" },
	{ "syslog = { server = \"tcp://[::1]x\"; };",
	  "g.conf:1: error: server: \"x\" follows the host: only a port may, \":601\" say\n" },
	{ "syslog = { server = \"tcp://a/b\"; };",
	  "g.conf:1: error: server: \"a/b\" is no name of a host and no address\n" },
	{ "syslog = { facility = \"kern\"; };",
	  "g.conf:1: error: unknown facility \"kern\": known are user, mail, daemon, auth, "
	  "syslog, lpr, news, uucp, cron, authpriv, ftp, local0, local1, local2, local3, local4, local5, local6, local7\n" },
	{ "syslog = { server = \"udp://a\"; framing = \"newline\"; };",
	  "g.conf:1: error: framing = \"newline\" goes with a server \"tcp://...\" alone: other messages have an end of "
	  "their own\n" },
	{ "syslog = { max_bytes = \"479B\"; };", "g.conf:1: error: max_bytes must be \"auto\" or from 480B to 32KiB\n" },
	{ "syslog = { max_bytes = 2048; };", "g.conf:1: error: max_bytes is a size: a bare number does not say of what, write "
					     "\"100MiB\"\n" },
	{ "syslog = { hostname = \"gpu 17\"; };",
	  "g.conf:1: error: hostname: at most 64 ASCII characters, none of them a blank\n" },
	{ "limits = {\n proceses = 1;\n queue = \"5\";\n queue2 = 5;\n ring_bytes = 5;\n libraries = 0; };",
	  "g.conf:2: error: unknown key of limits \"proceses\": did you mean \"processes\"?\n"
	  "g.conf:3: error: queue needs a plain number, without quotes or unit\n"
	  "g.conf:4: error: unknown key of limits \"queue2\": did you mean \"queue\"?\n"
	  "g.conf:5: error: ring_bytes is a size: a bare number does not say of what, write \"100MiB\"\n"
	  "g.conf:6: error: libraries = 0 is out of range: it goes from 1 to 4096\n" },
	{ "limits = { ring_bytes = \"3MiB\"; };", "g.conf:1: error: ring_bytes must be a power of two from 64KiB to "
						  "1GiB, such as \"8MiB\"\n" },
	{ "limits = { ring_bytes = \"4GiB\"; };", "g.conf:1: error: ring_bytes must be a power of two from 64KiB to "
						  "1GiB, such as \"8MiB\"\n" },
	{ "limits = { processes = 99999999999L; };", "g.conf:1: error: processes = 99999999999 is out of range: it "
						     "goes from 16 to 1000000\n" },
	{ "rules = [ \"rules.d\" ];", "g.conf:1: error: rules: \"rules.d\" must be an absolute path\n" },
	{ "rules = ( { name = \"a\"; } );", "g.conf:1: error: rules names files and directories here: rules = [ "
					    "\"/path\" ]; rules themselves belong into a file "
					    "of /etc/gpuxray/rules.d\n" },
	{ "libraries = [ 5 ];", "g.conf:1: error: libraries may hold strings only\n" },
	{ "redact = [ \"ok\",\n \"(\" ];", "g.conf:2: error: redact: pattern \"(\" is not a regular expression: "
					   "missing closing parenthesis at character 2\n" },
	{ "redact = \"\";", "g.conf:1: error: redact: an empty pattern matches everywhere: remove it\n" },
	{ "allocators = [ \"ok\",\n \"[\", \"\" ];",
	  "g.conf:2: error: allocators: pattern \"[\" is not a regular expression: missing terminating ] for character "
	  "class at character 2\n"
	  "g.conf:2: error: allocators: an empty pattern matches everywhere: remove it\n" },
	{ "allocators_also = [ 1 ];", "g.conf:1: error: allocators_also may hold strings only\n" },
	{ "allocators_also = \"\";", "g.conf:1: error: allocators_also: an empty pattern matches everywhere: remove "
				   "it\n" },
	{ "limits = { stacks_per_second = 0; };",
	  "g.conf:1: error: stacks_per_second = 0 is out of range: it goes from 1 to 100000\n" },
	{ "limits = { learned_stacks = 1023; };",
	  "g.conf:1: error: learned_stacks = 1023 is out of range: it goes from 1024 to 1048576\n" },
	{ "limits = { learned_stacks = 1048577; };",
	  "g.conf:1: error: learned_stacks = 1048577 is out of range: it goes from 1024 to 1048576\n" },
	{ "sample_interval = \"2h\";", "g.conf:1: error: sample_interval = \"2h\" is out of range: it goes from 1s to 1h\n" },
	{ "sample_interval = \"never\";", "g.conf:1: error: sample_interval = \"never\" is not a time: write a number and ms, s, m, h or d, such as \"1m30s\"\n" },
	{ "health_interval = 300;", "g.conf:1: error: health_interval is a time: write a string with a unit, such as "
				    "\"30s\"\n" },
	{ "health_interval = \"0s\";", "g.conf:1: error: health_interval = \"0s\" is out of range: it goes from 1s to "
				       "1d\n" },
	{ "drain_interval = \"1ms\";", "g.conf:1: error: drain_interval = \"1ms\" is out of range: it goes from 10ms "
				       "to 10s\n" },
	{ "nvml_interval = \"soon\";", "g.conf:1: error: nvml_interval = \"soon\" is not a time: write a number and "
				       "ms, s, m, h or d, such as \"1m30s\"\n" },
	{ "metrics = \":2112\";", "g.conf:1: error: metrics needs a group: { key = value; ... }\n" },
	{ "metrics = {\n listen = \"gpu-17\";\n textfile = \"a.prom\";\n interval = 15;\n processes = -1;\n args = 1;\n port = 1; };",
	  "g.conf:2: error: listen: \"gpu-17\" is no address: write an IP address of this host, \"localhost\", or \":2112\" for "
	  "all addresses\n"
	  "g.conf:3: error: textfile: \"a.prom\" must be an absolute path\n"
	  "g.conf:4: error: interval is a time: write a string with a unit, such as \"30s\"\n"
	  "g.conf:5: error: processes = -1 is out of range: it goes from 0 to 1000000\n"
	  "g.conf:6: error: args needs true or false, without quotes\n"
	  "g.conf:7: error: unknown key of metrics \"port\": known are listen, textfile, interval, processes, args\n" },
	{ "metrics = { listen = \"unix:run\"; };", "g.conf:1: error: listen: \"run\" must be an absolute path\n" },
	{ "metrics = { interval = \"0s\"; };", "g.conf:1: error: interval = \"0s\" is out of range: it goes from 1s to 1d\n" },
	{ "sink = \"json\"\nsink = \"json\"", "g.conf:2: error: duplicate setting name: remove one of the two\n" },
};

TEST(servers)
{
	static const struct {
		const char *server, *address;
		enum syslog_transport transport;
		uint16_t port;
	} good[] = {
		{ "unix:/run/log", "/run/log", SYSLOG_UNIX, 0 },
		{ "udp://loghost", "loghost", SYSLOG_UDP, 514 },
		{ "tcp://log-host.example.org", "log-host.example.org", SYSLOG_TCP, 601 },
		{ "tcp://10.0.0.1:514", "10.0.0.1", SYSLOG_TCP, 514 },
		{ "udp://[2001:db8::1]", "2001:db8::1", SYSLOG_UDP, 514 },
		{ "tcp://[::ffff:10.0.0.1]:65535", "::ffff:10.0.0.1", SYSLOG_TCP, 65535 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_(settings_done) struct settings s = {};
		_cleanup_free_ char *errors = NULL;
		char text[128];

		snprintf(text, sizeof(text), "syslog = { server = \"%s\"; framing = \"octet-counting\"; };", good[i].server);
		EXPECT_EQ(parse(text, &s, &errors), 0);
		EXPECT_STR(errors, "");
		EXPECT_EQ(s.syslog.transport, good[i].transport);
		EXPECT_STR(s.syslog.address, good[i].address);
		EXPECT_EQ(s.syslog.port, good[i].port);
	}
}

TEST(bad_settings_are_told_and_change_nothing)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(settings_done) struct settings s = {};
		_cleanup_free_ char *errors = NULL;
		char text[1024];

		/* A good key before the bad one must not stay behind. */
		snprintf(text, sizeof(text), "%s%s", strstr(bad[i].text, "syslog") ? "" : "syslog = { cee = true; };",
			 bad[i].text);
		EXPECT_EQ(parse(text, &s, &errors), -EINVAL);
		EXPECT_STR(errors, bad[i].errors);
		EXPECT(is_default(&s));
	}
}

TEST(names_that_node_exporter_does_not_read)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_free_ char *errors = NULL;

	EXPECT_EQ(parse("metrics = { textfile = \"/x/gpuxray.txt\"; listen = \"\"; };", &s, &errors), 0);
	EXPECT_STR(errors, "g.conf:1: warning: textfile: node_exporter reads files whose names end in \".prom\" alone\n");
	EXPECT_STR(s.metrics.textfile, "/x/gpuxray.txt");
	EXPECT(!s.metrics.listen);
}

TEST(files)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(settings_done) struct settings s = {};
	char root[] = "/tmp/test_settings.XXXXXX", path[128];
	FILE *f;

	ASSERT(mkdtemp(root) && settings_init(&s) == 0);
	/* The default file may be absent, one that was asked for may not. */
	EXPECT_EQ(settings_load(root, NULL, &errors, &s), 0);
	EXPECT_EQ(errors.len, 0);
	EXPECT(is_default(&s));
	snprintf(path, sizeof(path), "%s/none.conf", root);
	EXPECT_EQ(settings_load(root, path, &errors, &s), -EINVAL);
	ASSERT(errors.len == 1);
	EXPECT_STR(errors.list[0].file, path);
	EXPECT_STR(errors.list[0].text, "cannot read it: No such file or directory");

	snprintf(path, sizeof(path), "%s/etc", root);
	ASSERT(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/etc/gpuxray", root);
	ASSERT(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/etc/gpuxray/gpuxray.conf", root);
	f = fopen(path, "w");
	ASSERT(f);
	fputs("sink = \"json\";\n", f);
	fclose(f);
	EXPECT_EQ(settings_load(root, NULL, &errors, &s), 0);
	EXPECT_STR(s.sink, "json");
	EXPECT_EQ(errors.len, 1);

	unlink(path);
	snprintf(path, sizeof(path), "%s/etc/gpuxray", root);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/etc", root);
	rmdir(path);
	EXPECT_EQ(rmdir(root), 0);
}

static bool is_setting_line(const char *line)
{
	return line[0] == '#' && ((line[1] >= 'a' && line[1] <= 'z') || line[1] == '}' || strncmp(line, "#  ", 3) == 0);
}

/* With its comment signs taken away the shipped file says what the program does anyway, and names every key. */
TEST(shipped_file_says_the_defaults)
{
	static const char *const keys[] = {
		"sink",
		"cee",
		"server",
		"facility",
		"framing",
		"max_bytes",
		"hostname",
		"rules",
		"libraries",
		"redact",
		"allocators ",
		"allocators_also",
		"calls = ",
		"trace_frameworks",
		"health_interval",
		"drain_interval",
		"nvml_interval",
		"processes",
		"live_allocations",
		"sites ",
		"sites_per_process",
		"stacks_per_process",
		"stacks_per_second",
		"learned_stacks",
		"incidents",
		"queue",
		"ring_bytes",
		"records_per_minute",
		"libraries ",
		"metrics",
		"listen",
		"textfile",
		"interval ",
		"args",
	};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_free_ char *errors = NULL;
	FILE *f = fopen("contrib/gpuxray.conf", "r");
	char line[512];

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		/* As it is shipped it sets nothing. */
		EXPECT(line[0] == '#' || line[0] == '\n');
		if (is_setting_line(line))
			strbuf_adds(&sb, line + 1);
	}
	fclose(f);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *p = strstr(strbuf_str(&sb), keys[i]);

		if (!p)
			printf("# %s is not in the file\n", keys[i]);
		EXPECT(p);
	}
	EXPECT_EQ(parse(strbuf_str(&sb), &s, &errors), 0);
	EXPECT_STR(errors, "");
	EXPECT(is_default(&s));
}

TEST_MAIN()
