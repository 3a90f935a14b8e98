/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>
#include <stddef.h>

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

/* One member of the names of each text. */
struct member_case {
	const char *text, *expected;
};

static void expect_members(const struct member_case *cases, size_t count, size_t offset, const char *what)
{
	for (size_t i = 0; i < count; i++) {
		struct cgroup_names n = { 0 };
		char *is;
		int r = cgroup_parse(cases[i].text, &n);

		if (r < 0) {
			printf("# \"%s\": %d\n", cases[i].text, r);
			test_failures++;
			continue;
		}
		memcpy(&is, (const char *)&n + offset, sizeof(is));
		expect_name(cases[i].text, what, is, cases[i].expected);
		cgroup_names_done(&n);
	}
}

#define EXPECT_MEMBERS(cases, member)                                                                                  \
	expect_members(cases, ARRAY_SIZE(cases), offsetof(struct cgroup_names, member), #member)

TEST(slices)
{
	static const struct member_case cases[] = {
		{ "0::/system.slice/train.service", "system.slice" },
		{ "0::/system.slice/system-getty.slice/getty@tty1.service", "system-getty.slice" },
		{ "0::/user.slice/user-1000.slice/session-3.scope", "user-1000.slice" },
		{ "0::/user.slice/user-1000.slice/user@1000.service", "user-1000.slice" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service", "app.slice" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.slice/app-x-1.scope/y.slice",
		  "app-x.slice" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/init.scope", "user-1000.slice" },
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice/crio-" ID1 ".scope",
		  "kubepods-burstable-pod" POD_ ".slice" },
		{ "0::/../../machine.slice/libpod-" ID1 ".scope", "machine.slice" },
		{ "0::/my\\x2dteam.slice/a.service", "my\\x2dteam.slice" },
		{ "0::/system.slice", "system.slice" },
		/* Of a process's own making. */
		{ "0::/system.slice/train.service/boss.slice", "system.slice" },
		{ "0::/mine/boss.slice/x.service", NULL },
		{ "0::/a b.slice/x.service", NULL },
		{ "0::/.slice/x.service", NULL },
		{ "0::/init.scope", NULL },
		{ "0::/", NULL },
		/* A container's system manager has slices of its own. */
		{ "0::/lxc.payload.web/system.slice/nginx.service", NULL },
		{ "0::/system.slice/docker-" ID1 ".scope/user.slice/x.service", "system.slice" },
		{ "4:memory:/user.slice\n1:name=systemd:/user.slice/user-0.slice/session-1.scope", "user-0.slice" },
	};

	EXPECT_MEMBERS(cases, slice);
}

TEST(runtimes)
{
	static const struct member_case cases[] = {
		{ "0::/docker/" ID1, "docker" },
		{ "0::/system.slice/docker-" ID1 ".scope", "docker" },
		{ "0::/system.slice/docker-" ID1 ".scope/init", "docker" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/docker-" ID1 ".scope", "docker" },
		{ "0::/my-parent/" ID1, NULL },
		{ "0::/default/" ID1, "containerd" },
		{ "0::/k8s.io/" ID1, "containerd" },
		{ "0::/system.slice/nerdctl-" ID1 ".scope", "containerd" },
		{ "0::/kubepods.slice/kubepods-pod" POD_ ".slice/cri-containerd-" ID1 ".scope", "containerd" },
		{ "0::/kubepods/burstable/pod" POD "/" ID1, "containerd" },
		{ "0::/kubepods/burstable/pod" POD "/" ID1 "/container", "containerd" },
		{ "0::/kubepods/besteffort/pod" STATIC_POD "/" ID1, "containerd" },
		{ "0::/system.slice/containerd.service/kubepods-burstable-pod" POD_ ".slice:cri-containerd:" ID1,
		  "containerd" },
		{ "0::/kubepods/besteffort/pod" POD "/crio-" ID1, "cri-o" },
		{ "0::/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID1 ".scope/container", "cri-o" },
		{ "0::/kubepods.slice/kubepods-pod" POD_ ".slice/crio-conmon-" ID1 ".scope", NULL },
		{ "0::/kubepods.slice/kubepods-pod" POD_ ".slice/docker-" ID1 ".scope", "docker" },
		{ "0::/machine.slice/libpod-" ID1 ".scope/container", "podman" },
		{ "0::/system.slice/train.service/libpod-payload-" ID1, "podman" },
		{ "0::/libpod_parent/libpod-" ID1, "podman" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID1 ".scope", "podman" },
		{ "0::/machine.slice/libpod-conmon-" ID1 ".scope", NULL },
		{ "0::/lxc/101/ns", "lxc" },
		{ "0::/lxc.payload.web/init.scope", "lxc" },
		{ "0::/lxc.payload/web", "lxc" },
		{ "0::/lxc.monitor.web", NULL },
		{ "0::/lxc.monitor/web", NULL },
		{ "0::/machine.slice/machine-web.scope/payload/system.slice/x.service", "systemd-nspawn" },
		{ "0::/somewhere/strange-" ID1 ".scope", NULL },
		{ "0::/", NULL },
		/* The inner one's. */
		{ "0::/kubepods/burstable/pod" POD "/" ID1 "/docker/" ID2, "docker" },
		{ "0::/system.slice/docker-" ID2 ".scope/kubelet/kubepods/pod" POD "/" ID1, "containerd" },
		{ "0::/lxc.payload.web/machine.slice/libpod-" ID1 ".scope", "podman" },
		{ "0::/system.slice/docker-" ID2 ".scope/strange-" ID1 ".scope", NULL },
		/* Hybrid: the old hierarchies know it. */
		{ "5:devices:/docker/" ID1 "\n0::/system.slice/containerd.service", "docker" },
	};

	EXPECT_MEMBERS(cases, runtime);
}

TEST(machines)
{
	static const struct member_case cases[] = {
		{ "0::/machine.slice/machine-web.scope/payload/init.scope", "web" },
		{ "0::/machine.slice/machine-web.scope", "web" },
		{ "0::/machine.slice/machine-my\\x2dweb_1.scope/payload", "my-web_1" },
		{ "0::/machine.slice/machine-odd\\x2\\xzz\\x00.scope/payload", "odd\\x2\\xzz\\x00" },
		{ "0::/machine.slice/systemd-nspawn@my\\x2dweb.service/payload/system.slice/x.service", "my-web" },
		{ "0::/machine.slice/machine-lxc\\x2d4711\\x2dweb\\x2d1.scope", "web-1" },
		{ "0::/machine.slice/machine-lxc\\x2dweb.scope", "lxc-web" },
		{ "0::/machine.slice/machine-lxc\\x2d4711\\x2d.scope", "lxc-4711-" },
		/* The one that looks after it, a virtual machine, and what only sounds like one. */
		{ "0::/machine.slice/machine-web.scope/supervisor", NULL },
		{ "0::/machine.slice/systemd-nspawn@web.service/supervisor", NULL },
		{ "0::/machine.slice/systemd-nspawn@web.service", NULL },
		{ "0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator", NULL },
		{ "0::/system.slice/machine-learning.scope", NULL },
		{ "0::/machine.slice/machine-.scope", NULL },
		{ "0::/machine.slice/systemd-nspawn@.service/payload", NULL },
	};

	EXPECT_MEMBERS(cases, container);
}

TEST(odd_containers)
{
	static const struct member_case cases[] = {
		{ "0::/lxc/..", NULL },
		{ "0::/lxc/.", NULL },
		{ "0::/lxc.payload.a/lxc.payload.b", "b" },
		{ "0::/docker/" ID1 " (deleted)", ID1 },
		{ "0::/../docker-" ID1 ".scope", ID1 },
		{ "0::/docker/x" ID1, NULL },
		{ "0::/docker/-" ID1, ID1 },
		{ "0::/" ID1 ":" ID2, ID2 },
		{ "0::/:::", NULL },
		{ "0:://///" ID1 "////", ID1 },
	};

	EXPECT_MEMBERS(cases, container);
}

TEST(pods_of_neighbours)
{
	static const struct member_case cases[] = {
		/* As a container with its own cgroup namespace sees them. */
		{ "0::/../../pod" POD "/" ID1, POD },
		{ "0::/../../../burstable/pod" POD "/" ID1, POD },
		{ "0::/../../kubepods-besteffort-pod" POD_ ".slice/cri-containerd-" ID1 ".scope", POD },
		/* Uids that are none: dashes elsewhere, of the wrong kind, capitals. */
		{ "0::/kubepods/pod123456789-0ab-cdef-1234-567890abcdef", NULL },
		{ "0::/kubepods/pod------------------------------------", NULL },
		{ "0::/kubepods/pod" POD_, NULL },
		{ "0::/kubepods/pod12345678-90AB-cdef-1234-567890abcdef", NULL },
		{ "0::/kubepods.slice/kubepods-pod" POD ".slice", NULL },
		{ "0::/kubepods.slice/kubepods-pod" STATIC_POD ".slice/docker-" ID1 ".scope", STATIC_POD },
		/* The inner one. */
		{ "0::/kubepods/pod" POD "/" ID1 "/kubepods/pod" STATIC_POD "/" ID2, STATIC_POD },
		{ "0::/kubepods/pod" POD "/" ID1 "/docker/" ID2, POD },
	};

	EXPECT_MEMBERS(cases, pod);
}

TEST(slurm)
{
	static const struct member_case cases[] = {
		{ "0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0", "1234.0" },
		{ "0::/system.slice/slurmstepd.scope/job_1234/step_batch/user/task_0", "1234.batch" },
		{ "0::/system.slice/slurmstepd.scope/job_1234/step_extern/user/task_special", "1234.extern" },
		{ "0::/system.slice/slurmstepd.scope/job_1234/step_interactive/user/task_0", "1234.interactive" },
		{ "0::/system.slice/slurmstepd.scope/job_1234/step_0+1/user", "1234.0+1" },
		{ "0::/system.slice/slurmstepd.scope/job_1234", "1234" },
		{ "0::/system.slice/node-7_slurmstepd.scope/job_123/step_batch/slurm", "123.batch" },
		{ "4:memory:/slurm/uid_1000/job_1234/step_batch/task_0\n0::/", "1234.batch" },
		{ "4:freezer:/slurm_node7/uid_0/job_4294967294/step_4294967290", "4294967294.4294967290" },
		/* The unit says slurmd, a controller says which job. */
		{ "9:cpuset:/slurm/uid_1000/job_7/step_3/task_1\n1:name=systemd:/system.slice/slurmd.service\n0::/",
		  "7.3" },
		/* A container within a job, and a cluster of containers. */
		{ "0::/system.slice/slurmstepd.scope/job_5/step_1/user/task_0/libpod-payload-" ID1, "5.1" },
		{ "0::/docker/" ID1 "/system.slice/slurmstepd.scope/job_5/step_1/user", "5.1" },
		/* A job may not pass for another one. */
		{ "0::/system.slice/slurmstepd.scope/job_5/step_1/user/slurmstepd.scope/job_9/step_0", "5.1" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_9/step_0", NULL },
		{ "0::/user.slice/user-1000.slice/user@1000.service/slurm/uid_0/job_9", NULL },
		/* Not jobs, not steps. */
		{ "0::/system.slice/slurmstepd.scope", NULL },
		{ "0::/system.slice/slurmstepd.scope/system", NULL },
		{ "0::/system.slice/slurmstepd.scope/job_", NULL },
		{ "0::/system.slice/slurmstepd.scope/job_12x/step_0", NULL },
		{ "0::/system.slice/slurmstepd.scope/job_12345678901/step_0", NULL },
		{ "0::/system.slice/slurmstepd.scope/job_12/step_", "12" },
		{ "0::/system.slice/slurmstepd.scope/job_12/step_0+", "12" },
		{ "0::/system.slice/slurmstepd.scope/job_12/step_+0", "12" },
		{ "0::/system.slice/slurmstepd.scope/job_12/step_1+2+3", "12" },
		{ "0::/system.slice/slurmstepd.scope/job_12/step_evil", "12" },
		{ "0::/system.slice/slurmstepd.scope/job_12/other/step_0", "12" },
		{ "0::/slurm/job_12/step_0", NULL },
		{ "0::/slurm/uid_x/job_12/step_0", NULL },
		{ "0::/slurm", NULL },
		{ "0::/system.slice/slurmd.service", NULL },
	};

	EXPECT_MEMBERS(cases, slurm_job);
}

/* As long as the kernel writes them, and longer; and cut at every byte. */
TEST(huge)
{
	static const char whole[] = "12:memory:/slurm/uid_1000/job_1/step_0\n0::/machine.slice/machine-a\\x2db.scope/"
				    "payload/kubepods/pod" POD "/" ID1 ":" ID2 "/lxc/web";
	size_t size = 1 << 20;
	char *text = malloc(size + 1);
	struct cgroup_names n;

	ASSERT(text != NULL);
	for (size_t len = 0; len < sizeof(whole); len++) {
		char *cut = strndup(whole, len);

		ASSERT(cut != NULL);
		if (cgroup_parse(cut, &n) == 0)
			cgroup_names_done(&n);
		free(cut);
	}
	memset(text, 'a', size);
	memcpy(text, "0::/", 4);
	text[size] = '\0';
	EXPECT_EQ(cgroup_parse(text, &n), 0);
	EXPECT(!n.container && !n.pod && !n.unit && !n.slice && !n.slurm_job);
	cgroup_names_done(&n);
	for (size_t i = 4; i < size; i++)
		text[i] = i % 2 ? '/' : ':';
	EXPECT_EQ(cgroup_parse(text, &n), 0);
	EXPECT(!n.container && !n.unit);
	cgroup_names_done(&n);
	free(text);
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
