/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>

#include "proc/procfs.h"

#define ID1 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD "12345678-90ab-cdef-1234-567890abcdef"
#define POD_ "12345678_90ab_cdef_1234_567890abcdef"
#define STATIC_POD "d0f7a3c1e5b94826a1b2c3d4e5f60718"

struct cgroup_case {
	const char *text;
	const char *path, *unit, *user_unit, *container, *pod;
};

static void expect_name(const char *text, const char *what, const char *is, const char *expected)
{
	if ((is == NULL) != (expected == NULL) || (is && strcmp(is, expected) != 0)) {
		printf("# %s of \"%s\" is \"%s\", expected \"%s\"\n", what, text, is ? is : "(null)",
		       expected ? expected : "(null)");
		test_failures++;
	}
}

static void expect_case(const struct cgroup_case *c)
{
	struct cgroup_names n = { 0 };
	int r = cgroup_parse(c->text, &n);

	if (r != 0) {
		printf("# \"%s\": %d\n", c->text, r);
		test_failures++;
		return;
	}
	expect_name(c->text, "path", n.path, c->path);
	expect_name(c->text, "unit", n.unit, c->unit);
	expect_name(c->text, "user unit", n.user_unit, c->user_unit);
	expect_name(c->text, "container", n.container, c->container);
	expect_name(c->text, "pod", n.pod, c->pod);
	cgroup_names_done(&n);
}

static void expect_cases(const struct cgroup_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect_case(&cases[i]);
}

TEST(units)
{
	static const struct cgroup_case cases[] = {
		{ "0::/\n", "/", NULL, NULL, NULL, NULL },
		{ "0::/init.scope\n", "/init.scope", "init.scope", NULL, NULL, NULL },
		{ "0::/system.slice/train.service\n", "/system.slice/train.service", "train.service", NULL, NULL, NULL },
		{ "0::/train.service", "/train.service", "train.service", NULL, NULL, NULL },
		/* What a service makes below its own group is still that service. */
		{ "0::/system.slice/train.service/worker.scope/x\n", "/system.slice/train.service/worker.scope/x",
		  "train.service", NULL, NULL, NULL },
		{ "0::/system.slice/system-getty.slice/getty@tty1.service\n",
		  "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", NULL, NULL, NULL },
		{ "0::/system.slice/run-r0a1b.scope\n", "/system.slice/run-r0a1b.scope", "run-r0a1b.scope", NULL, NULL,
		  NULL },
		{ "0::/system.slice/my\\x2dtrain@a\\x20b.service\n", "/system.slice/my\\x2dtrain@a\\x20b.service",
		  "my\\x2dtrain@a\\x20b.service", NULL, NULL, NULL },
		/* Names that the kernel could take for its own files carry a _ in front. */
		{ "0::/system.slice/_cgroup.foo.service\n", "/system.slice/_cgroup.foo.service", "cgroup.foo.service",
		  NULL, NULL, NULL },
		{ "0::/system.slice/__x.service\n", "/system.slice/__x.service", "_x.service", NULL, NULL, NULL },
		{ "0::/system.slice\n", "/system.slice", NULL, NULL, NULL, NULL },
		{ "0::/system.slice/x@.service\n", "/system.slice/x@.service", NULL, NULL, NULL, NULL },
		{ "0::/system.slice/a b.service\n", "/system.slice/a b.service", NULL, NULL, NULL, NULL },
		{ "0::/mine/train.service\n", "/mine/train.service", NULL, NULL, NULL, NULL },
		{ "0::/system.slice/.service\n", "/system.slice/.service", NULL, NULL, NULL, NULL },
		/* From inside a cgroup namespace, and a group that is gone. */
		{ "0::/../train.service\n", "/../train.service", "train.service", NULL, NULL, NULL },
		{ "0::/system.slice/train.service (deleted)\n", "/system.slice/train.service", "train.service", NULL,
		  NULL, NULL },
	};

	expect_cases(cases, ARRAY_SIZE(cases));
}

TEST(user_units)
{
	static const struct cgroup_case cases[] = {
		{ "0::/user.slice/user-1000.slice/session-3.scope\n", "/user.slice/user-1000.slice/session-3.scope",
		  "session-3.scope", NULL, NULL, NULL },
		{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service\n",
		  "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service", "user@1000.service",
		  "train.service", NULL, NULL },
		{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.x-1.scope\n",
		  "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.x-1.scope", "user@1000.service",
		  "app-org.x-1.scope", NULL, NULL },
		{ "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n",
		  "/user.slice/user-1000.slice/user@1000.service/init.scope", "user@1000.service", "init.scope", NULL,
		  NULL },
		{ "0::/user.slice/user-1000.slice/user@1000.service\n", "/user.slice/user-1000.slice/user@1000.service",
		  "user@1000.service", NULL, NULL, NULL },
		/* Only the user manager has units of its own. */
		{ "0::/system.slice/user@home.mount/x.service\n", "/system.slice/user@home.mount/x.service",
		  "user@home.mount", NULL, NULL, NULL },
		{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID1 ".scope/container\n",
		  "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID1 ".scope/container",
		  "user@1000.service", "libpod-" ID1 ".scope", ID1, NULL },
	};

	expect_cases(cases, ARRAY_SIZE(cases));
}

TEST(containers)
{
	static const struct cgroup_case cases[] = {
		{ "0::/docker/" ID1 "\n", "/docker/" ID1, NULL, NULL, ID1, NULL },
		{ "0::/system.slice/docker-" ID1 ".scope\n", "/system.slice/docker-" ID1 ".scope",
		  "docker-" ID1 ".scope", NULL, ID1, NULL },
		{ "0::/default/" ID1 "\n", "/default/" ID1, NULL, NULL, ID1, NULL },
		{ "0::/machine.slice/libpod-" ID1 ".scope/container\n", "/machine.slice/libpod-" ID1 ".scope/container",
		  "libpod-" ID1 ".scope", NULL, ID1, NULL },
		{ "0::/libpod_parent/libpod-" ID1 "\n", "/libpod_parent/libpod-" ID1, NULL, NULL, ID1, NULL },
		{ "0::/system.slice/train.service/libpod-payload-" ID1 "\n",
		  "/system.slice/train.service/libpod-payload-" ID1, "train.service", NULL, ID1, NULL },
		/* The monitor is not in the container. */
		{ "0::/machine.slice/libpod-conmon-" ID1 ".scope\n", "/machine.slice/libpod-conmon-" ID1 ".scope",
		  "libpod-conmon-" ID1 ".scope", NULL, NULL, NULL },
		/* A podman pod's own slice is no container. */
		{ "0::/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID1 ".scope\n",
		  "/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID1 ".scope", "libpod-" ID1 ".scope", NULL,
		  ID1, NULL },
		{ "0::/lxc.payload.web/system.slice/nginx.service\n", "/lxc.payload.web/system.slice/nginx.service",
		  NULL, NULL, "web", NULL },
		{ "0::/lxc.payload/web\n", "/lxc.payload/web", NULL, NULL, "web", NULL },
		{ "0::/lxc/101/ns\n", "/lxc/101/ns", NULL, NULL, "101", NULL },
		{ "0::/lxc.monitor.web\n", "/lxc.monitor.web", NULL, NULL, NULL, NULL },
		{ "0::/lxc.payload.\n", "/lxc.payload.", NULL, NULL, NULL, NULL },
		{ "0::/lxc\n", "/lxc", NULL, NULL, NULL, NULL },
		/* A container in a container: the inner one. */
		{ "0::/lxc.payload.web/system.slice/docker-" ID1 ".scope\n",
		  "/lxc.payload.web/system.slice/docker-" ID1 ".scope", NULL, NULL, ID1, NULL },
		{ "0::/docker/" ID1 "/docker/" ID2 "\n", "/docker/" ID1 "/docker/" ID2, NULL, NULL, ID2, NULL },
		/* 63 and 65 digits, capitals: not ids. */
		{ "0::/docker/123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
		  "/docker/123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", NULL, NULL, NULL, NULL },
		{ "0::/docker/0" ID1 "\n", "/docker/0" ID1, NULL, NULL, NULL, NULL },
		{ "0::/docker/0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF\n",
		  "/docker/0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF", NULL, NULL, NULL, NULL },
	};

	expect_cases(cases, ARRAY_SIZE(cases));
}

TEST(pods)
{
	static const struct cgroup_case cases[] = {
		{ "0::/kubepods/burstable/pod" POD "/" ID1 "\n", "/kubepods/burstable/pod" POD "/" ID1, NULL, NULL, ID1,
		  POD },
		{ "0::/kubepods/pod" POD "/" ID1 "\n", "/kubepods/pod" POD "/" ID1, NULL, NULL, ID1, POD },
		{ "0::/kubepods/besteffort/pod" STATIC_POD "/" ID1 "\n", "/kubepods/besteffort/pod" STATIC_POD "/" ID1,
		  NULL, NULL, ID1, STATIC_POD },
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_
		  ".slice/cri-containerd-" ID1 ".scope\n",
		  "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID1
		  ".scope",
		  "cri-containerd-" ID1 ".scope", NULL, ID1, POD },
		{ "0::/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID1 ".scope/container\n",
		  "/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID1 ".scope/container", "crio-" ID1 ".scope", NULL,
		  ID1, POD },
		{ "0::/kubepods.slice/kubepods-pod" POD_ ".slice/crio-conmon-" ID1 ".scope\n",
		  "/kubepods.slice/kubepods-pod" POD_ ".slice/crio-conmon-" ID1 ".scope", "crio-conmon-" ID1 ".scope",
		  NULL, NULL, POD },
		/* containerd with the cgroupfs driver under a kubelet with the systemd one. */
		{ "0::/system.slice/containerd.service/kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID1 "\n",
		  "/system.slice/containerd.service/kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID1,
		  "containerd.service", NULL, ID1, POD },
		/* A node that is a container, as kind makes them. */
		{ "0::/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
		  "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID1
		  ".scope\n",
		  "/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
		  "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID1
		  ".scope",
		  "docker-" ID2 ".scope", NULL, ID1, POD },
		/* Looks like a pod, outside of any kubelet's tree; and a uid that is none. */
		{ "0::/mine/pod" POD "\n", "/mine/pod" POD, NULL, NULL, NULL, NULL },
		{ "0::/kubepods/podcast/x\n", "/kubepods/podcast/x", NULL, NULL, NULL, NULL },
		{ "0::/kubepods/podZ2345678-90ab-cdef-1234-567890abcdef\n",
		  "/kubepods/podZ2345678-90ab-cdef-1234-567890abcdef", NULL, NULL, NULL, NULL },
	};

	expect_cases(cases, ARRAY_SIZE(cases));
}

TEST(old_hierarchies)
{
	static const struct cgroup_case cases[] = {
		{ "12:memory:/system.slice/train.service\n3:cpu,cpuacct:/system.slice/train.service\n"
		  "1:name=systemd:/system.slice/train.service\n0::/system.slice/train.service\n",
		  "/system.slice/train.service", "train.service", NULL, NULL, NULL },
		/* The unified hierarchy is not in use: its line says nothing. */
		{ "4:memory:/docker/" ID1 "\n1:name=systemd:/docker/" ID1 "\n0::/\n", "/docker/" ID1, NULL, NULL, ID1,
		  NULL },
		{ "4:memory:/user.slice\n1:name=systemd:/user.slice/user-0.slice/session-1.scope\n",
		  "/user.slice/user-0.slice/session-1.scope", "session-1.scope", NULL, NULL, NULL },
		/* Hybrid: the runtime moved the process in the old hierarchies only. */
		{ "5:devices:/docker/" ID1 "\n1:name=systemd:/docker/" ID1 "\n0::/system.slice/containerd.service\n",
		  "/system.slice/containerd.service", "containerd.service", NULL, ID1, NULL },
		{ "9:pids:/kubepods/burstable/pod" POD "/" ID1 "\n0::/\n", "/kubepods/burstable/pod" POD "/" ID1, NULL,
		  NULL, ID1, POD },
		/* No systemd at all. */
		{ "2:cpu:/\n4:memory:/docker/" ID1 "\n5:pids:/\n", "/docker/" ID1, NULL, NULL, ID1, NULL },
		{ "4:memory:/\n1:name=systemd:/\n0::/\n", "/", NULL, NULL, NULL, NULL },
		/* Paths may hold colons. */
		{ "1:name=systemd:/a:b:c\n", "/a:b:c", NULL, NULL, NULL, NULL },
	};

	expect_cases(cases, ARRAY_SIZE(cases));
}

TEST(not_cgroups)
{
	static const char *const texts[] = { "", "\n", "0:", "0::", "0::relative", "x::/a", "::/a", "0/a", "garbage\n" };
	struct cgroup_names n = { .path = (char *)"untouched" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		EXPECT_EQ(cgroup_parse(texts[i], &n), -EINVAL);
	EXPECT_STR(n.path, "untouched");
	n = (struct cgroup_names){ 0 };
	/* One bad line does not spoil the good one. */
	EXPECT_EQ(cgroup_parse("garbage\n0::/a.service\n", &n), 0);
	EXPECT_STR(n.unit, "a.service");
	cgroup_names_done(&n);
	EXPECT(n.unit == NULL);
}

TEST_MAIN()
