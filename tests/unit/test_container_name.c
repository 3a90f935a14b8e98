/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <unistd.h>

#include "base/clock.h"
#include "proc/container_name.h"
#include "proc/json_reader.h"
#include "proc/procfs.h"
#include "temp_proc.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "12345678-90ab-cdef-1234-567890abcdef"
#define HEX32 "0123456789abcdef0123456789abcdef"
#define L63 "a23456789-123456789-123456789-123456789-123456789-123456789-123"

/* ---- JSON */

/* The text of a member at the top, after all of it was walked. */
static const char *member(const char *text, const char *want, char *buf, size_t size)
{
	struct json_reader j = json_reader_of(text, strlen(text));
	const char *found = NULL;
	struct span name, value;

	if (!json_enter_object(&j))
		return j.is_bad ? "bad" : NULL;
	while (json_next_member(&j, &name)) {
		if (!span_is(name, want)) {
			json_skip(&j);
		} else if (json_take_string(&j, &value)) {
			(void)snprintf(buf, size, "%.*s", (int)value.len, value.p);
			found = buf;
		}
	}
	return j.is_bad ? "bad" : found;
}

TEST(json)
{
	static const struct {
		const char *text, *found;
	} cases[] = {
		{ "{\"a\":\"x\"}", "x" },
		{ " \n{ \"b\" : [ 1, {\"a\":\"no\"}, [], {} ] , \"a\" : \"x\" } ", "x" },
		{ "{\"b\":{\"a\":\"no\"},\"c\":-1.5e+3,\"d\":true,\"e\":null,\"a\":\"x\"}", "x" },
		{ "{\"b\":\"\\\"a\\\":\\\\\",\"a\":\"x\\n\"}", "x\\n" },
		{ "{\"a\":7}", NULL },
		{ "{\"a\":{\"a\":\"no\"}}", NULL },
		{ "{\"a\":[\"no\"]}", NULL },
		{ "{}", NULL },
		{ "{\"\\u0061\":\"no\"}", NULL },
		{ "[\"a\"]", NULL },
		{ "7", NULL },
		{ "", "bad" },
		{ "{", "bad" },
		{ "{\"a\"", "bad" },
		{ "{\"a\":", "bad" },
		{ "{\"a\":\"x", "bad" },
		{ "{\"a\":\"x\\", "bad" },
		{ "{\"a\":\"x\"", "bad" },
		{ "{\"a\":\"x\",", "bad" },
		{ "{\"a\":\"x\" \"b\":1}", "bad" },
		{ "{,\"a\":\"x\"}", "bad" },
		{ "{\"a\":\"x\",}", "bad" },
		{ "{\"b\":[1 2],\"a\":\"x\"}", "bad" },
		{ "{\"b\":[1,2},\"a\":\"x\"}", "bad" },
		{ "{\"b\":{\"c\"},\"a\":\"x\"}", "bad" },
		{ "{\"a\":\"x\ny\"}", "bad" },
		{ "{a:\"x\"}", "bad" },
		{ "{\"b\":?,\"a\":\"x\"}", "bad" },
	};
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *found = member(cases[i].text, "a", buf, sizeof(buf));

		if (cases[i].found)
			EXPECT_STR(found, cases[i].found);
		else
			EXPECT(found == NULL);
		if (test_failures)
			printf("# in %s\n", cases[i].text);
	}
}

/* {"b":[[...]],"a":"x"} with so many of each. */
static const char *nested(unsigned depth, char open, char close, char *buf, size_t size)
{
	char text[1024] = "{\"b\":";
	size_t len = strlen(text);

	for (unsigned i = 0; i < depth; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, open == '{' && i > 0 ? "\"k\":%c" : "%c", open);
	memset(text + len, close, depth);
	(void)snprintf(text + len + depth, sizeof(text) - len - depth, ",\"a\":\"x\"}");
	return member(text, "a", buf, size);
}

TEST(json_within_json)
{
	char buf[64];

	EXPECT_STR(nested(JSON_DEPTH_MAX, '[', ']', buf, sizeof(buf)), "x");
	EXPECT_STR(nested(JSON_DEPTH_MAX, '{', '}', buf, sizeof(buf)), "x");
	EXPECT_STR(nested(JSON_DEPTH_MAX + 1, '[', ']', buf, sizeof(buf)), "bad");
	EXPECT_STR(nested(JSON_DEPTH_MAX + 1, '{', '}', buf, sizeof(buf)), "bad");
	EXPECT_STR(nested(400, '[', ']', buf, sizeof(buf)), "bad");
	/* Opened by one and closed by the other. */
	EXPECT_STR(nested(3, '[', '}', buf, sizeof(buf)), "bad");
	EXPECT_STR(nested(3, '{', ']', buf, sizeof(buf)), "bad");
}

/* ---- parsers */

/* want: "NAMESPACE/POD/CONTAINER", "-" for what is not known; NULL: nothing. */
static void expect_name(int r, struct container_name *n, const char *want)
{
	char got[512];

	EXPECT_EQ(r, want ? 0 : -ENOENT);
	(void)snprintf(got, sizeof(got), "%s/%s/%s", n->pod_namespace ? n->pod_namespace : "-", n->pod ? n->pod : "-",
		       n->container ? n->container : "-");
	EXPECT_STR(got, want ? want : "-/-/-");
	container_name_done(n);
}

TEST(links)
{
	static const struct {
		const char *link, *want;
	} cases[] = {
		{ "trainer-0_ml_main-" ID ".log", "ml/trainer-0/main" },
		{ "a.b-c.d_kube-system_side-car-" ID ".log", "kube-system/a.b-c.d/side-car" },
		{ "0_0_0-" ID ".log", "0/0/0" },
		{ L63 "_" L63 "_m-" ID ".log", L63 "/" L63 "/m" },
		{ "trainer-0_ml_main-" OTHER ".log", NULL },
		{ "trainer-0_ml_main-" ID, NULL },
		{ "trainer-0_ml_main" ID ".log", NULL },
		{ "trainer-0_ml-" ID ".log", NULL },
		{ "trainer-0_ml_x_main-" ID ".log", NULL },
		{ "trainer-0__main-" ID ".log", NULL },
		{ "_ml_main-" ID ".log", NULL },
		{ "trainer-0_ml_-" ID ".log", NULL },
		{ "Trainer-0_ml_main-" ID ".log", NULL },
		{ "trainer-0_ml_Main-" ID ".log", NULL },
		{ "-trainer_ml_main-" ID ".log", NULL },
		{ "trainer-_ml_main-" ID ".log", NULL },
		{ "trainer_ml-_main-" ID ".log", NULL },
		{ "trainer_ml_main--" ID ".log", NULL },
		{ "a..b_ml_main-" ID ".log", NULL },
		{ "a.-b_ml_main-" ID ".log", NULL },
		{ "a-.b_ml_main-" ID ".log", NULL },
		{ ".a_ml_main-" ID ".log", NULL },
		{ "a._ml_main-" ID ".log", NULL },
		{ "a_m.l_main-" ID ".log", NULL },
		{ "a_ml_ma.in-" ID ".log", NULL },
		{ "a_" L63 "x_main-" ID ".log", NULL },
		{ "a\n_ml_main-" ID ".log", NULL },
		{ "\xc3\xa4_ml_main-" ID ".log", NULL },
		{ ".log", NULL },
		{ "", NULL },
		{ ID ".log", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct container_name n = { 0 };

		expect_name(container_name_from_link(cases[i].link, ID, &n), &n, cases[i].want);
	}
}

TEST(folders)
{
	struct container_name n = { 0 };

	expect_name(container_name_from_folder("ml_trainer-0_" UID, UID, &n), &n, "ml/trainer-0/-");
	expect_name(container_name_from_folder("kube-system_etcd-node_" HEX32, HEX32, &n), &n, "kube-system/etcd-node/-");
	expect_name(container_name_from_folder("ml_trainer-0_" UID, HEX32, &n), &n, NULL);
	expect_name(container_name_from_folder("ml_trainer-0_" UID "x", UID, &n), &n, NULL);
	expect_name(container_name_from_folder("ml_trainer-0", UID, &n), &n, NULL);
	expect_name(container_name_from_folder("ML_trainer-0_" UID, UID, &n), &n, NULL);
	expect_name(container_name_from_folder("..", UID, &n), &n, NULL);
}

#define CRI "io.kubernetes.cri."
#define BUNDLE                                                                                                         \
	"{\"ociVersion\":\"1.1.0\",\"process\":{\"args\":[\"x\"],\"env\":[\"annotations={\\\"" CRI                     \
	"sandbox-name\\\":\\\"no\\\"}\"]},\"annotations\":{\"" CRI "container-name\":\"main\",\"" CRI                  \
	"container-type\":\"container\",\"" CRI "sandbox-name\":\"trainer-0\",\"" CRI "sandbox-namespace\":\"ml\"},"   \
	"\"linux\":{\"annotations\":{\"" CRI "sandbox-name\":\"no\"}}}"

static void expect_bundle(const char *text, const char *runtime, const char *want)
{
	struct container_name n = { 0 };

	expect_name(container_name_from_bundle(text, strlen(text), runtime, &n), &n, want);
}

TEST(bundles)
{
	expect_bundle(BUNDLE, "containerd", "ml/trainer-0/main");
	/* Another runtime's names are what anybody wrote. */
	expect_bundle(BUNDLE, "cri-o", NULL);
	expect_bundle("{\"annotations\":{\"io.kubernetes.container.name\":\"main\",\"io.kubernetes.pod.name\":\"trainer-0\","
		      "\"io.kubernetes.pod.namespace\":\"ml\",\"io.kubernetes.pod.uid\":\"u\"}}",
		      "cri-o", "ml/trainer-0/main");
	expect_bundle("{\"annotations\":{\"nerdctl/name\":\"My_job.1\"}}", "containerd", "-/-/My_job.1");
	/* A pod is told by both of its names. */
	expect_bundle("{\"annotations\":{\"" CRI "sandbox-name\":\"trainer-0\"}}", "containerd", NULL);
	expect_bundle("{\"annotations\":{\"" CRI "sandbox-name\":\"trainer-0\",\"" CRI "container-name\":\"main\"}}",
		      "containerd", "-/-/main");
	expect_bundle("{\"annotations\":{\"" CRI "sandbox-name\":\"a/../b\",\"" CRI "sandbox-namespace\":\"ml\",\"" CRI
		      "container-name\":\"\\u0041\"}}",
		      "containerd", NULL);
	expect_bundle("{\"annotations\":{\"nerdctl/name\":[\"a\"]}}", "containerd", NULL);
	expect_bundle("{\"annotations\":[\"nerdctl/name\"]}", "containerd", NULL);
	expect_bundle("{\"annotations\":{\"nerdctl/name\":\"a\",\"nerdctl/name\":\"b\"}}", "containerd", "-/-/a");
	/* Cut short. */
	expect_bundle("{\"annotations\":{\"nerdctl/name\":\"a\"}", "containerd", NULL);
	expect_bundle("", "containerd", NULL);
}

TEST(docker)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "{\"StreamConfig\":{},\"Name\":\"/web_1\",\"Config\":{\"Name\":\"/no\"}}", "-/-/web_1" },
		{ "{\"Name\":\"web\"}", NULL },	  { "{\"Name\":\"/\"}", NULL },	     { "{\"Name\":\"//a\"}", NULL },
		{ "{\"Name\":\"/-a\"}", NULL },	  { "{\"Name\":\"/a b\"}", NULL },   { "{\"Name\":7}", NULL },
		{ "{\"name\":\"/a\"}", NULL },	  { "[{\"Name\":\"/a\"}]", NULL },   { "{\"Config\":{\"Name\":\"/a\"}}", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct container_name n = { 0 };

		expect_name(container_name_from_docker(cases[i].text, strlen(cases[i].text), &n), &n, cases[i].want);
	}
}

static void expect_podman(const char *text, const char *want)
{
	struct container_name n = { 0 };

	expect_name(container_name_from_podman(text, strlen(text), ID, &n), &n, want);
}

TEST(podman)
{
	expect_podman("[{\"id\":\"" OTHER "\",\"names\":[\"no\"]},{\"id\":\"" ID "\",\"names\":[\"web\",\"more\"],\"image\":\"x\","
		      "\"metadata\":\"{\\\"id\\\":\\\"y\\\"}\",\"flags\":{\"id\":1}}]",
		      "-/-/web");
	expect_podman("[{\"names\":[\"web\"],\"id\":\"" ID "\"}]", "-/-/web");
	expect_podman("[{\"id\":\"" ID "\"}]", NULL);
	expect_podman("[{\"id\":\"" ID "\",\"names\":\"web\"}]", NULL);
	expect_podman("[{\"id\":\"" ID "\",\"names\":[]}]", NULL);
	expect_podman("[{\"id\":7,\"names\":[\"web\"]}]", NULL);
	expect_podman("[\"" ID "\",[],{}]", NULL);
	expect_podman("{\"id\":\"" ID "\",\"names\":[\"web\"]}", NULL);
}

/* ---- files */

static uint64_t now_ns;

static uint64_t test_clock(void)
{
	return now_ns;
}

static bool put(const struct temp_proc *t, const char *path, const char *text)
{
	char full[512];
	FILE *f;
	bool ok;

	(void)snprintf(full, sizeof(full), "%s/%s", t->root, path);
	for (char *p = full + strlen(t->root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(full, 0700) < 0 && errno != EEXIST)
			return false;
		*p = '/';
	}
	f = fopen(full, "we");
	if (!f)
		return false;
	ok = fputs(text, f) >= 0;
	return fclose(f) == 0 && ok;
}

static struct container_names *names_new(const struct temp_proc *t)
{
	struct container_names *c = NULL;

	now_ns = 1000 * NSEC_PER_SEC;
	EXPECT_EQ(container_names_new(t->root, test_clock, &c), 0);
	return c;
}

/* Until all has been looked for that was asked for. */
static bool settle(struct container_names *c)
{
	struct container_names_stats st;

	for (int i = 0; i < 10000; i++) {
		container_names_stats(c, &st);
		if (st.asked == 0)
			return true;
		(void)usleep(1000);
	}
	return false;
}

static void expect_get(struct container_names *c, const char *id, const char *runtime, const char *pod_uid, const char *want)
{
	struct container_name n = { 0 };

	/* The first answer may come late on a busy machine. */
	EXPECT_EQ(container_names_get(c, id, runtime, pod_uid, &n), 0);
	container_name_done(&n);
	EXPECT(settle(c));
	expect_name(container_names_get(c, id, runtime, pod_uid, &n) ?: want ? 0 : -ENOENT, &n, want);
}

static void poll_and_settle(struct container_names *c)
{
	container_names_poll(c);
	EXPECT(settle(c));
}

TEST(where_names_are)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	char id[CONTAINER_ID_LEN + 1] = ID;

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c);
	ASSERT(put(&t, "var/log/containers/trainer-0_ml_main-" ID ".log", ""));
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
	/* Without a kubelet's links: what the runtime says. */
	id[0] = 'a';
	ASSERT(put(&t, "run/containerd/io.containerd.runtime.v2.task/k8s.io/a123456789abcdef" HEX32 "0123456789abcdef/config.json",
		   BUNDLE));
	expect_get(c, id, "containerd", UID, "ml/trainer-0/main");
	id[0] = 'b';
	ASSERT(put(&t, "run/containers/storage/overlay-containers/b123456789abcdef" HEX32 "0123456789abcdef/userdata/config.json",
		   "{\"annotations\":{\"io.kubernetes.container.name\":\"side\",\"io.kubernetes.pod.name\":\"p\","
		   "\"io.kubernetes.pod.namespace\":\"n\"}}"));
	expect_get(c, id, "cri-o", UID, "n/p/side");
	id[0] = 'c';
	ASSERT(put(&t, "var/lib/docker/containers/c123456789abcdef" HEX32 "0123456789abcdef/config.v2.json",
		   "{\"Name\":\"/web\"}"));
	expect_get(c, id, "docker", NULL, "-/-/web");
	ASSERT(put(&t, "var/lib/containers/storage/overlay-containers/containers.json", "[]"));
	ASSERT(put(&t, "var/lib/containers/storage/overlay-containers/volatile-containers.json",
		   "[{\"id\":\"" OTHER "\",\"names\":[\"job\"]}]"));
	expect_get(c, OTHER, "podman", NULL, "-/-/job");
	/* The folder of its logs tells the pod alone. */
	id[0] = 'd';
	ASSERT(put(&t, "var/log/pods/ml_trainer-1_" HEX32 "/main/0.log", ""));
	expect_get(c, id, "containerd", HEX32, "ml/trainer-1/-");
	/* What no runtime makes is asked for nowhere: it would be a path. */
	expect_get(c, "../../../../../../../../../../../../../../../../../../../../../a", "docker", NULL, NULL);
	expect_get(c, "web", "lxc", NULL, NULL);
	id[0] = 'e';
	expect_get(c, id, NULL, NULL, NULL);
}

TEST(read_once)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	struct container_names_stats st;
	char path[512];

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c && put(&t, "var/log/containers/trainer-0_ml_main-" ID ".log", ""));
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
	(void)snprintf(path, sizeof(path), "%s/var/log/containers/trainer-0_ml_main-" ID ".log", t.root);
	ASSERT(unlink(path) == 0);
	now_ns += 3600 * NSEC_PER_SEC;
	poll_and_settle(c);
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
	container_names_stats(c, &st);
	EXPECT_EQ(st.used, 1);
	EXPECT_EQ(st.found, 0);
}

TEST(late)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	struct container_names_stats st;

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c);
	expect_get(c, ID, "containerd", UID, NULL);
	ASSERT(put(&t, "var/log/containers/trainer-0_ml_main-" ID ".log", ""));
	/* Not before the time is there. */
	poll_and_settle(c);
	expect_get(c, ID, "containerd", UID, NULL);
	now_ns += NSEC_PER_SEC;
	poll_and_settle(c);
	container_names_stats(c, &st);
	EXPECT_EQ(st.found, 1);
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
}

TEST(given_up_until_the_next_process)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	struct container_names_stats st;

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c);
	expect_get(c, ID, "containerd", UID, NULL);
	for (int i = 0; i < 70; i++) {
		now_ns += NSEC_PER_SEC;
		poll_and_settle(c);
	}
	ASSERT(put(&t, "var/log/containers/trainer-0_ml_main-" ID ".log", ""));
	for (int i = 0; i < 100; i++) {
		now_ns += NSEC_PER_SEC;
		poll_and_settle(c);
	}
	container_names_stats(c, &st);
	EXPECT_EQ(st.found, 0);
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
	/* Its other processes may be told. */
	container_names_stats(c, &st);
	EXPECT_EQ(st.found, 1);
}

TEST(not_too_many)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	struct container_names_stats st;
	char id[CONTAINER_ID_LEN + 1], path[512];

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c && put(&t, "var/log/containers/trainer-0_ml_main-" ID ".log", ""));
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
	for (unsigned i = 0; i < CONTAINER_NAMES_MAX + 5; i++) {
		now_ns++;
		(void)snprintf(id, sizeof(id), "%064x", i);
		expect_get(c, id, "docker", NULL, NULL);
		if (i == 1000)
			expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
	}
	container_names_stats(c, &st);
	EXPECT_EQ(st.used, CONTAINER_NAMES_MAX);
	EXPECT_EQ(st.evictions, 6);
	/* What was asked for lately is still there, though its link is not. */
	(void)snprintf(path, sizeof(path), "%s/var/log/containers/trainer-0_ml_main-" ID ".log", t.root);
	ASSERT(unlink(path) == 0);
	expect_get(c, ID, "containerd", UID, "ml/trainer-0/main");
}

TEST(a_folder_of_more_than_is_looked_at)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	struct container_names_stats st;
	char path[128];

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c);
	for (unsigned i = 0; i < CONTAINER_LINKS_MAX; i++) {
		(void)snprintf(path, sizeof(path), "var/log/containers/%u", i);
		ASSERT(put(&t, path, ""));
	}
	expect_get(c, ID, "containerd", UID, NULL);
	container_names_stats(c, &st);
	EXPECT_EQ(st.overflows, 1);
}

/* A link leads within the host's root, not within ours. */
TEST(links_of_the_host)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(container_names_freep) struct container_names *c = NULL;
	char path[128];

	ASSERT(temp_proc_new(&t));
	c = names_new(&t);
	ASSERT(c && put(&t, "data/docker/containers/" ID "/config.v2.json", "{\"Name\":\"/web\"}"));
	ASSERT(put(&t, "var/lib/x", ""));
	(void)snprintf(path, sizeof(path), "%s/var/lib/docker", t.root);
	ASSERT(symlink("/data/docker", path) == 0);
	expect_get(c, ID, "docker", NULL, "-/-/web");
}

TEST(no_root)
{
	struct container_names *c = NULL;

	EXPECT_EQ(container_names_new("/no/such/folder", NULL, &c), -ENOENT);
	container_names_free(NULL);
}

/* What this host does not know of stays as it is; and what is asked for never fails for it. */
TEST(of_this_host)
{
	_cleanup_(identity_unrefp) struct identity *id = identity_new(), *renamed = NULL;
	struct container_names_stats st;
	uint64_t before = identity_late_names();

	ASSERT(id);
	id->uid = UINT32_MAX;
	id->container = strdup(ID);
	id->runtime = strdup("containerd");
	id->pod = strdup(UID);
	EXPECT_EQ(identity_rename(id, &renamed), 0);
	EXPECT(!renamed);
	EXPECT_EQ(identity_late_names(), before);
	container_name_stats(&st);
	EXPECT_EQ(st.used, 1);
}

TEST_MAIN()
