/* SPDX-License-Identifier: MIT */
/* Rule files that are bad: the exact lines that people read. */
#include "rule/settings.h"
#include "ruleset_load.h"

static const struct {
	const char *keys, *text; /* on line 3 of the file */
} bad_rules[] = {
	{ "kind = \"live_bytes\"; fire_above = 100;", "fire_above needs a unit, in a string: a bare number does not "
						      "say of what, write \"100MiB\" or \"92%\"" },
	{ "kind = \"alloc_rate\"; fire_above = 100;", "fire_above needs a unit, in a string: a bare number does not "
						      "say of what, write \"2000/s\" or \"8GiB/s\"" },
	{ "kind = \"live_bytes\"; fire_above = true;", "fire_above needs a string in double quotes" },
	{ "kind = \"live_bytes\"; fire_above = \"100\";", "fire_above = \"100\" is not a size: write a number and B, "
							  "KiB, MiB, GiB, TiB or %, such as \"100MiB\" or \"92%\"" },
	{ "kind = \"live_bytes\"; fire_above = \"8GiB/s\";", "fire_above = \"8GiB/s\": live_bytes compares bytes, not "
							     "a rate: write \"40GiB\", or use kind = \"alloc_rate\"" },
	{ "kind = \"alloc_rate\"; fire_above = \"8GiB\";", "fire_above = \"8GiB\": alloc_rate compares a rate, write "
							   "calls as \"2000/s\" or bytes as \"8GiB/s\"" },
	{ "kind = \"alloc_rate\"; fire_above = \"92%\";", "fire_above = \"92%\": alloc_rate compares a rate, write "
							  "calls as \"2000/s\" or bytes as \"8GiB/s\"" },
	{ "kind = \"alloc_rate\"; fire_above = \"fast\";", "fire_above = \"fast\" is not a rate: write calls as "
							   "\"2000/s\" or bytes as \"8GiB/s\"" },
	{ "kind = \"live_bytes\"; fire_above = \"120%\";", "fire_above = \"120%\" is out of range: a share goes from "
							   "0% to 100%" },
	{ "kind = \"live_bytes\"; fire_above = \"100%\";", "fire_above = \"100%\" is unreachable: nothing holds more "
							   "than the device" },
	{ "kind = \"live_bytes\"; fire_above = \"0B\";", "fire_above must be more than 0: write \"1B\" to fire on any "
							 "use" },
	{ "kind = \"live_bytes\"; fire_above = \"99999999TiB\";", "fire_above = \"99999999TiB\" is too large" },
	{ "kind = \"live_bytes\"; fire_above = \"92%\"; scope = \"unit\";", "fire_above = \"92%\": a share is that of "
									    "a device, which scope = \"unit\" does not "
									    "name: use scope = \"device\" "
									    "or write a size" },
	{ "kind = \"live_bytes\"; fire_above = \"92%\"; scope = \"device\"; class = \"host\";", "fire_above = \"92%\": "
												"a share is that of a "
												"device, where memory "
												"of this class does "
												"not lie: write a "
												"size" },
	{ "kind = \"live_bytes\"; fire_above = \"1GiB\"; resolve_below = \"1GiB\";", "resolve_below is not below "
										     "fire_above, so that the resolved "
										     "state is unreachable: lower it, "
										     "or leave it out for "
										     "95% of fire_above" },
	{ "kind = \"live_bytes\"; fire_above = \"90%\"; resolve_below = \"1GiB\";", "resolve_below is not of the same "
										    "unit as fire_above: write both as "
										    "sizes, both as shares or both as "
										    "rates of the "
										    "same thing" },
	{ "kind = \"alloc_rate\"; fire_above = \"5/s\"; resolve_below = \"1MiB/s\";", "resolve_below is not of the "
										      "same unit as fire_above: write "
										      "both as sizes, both as shares "
										      "or both as rates of the "
										      "same thing" },
	{ "kind = \"live_bytes\"; fire_above = \"1GiB\"; resolve_below = \"0B\";", "resolve_below is unreachable: "
										   "nothing is less than 0, write "
										   "\"1B\" or more" },
	{ "kind = \"live_bytes\";", "rule \"x\" needs fire_above, such as fire_above = \"40GiB\"" },
	{ "kind = \"alloc_rate\";", "rule \"x\" needs fire_above, such as fire_above = \"2000/s\"" },
	{ "kind = \"exit\";", "rule \"x\" needs live_above, such as live_above = \"256MiB\"" },
	{ "fire_above = \"1GiB\";", "rule \"x\" needs a kind, such as kind = \"live_bytes\"" },
	{ "kind = \"live_byte\";", "unknown kind \"live_byte\": did you mean \"live_bytes\"?" },
	{ "kind = \"idle\";", "unknown kind \"idle\": known are live_bytes, single_alloc, alloc_rate, "
			      "alloc_failure, leak, exit, untracked_growth, orphan" },
	{ "kind = \"untracked_growth\";",
	  "rule \"x\" needs fire_above, such as fire_above = \"40GiB\"" },
	{ "kind = \"untracked_growth\"; fire_above = \"10%\";",
	  "fire_above = \"10%\": growth is compared with a size, such as \"4GiB\"" },
	{ "kind = \"untracked_growth\"; fire_above = \"1GiB\"; scope = \"unit\";",
	  "scope = \"unit\": kind = \"untracked_growth\" looks at each \"process\"" },
	{ "kind = \"orphan\"; class = \"host\";", "class does not belong to kind = \"orphan\": remove it" },
	{ "kind = \"orphan\"; conditions = [];", "conditions is empty: leave it out for all of them" },
	{ "kind = \"orphan\"; conditions = [ \"zombi\" ];", "unknown condition \"zombi\": did you mean \"zombie\"?" },
	{ "kind = \"orphan\"; fire_above = \"1GiB\";",
	  "fire_above does not belong to kind = \"orphan\" but to live_bytes, single_alloc, alloc_rate, "
	  "untracked_growth: remove it" },
	{ "kind = 1;", "kind needs a string in double quotes" },
	{ "kind = \"alloc_failure\"; scope = \"stack\";", "scope = \"stack\" is for kind = \"leak\" only: use "
							  "\"process\"" },
	{ "kind = \"alloc_failure\"; scope = \"pod\";", "unknown scope \"pod\": known are process, device, cgroup, "
							"unit, user, container, stack" },
	{ "kind = \"leak\"; scope = \"unit\";", "scope = \"unit\": a leak is judged by \"process\" or \"stack\"" },
	{ "kind = \"exit\"; live_above = \"1B\"; scope = \"user\";", "scope = \"user\": an exit is that of a "
								     "\"process\"" },
	{ "kind = \"alloc_failure\"; class = \"hots\";", "unknown class \"hots\": did you mean \"host\"?" },
	{ "kind = \"alloc_failure\"; class = [];", "class is empty: leave it out for \"device\"" },
	{ "kind = \"alloc_failure\"; fire_above = \"1GiB\";", "fire_above does not belong to kind = \"alloc_failure\" "
							      "but to live_bytes, single_alloc, alloc_rate, "
							      "untracked_growth: remove "
							      "it" },
	{ "kind = \"alloc_failure\"; epochs = 3;", "epochs does not belong to kind = \"alloc_failure\" but to leak: "
						   "remove it" },
	{ "kind = \"alloc_failure\"; for = \"1s\";", "for does not belong to kind = \"alloc_failure\", which fires at "
						     "once and does not last: remove it or write \"0s\"" },
	{ "kind = \"single_alloc\"; fire_above = \"1GiB\"; resolve_below = \"1MiB\";", "resolve_below does not belong "
										       "to kind = \"single_alloc\" but "
										       "to live_bytes, alloc_rate, untracked_growth: "
										       "remove it" },
	{ "kind = \"alloc_failure\"; widnow = \"1m\";", "unknown key \"widnow\": did you mean \"window\"?" },
	{ "kind = \"alloc_failure\"; window = 60;", "window is a time: write a string with a unit, such as \"30s\"" },
	{ "kind = \"alloc_failure\"; window = \"60\";", "window = \"60\" is not a time: write a number and ms, s, m, h "
							"or d, such as \"1m30s\"" },
	{ "kind = \"alloc_failure\"; window = \"10ms\";", "window = \"10ms\" is out of range: it goes from 1s to 1d" },
	{ "kind = \"alloc_failure\"; count = \"3\";", "count needs a plain number, without quotes or unit" },
	{ "kind = \"alloc_failure\"; count = 0;", "count = 0 is out of range: it goes from 1 to 100000" },
	{ "kind = \"alloc_failure\"; count = 99999999999;", "99999999999 is too large a number: sizes and times are "
							    "strings with a unit, such as \"40GiB\" or \"30s\"" },
	{ "kind = \"alloc_failure\"; budget = \"10\";", "budget needs records per time, such as \"10/10m\"" },
	{ "kind = \"alloc_failure\"; budget = 10;", "budget needs records per time, such as \"10/10m\"" },
	{ "kind = \"alloc_failure\"; budget = \"0/1m\";", "budget = \"0/1m\" would let nothing through: write enabled "
							  "= false to silence a rule" },
	{ "kind = \"alloc_failure\"; severity = \"debug\";", "unknown severity \"debug\": known are info, notice, "
							     "warning, error, critical" },
	{ "kind = \"alloc_failure\"; enabled = \"no\";", "enabled needs true or false, without quotes" },
	{ "kind = \"leak\"; occupancy = \"90%\";", "occupancy is a fraction: write a plain number from 0 to 1, such as "
						   "0.9" },
	{ "kind = \"leak\"; keep_ratio = 1.5;", "keep_ratio is out of range: it goes from 0 to 1" },
	{ "kind = \"leak\"; min_growth = 32;", "min_growth is a size: a bare number does not say of what, write "
					       "\"100MiB\"" },
	{ "kind = \"leak\"; min_growth = \"3GiB/s\";", "min_growth = \"3GiB/s\" is not a size: write a number and B, "
						       "KiB, MiB, GiB or TiB, such as \"100MiB\"" },
	{ "kind = \"leak\"; repeat = \"5ms\";", "repeat is at least 1s, or \"0s\" for never" },
	{ "kind = \"leak\"; escalate = { full_in = \"6h\"; };", "escalate needs a severity, and full_in, above or "
								"after: { severity = \"error\"; after = \"1h\"; }" },
	{ "kind = \"leak\"; escalate = { full_in = \"6h\"; severity = \"bad\"; };", "unknown severity \"bad\": known "
										    "are info, notice, warning, error, "
										    "critical" },
	{ "kind = \"leak\"; escalate = \"error\";", "escalate needs a group: { key = value; ... }" },
	{ "kind = \"leak\"; escalate = { severity = \"error\"; };",
	  "escalate needs a severity, and full_in, above or after: { severity = \"error\"; after = \"1h\"; }" },
	{ "kind = \"leak\"; escalate = { severity = \"error\"; ater = \"1h\"; after = \"1h\"; };",
	  "unknown key of escalate \"ater\": did you mean \"after\"?" },
	{ "kind = \"leak\"; severity = \"error\"; escalate = { severity = \"error\"; after = \"1h\"; };",
	  "escalate: severity = \"error\" is not higher than the rule's own, which is \"error\"" },
	{ "kind = \"leak\"; escalate = { severity = \"notice\"; after = \"1h\"; };",
	  "escalate: severity = \"notice\" is not higher than the rule's own, which is \"warning\"" },
	{ "kind = \"orphan\"; escalate = { severity = \"error\"; full_in = \"6h\"; };",
	  "escalate: full_in does not belong to kind = \"orphan\" but to leak: use above or after" },
	{ "kind = \"leak\"; escalate = { severity = \"error\"; above = \"6GiB\"; };",
	  "escalate: above does not belong to kind = \"leak\", which has no fire_above: use full_in or after" },
	{ "kind = \"live_bytes\"; fire_above = \"4GiB\"; escalate = { severity = \"error\"; above = \"4GiB\"; };",
	  "escalate: above is not over fire_above, so that the rule would never fire without: raise it, or raise the "
	  "rule's severity" },
	{ "kind = \"live_bytes\"; fire_above = \"4GiB\"; escalate = { severity = \"error\"; above = \"95%\"; };",
	  "escalate: above is not of the same unit as fire_above: write both as sizes, both as shares or both as rates "
	  "of the same thing" },
	{ "kind = \"alloc_rate\"; fire_above = \"4/s\"; escalate = { severity = \"error\"; above = \"1GiB/s\"; };",
	  "escalate: above is not of the same unit as fire_above: write both as sizes, both as shares or both as rates "
	  "of the same thing" },
	{ "kind = \"live_bytes\"; fire_above = \"90%\"; escalate = { severity = \"error\"; above = \"100%\"; };",
	  "escalate: above = \"100%\" is unreachable: nothing holds more than the device" },
	{ "kind = \"live_bytes\"; fire_above = \"4GiB\"; escalate = { severity = \"error\"; above = 5; };",
	  "above needs a unit, in a string: a bare number does not say of what, write \"100MiB\" or \"92%\"" },
	{ "kind = \"leak\"; escalate = { severity = \"error\"; after = \"0s\"; };",
	  "after = \"0s\" is out of range: it goes from 1s to 366d" },
	{ "kind = \"alloc_failure\"; escalate = { severity = \"error\"; after = \"1h\"; };",
	  "escalate does not belong to kind = \"alloc_failure\", which fires at once and does not last: remove it" },
	{ "kind = \"leak\"; inhibits = \"x\";", "rule \"x\" inhibits itself and would never speak: remove the name" },
	{ "kind = \"leak\"; min_growth = \"120%\";",
	  "min_growth = \"120%\" is no share of a device: it goes from 0% to 100%, such as \"2%\"" },
	{ "kind = \"leak\"; min_growth = \"2%\"; class = \"host\";",
	  "min_growth = \"2%\": a share is that of a device, where memory of this class does not lie: write a size" },
	{ "kind = \"leak\"; min_confidence = 80;", "min_confidence is out of range: it goes from 0 to 1" },
	{ "kind = \"leak\"; full_in = 7;", "full_in is a time: write a string with a unit, such as \"30s\"" },
	{ "kind = \"exit\"; live_above = \"1B\"; full_in = \"7d\";",
	  "full_in does not belong to kind = \"exit\" but to leak: remove it" },
	{ "kind = \"leak\"; inhibits = \"lake\";", "unknown rule in inhibits \"lake\": known are x" },
	{ "kind = \"alloc_failure\"; match = { com = \"^a\"; };", "unknown match key \"com\": did you mean \"comm\"?" },
	{ "kind = \"alloc_failure\"; match = \"^a\";", "match needs a group: { key = value; ... }" },
	{ "kind = \"alloc_failure\"; match = { };", "match is empty: leave it out, or say { comm = \"^name$\"; }" },
	{ "kind = \"alloc_failure\"; match = { comm = \"^(a\"; };", "pattern \"^(a\" is not a regular expression: "
								    "missing closing parenthesis at character 4" },
	{ "kind = \"alloc_failure\"; match = { comm = \"(*UTF)^a\"; };", "pattern \"(*UTF)^a\" is not a regular "
									 "expression: using UTF is disabled by the "
									 "application at character 7" },
	{ "kind = \"alloc_failure\"; match = { comm = \"\"; };", "an empty pattern matches everything: leave comm "
								 "out" },
	{ "kind = \"alloc_failure\"; match = { comm = []; };", "comm is empty and would match nothing: leave it out" },
	{ "kind = \"alloc_failure\"; match = { comm = [ 1 ]; };", "comm may hold strings only" },
	{ "kind = \"alloc_failure\"; match = { comm = \"@nobody\"; };", "unknown list \"nobody\": known are none" },
	{ "kind = \"alloc_failure\"; except = \"^a\";", "except needs groups: ( { comm = \"^a$\"; user = \"^b$\"; }, "
							"... )" },
	{ "kind = \"alloc_failure\"; except = ();", "except is empty: leave it out" },
	{ "kind = \"alloc_failure\"; except = ( 1 );", "except needs a group: { key = value; ... }" },
	{ "kind = \"alloc_failure\"; message = \"%{command}\";",
	  "unknown name in message \"command\": known are comm, pid, value, limit, rule, severity, incident, user, uid, "
	  "unit, slice, cgroup, container, pod, pod_name, pod_namespace, container_name, slurm_job, tag, exe, scope, scope_key, "
	  "device, device_used, "
	  "device_total, live, peak, host, driver, untracked, baseline, growth, leaked, full_in, confidence, age, "
	  "condition, function, error" },
	{ "kind = \"alloc_failure\"; message = \"%{pdi} died\";", "unknown name in message \"pdi\": did you mean "
								  "\"pid\"?" },
	{ "kind = \"alloc_failure\"; message = \"of %{pid\";", "message: the \"%{\" of \"%{pid\" is never closed" },
	{ "kind = \"alloc_failure\"; message = \"\";", "message is empty: leave it out for the built-in text" },
	{ "kind = \"alloc_failure\"; runbook = \"see wiki\";", "runbook needs a URL, such as "
							       "\"https://wiki.example/gpu-full\"" },
	{ "kind = \"alloc_failure\"; tags = [ \"a\\x1b\" ];", "tags \"a?\" must be plain text: no control characters, "
							      "quotes or backslashes, no blank at either end" },
	{ "kind = \"alloc_failure\"; override = \"replace\";", "there is no rule \"x\" to override: it must come "
							       "before, in this file or in one whose name sorts "
							       "earlier" },
	{ "kind = \"alloc_failure\"; override = \"off\";", "override = \"off\" removes rule \"x\": leave the other "
							   "keys out" },
	{ "kind = \"alloc_failure\"; override = \"append\";", "unknown override \"append\": known are replace, merge, "
							      "off" },
};

TEST(bad_rules_are_told_with_line_and_cure)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_rules); i++) {
		struct result res;
		char text[1024], expected[1024];

		snprintf(text, sizeof(text), "version = 1;\nrules = (\n{ name = \"x\"; %s }\n);\n", bad_rules[i].keys);
		snprintf(expected, sizeof(expected), "t.conf:3: error: %s\n", bad_rules[i].text);
		res = parse(text);
		EXPECT_EQ(res.r, -EINVAL);
		EXPECT(!res.rs);
		EXPECT_STR(res.text, expected);
		result_done(&res);
	}
}

static const struct {
	const char *text, *errors;
} bad_files[] = {
	{ "version = 2;", "t.conf:1: error: version = 2 is newer than this program, which knows version 1: update "
			  "it\n" },
	{ "version = \"1\";", "t.conf:1: error: version needs a plain number, without quotes or unit\n" },
	{ "version = 1;\nsink = \"json\";", "t.conf:2: error: \"sink\" is a key of the daemon's configuration, not of "
					    "a rule file: move it to gpuxray.conf\n" },
	{ "version = 1;\nkind = \"leak\";", "t.conf:2: error: \"kind\" is a key of a rule: put it in rules = ( { ... } "
					    ");\n" },
	{ "version = 1;\nrule = ();", "t.conf:2: error: unknown key \"rule\": did you mean \"rules\"?\n" },
	{ "version = 1;\nrules = { };", "t.conf:2: error: rules needs a list in round brackets: rules = ( { ... }, { "
					"... } );\n" },
	{ "version = 1;\nrules = ( 1 );", "t.conf:2: error: a rule is a group: { name = \"...\"; kind = \"...\"; }\n" },
	{ "version = 1;\nrules = ( { } );", "t.conf:2: error: a rule needs a name: name = \"...\"\n"
					    "t.conf:2: error: rule \"?\" needs a kind, such as kind = "
					    "\"live_bytes\"\n" },
	{ "version = 1;\nrules = ( { name = \"a\\nb\"; kind = \"leak\"; } );", "t.conf:2: error: name \"a?b\" must be "
									       "plain text: no control characters, "
									       "quotes or backslashes, no blank at "
									       "either end\n" },
	{ "version = 1;\ndefaults = { fore = \"1s\"; fire_above = \"1B\"; for = \"x\"; };\n"
	  "rules = ( { name = \"a\"; kind = \"leak\"; }, { name = \"b\"; kind = \"leak\"; } );",
	  "t.conf:2: error: unknown key of defaults \"fore\": did you mean \"for\"?\n"
	  "t.conf:2: error: fire_above cannot have a default: write it in each rule\n"
	  "t.conf:2: error: for = \"x\" is not a time: write a number and ms, s, m, h or d, such as \"1m30s\"\n" },
	{ "version = 1;\nlists = { a = [ \"^(\" ];\n b = [];\n c = \"@a\"; };\n"
	  "rules = ( { name = \"a\"; kind = \"leak\"; match = { comm = \"@a\"; }; } );",
	  "t.conf:2: error: pattern \"^(\" is not a regular expression: missing closing parenthesis at character 3\n"
	  "t.conf:3: error: list \"b\" is empty and would match nothing: remove it\n"
	  "t.conf:4: error: \"@a\": a list cannot refer to a list: write its patterns here, or \"[@]\" for the "
	  "character\n" },
	{ "version = 1;\nrules = ( { name = \"a\"; kind = \"leak\"; },\n{ name = \"a\"; kind = \"laek\"; } );",
	  "t.conf:3: error: rule \"a\" is defined twice, first at t.conf:2: rename one, or write override = "
	  "\"replace\" | "
	  "\"merge\" | \"off\"\n"
	  "t.conf:3: error: unknown kind \"laek\": did you mean \"leak\"?\n" },
	{ "version = 1;\nrules = ( { name = \"abc\"; kind = \"leak\"; },\n{ name = \"abd\"; override = \"off\"; } );",
	  "t.conf:3: error: there is no rule \"abd\" to override: did you mean \"abc\"?\n" },
	{ "version = 1;\nrules = ( { name = \"a\"; kind = \"leak\"; },\n"
	  "{ name = \"a\"; override = \"merge\"; kind = \"exit\"; } );",
	  "t.conf:3: error: a merge cannot change the kind, which is \"leak\": use override = \"replace\"\n" },
	/* Each line of its own, in the order of the file. */
	{ "version = 1;\nrules = (\n{ name = \"a\"; kind = \"live_bytes\"; fire_above = 1; },\n"
	  "{ name = \"b\"; kind = \"leak\";\n epochs = 2;\n sope = \"x\"; },\n{ kind = \"leak\"; } );",
	  "t.conf:3: error: fire_above needs a unit, in a string: a bare number does not say of what, write \"100MiB\" "
	  "or "
	  "\"92%\"\n"
	  "t.conf:5: error: epochs = 2 is out of range: it goes from 4 to 64\n"
	  "t.conf:6: error: unknown key \"sope\": did you mean \"scope\"?\n"
	  "t.conf:7: error: a rule needs a name: name = \"...\"\n" },
	/* Syntax */
	{ "version = 1;\nversion = 1;\n", "t.conf:2: error: duplicate setting name: remove one of the two\n" },
	{ "version = 1;\nrules = ( { name = \"a\"; }, );\n", "t.conf:2: error: syntax error at this line or just "
							     "before it: a missing \";\", quote or bracket, or a comma "
							     "before "
							     "\")\"?\n" },
	{ "version = 1;\nrules = (\n\"a\n);\n", "t.conf:3: error: the string that starts here never ends\n" },
	{ "version = 1;\n/* rules = (\n);\n", "t.conf:2: error: the comment that starts here never ends\n" },
	{ "version = 1;\na = 4294967297;\nb = 0x100000000;\n", "t.conf:2: error: 4294967297 is too large a number: "
							       "sizes and times are strings with a unit, such as "
							       "\"40GiB\" or "
							       "\"30s\"\n"
							       "t.conf:3: error: 0x100000000 is too large a number: "
							       "sizes and times are strings with a unit, such as "
							       "\"40GiB\" or "
							       "\"30s\"\n" },
	{ "\xef\xbb\xbfversion = 1;\n", "t.conf:1: error: starts with a byte order mark: save it as plain UTF-8\n" },
	{ "@include \"other.conf\"\n", "t.conf:1: error: @include is not possible here\n" },
};

TEST(bad_files_are_told_with_line_and_cure)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_files); i++) {
		struct result res = parse(bad_files[i].text);

		EXPECT_EQ(res.r, -EINVAL);
		EXPECT(!res.rs);
		EXPECT_STR(res.text, bad_files[i].errors);
		result_done(&res);
	}
}

/* All of them, also those that come later. */
TEST(keys_of_the_configuration)
{
	size_t n = 0;

	for (; settings_key_names[n]; n++) {
		const char *name = settings_key_names[n];
		char text[256];
		struct result res;

		if (strcmp(name, "rules") == 0)
			continue;
		snprintf(text, sizeof(text), "version = 1;\n%s = 1;\n", name);
		res = parse(text);
		snprintf(text, sizeof(text),
			 "t.conf:2: error: \"%s\" is a key of the daemon's configuration, not of a rule file: move it to "
			 "gpuxray.conf\n", name);
		EXPECT_STR(res.text, text);
		result_done(&res);
	}
	EXPECT(n >= 13);
}

TEST(deep_nesting_is_refused)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct result res;

	strbuf_adds(&sb, "rules =\n");
	for (int i = 0; i < 100000; i++)
		strbuf_addc(&sb, '(');
	res = parse(strbuf_str(&sb));
	EXPECT_STR(res.text, "t.conf:2: error: brackets are nested more than 32 deep\n");
	result_done(&res);
}

TEST(things_that_only_look_bad)
{
	struct result res = parse("# 99999999999 /* \" (((\n// @include \"x\"\nversion = 1; /* \"\n@include \"y\"\n*/\n"
				  "rules = ( { name = \"a 99999999999 \\\" /* #\" \"\"; kind = \"leak\"; override = "
				  "\"off\"; } );\n"
				  "a99999999999 = 99999999999L; b = 99999999999.5; c = 0x7fffffff;\n");

	EXPECT_STR(res.text, "t.conf:6: error: name \"a 99999999999 \" /* #\" must be plain text: no control "
			     "characters, quotes or "
			     "backslashes, no blank at either end\n"
			     "t.conf:7: error: unknown key \"a99999999999\": known are version, defaults, lists, "
			     "rules\n"
			     "t.conf:7: error: unknown key \"b\": known are version, defaults, lists, rules\n"
			     "t.conf:7: error: unknown key \"c\": known are version, defaults, lists, rules\n");
	result_done(&res);
}

TEST(warnings)
{
	struct result res = parse("rules = (\n"
				  "{ name = \"a\"; kind = \"leak\"; for = \"200ms\"; match = {\n"
				  "  comm = \"train\";\n"
				  "  cmdline = \"train\"; }; },\n"
				  "{ name = \"b\"; kind = \"leak\"; match = { comm = \"@l\"; exe = \"@l\"; }; } );\n"
				  "lists = { l = [ \"^good\",\n \"bad\" ]; };\n");

	EXPECT_EQ(res.r, 0);
	EXPECT(res.rs && res.rs->len == 2);
	EXPECT_STR(res.text, "t.conf:1: warning: version is missing: write version = 1; at the top\n"
			     "t.conf:2: warning: for = \"200ms\" is shorter than the 1 s between two looks: write "
			     "\"0s\" or \"1s\"\n"
			     "t.conf:3: warning: pattern \"train\" has no anchor and fits anywhere within comm: write "
			     "\"^train\" or "
			     "\"(^|/)train$\" to say where\n"
			     "t.conf:7: warning: pattern \"bad\" has no anchor and fits anywhere within comm: write "
			     "\"^bad\" or "
			     "\"(^|/)bad$\" to say where\n");
	result_done(&res);
}

TEST(default_with_a_warning_warns_once)
{
	struct result res = parse("version = 1;\ndefaults = { for = \"200ms\"; };\n"
				  "rules = ( { name = \"a\"; kind = \"leak\"; }, { name = \"b\"; kind = \"leak\"; } "
				  ");");

	EXPECT(res.rs && res.rs->rules[1]->for_ns == 200 * UINT64_C(1000000));
	EXPECT_STR(res.text, "t.conf:2: warning: for = \"200ms\" is shorter than the 1 s between two looks: write "
			     "\"0s\" or \"1s\"\n");
	result_done(&res);
}

TEST(too_many_leak_scales)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct result res;

	strbuf_adds(&sb, "version = 1; rules = (\n");
	for (int i = 0; i < 17; i++)
		strbuf_addf(&sb, "%s{ name = \"l%d\"; kind = \"leak\"; epoch = \"%ds\"; }\n", i ? "," : "", i, i + 1);
	strbuf_adds(&sb, ");\n");
	res = parse(strbuf_str(&sb));
	EXPECT_STR(res.text, "t.conf:18: error: leak rules differ in epoch, epochs or class in more than 16 ways: give "
			     "some of "
			     "them the same\n");
	result_done(&res);
}

TEST_MAIN()
