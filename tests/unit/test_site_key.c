/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/clock.h"
#include "stack/site_key.h"
#include "test.h"

#define PY "/home/a/venv/lib/python3.12/site-packages"

static struct allocators *defaults(void)
{
	struct allocators *a = NULL;
	size_t len = 0;

	while (allocators_default[len])
		len++;
	if (allocators_new((char *const *)allocators_default, len, &a) < 0)
		abort();
	return a;
}

static struct allocators *single(char *pattern)
{
	struct allocators *a = NULL;

	return allocators_new(&pattern, 1, &a) < 0 ? NULL : a;
}

/* ---- allocators ---- */

static bool matches(const struct allocators *a, const char *path)
{
	unsigned int strikes = 1;

	return allocators_match(a, path, strlen(path), &strikes);
}

TEST(files_of_allocators)
{
	static const char *const paths[] = {
		"/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
		"/usr/lib64/libcuda.so",
		"/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127",
		"/usr/local/nvidia/lib64/libcuda.so.535.104.05",
		PY "/nvidia/cu13/lib/libcudart.so.13",
		PY "/nvidia/cuda_runtime/lib/libcudart.so.12",
		PY "/torch/lib/libcudart-d0da41ae.so.11.0",
		PY "/torch/lib/libc10_cuda.so",
		PY "/torch/lib/libc10.so",
		PY "/torch/cuda/memory.py",
		"/usr/lib/x86_64-linux-gnu/libc10.so.2.6",
		PY "/cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so",
		PY "/cupy/cuda/pinned_memory.cpython-39-x86_64-linux-gnu.so",
		PY "/cupy/cuda/memory_hook.cpython-312-x86_64-linux-gnu.so",
		PY "/cupy/cuda/memory_hooks/line_profile.py",
		PY "/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so",
		PY "/cupy_backends/cuda/api/driver.cpython-312-x86_64-linux-gnu.so",
		PY "/librmm/lib64/librmm.so",
		"/opt/conda/lib/librmm.so",
		PY "/rmm/pylibrmm/device_buffer.cpython-312-x86_64-linux-gnu.so",
		PY "/rmm/pylibrmm/memory_resource/_memory_resource.cpython-312-x86_64-linux-gnu.so",
		PY "/rmm/librmm/_logger.cpython-312-x86_64-linux-gnu.so",
		PY "/rmm/_lib/memory_resource.cpython-310-x86_64-linux-gnu.so",
		PY "/rmm/allocators/torch.py",
		PY "/rmm/mr.py",
		PY "/rmm/rmm.py",
		"/usr/lib/python3/dist-packages/rmm/mr/__init__.py",
		PY "/numba/cuda/cudadrv/driver.py",
		PY "/numba/cuda/cudadrv/devicearray.py",
		PY "/numba_cuda/numba/cuda/cudadrv/driver.py",
		PY "/cuda/bindings/driver.cpython-312-x86_64-linux-gnu.so",
		PY "/cuda/bindings/_bindings/cyruntime_ptds.cpython-312-x86_64-linux-gnu.so",
	};
	_cleanup_(allocators_freep) struct allocators *a = defaults();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (!matches(a, paths[i]))
			printf("# %s\n", paths[i]);
		EXPECT(matches(a, paths[i]));
	}
}

TEST(files_of_users)
{
	static const char *const paths[] = {
		"",
		"/home/a/libcuda_tools/train.py",
		"/home/a/libcuda.so.d/train.py",
		"/home/a/mylibcuda.so.1",
		"/home/a/libcuda.so.py",
		"/home/a/libcuda.so.1\n",
		"/home/a/libcudart.so.12.bak",
		"/home/a/libcudart-tools.so",
		"/opt/app/memory.py",
		"/opt/app/cuda/memory.py",
		"/opt/app/torch/memory.py",
		"/home/a/mytorch/cuda/memory.py",
		"/home/a/libc10_cudax.so",
		"/home/a/rmm/train.py",
		"/home/a/src/rmm/mr.py",
		"/home/a/librmm/load.py",
		"/home/a/cudadrv/driver.py",
		"/home/a/cupy/cuda/kernel.py",
		"/home/a/driver.py",
		"/home/a/cuda/bindings.py",
		"/home/a/cuda/bindings/driver.py",
		PY "/torch/nn/modules/linear.py",
		PY "/torch/cuda/__init__.py",
		PY "/torch/lib/libtorch_cuda.so",
		PY "/torch/lib/libtorch_python.so",
		PY "/cupy/_core/core.cpython-312-x86_64-linux-gnu.so",
		PY "/cupy/cuda/compiler.py",
		PY "/cupy/cuda/function.cpython-312-x86_64-linux-gnu.so",
		PY "/cupy_backends/cuda/libs/cublas.cpython-312-x86_64-linux-gnu.so",
		PY "/numba/cuda/dispatcher.py",
		PY "/rmm_tools/train.py",
		"<string>",
	};
	_cleanup_(allocators_freep) struct allocators *a = defaults();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (matches(a, paths[i]))
			printf("# %s\n", paths[i]);
		EXPECT(!matches(a, paths[i]));
	}
}

TEST(bad_patterns)
{
	char *patterns[] = { "^a", "a(b" };
	struct allocators *a = NULL;

	EXPECT_EQ(allocators_new(patterns, 2, &a), -EINVAL);
	EXPECT(!a);
	EXPECT_EQ(allocators_new(NULL, 0, &a), 0);
	EXPECT(!matches(a, "/libcuda.so"));
	allocators_free(a);
	allocators_free(NULL);
}

/* More files than are remembered, each asked about twice: what is remembered is what was said. */
TEST(many_files)
{
	_cleanup_(allocators_freep) struct allocators *a = single("[02468]$");
	char path[64];

	ASSERT(a);
	for (unsigned int i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/opt/%u/file-%u", i % 7, i);
		EXPECT_EQ(matches(a, path), i % 2 == 0);
		EXPECT_EQ(matches(a, path), i % 2 == 0);
	}
	for (unsigned int i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/opt/%u/file-%u", i % 7, i);
		EXPECT_EQ(matches(a, path), i % 2 == 0);
	}
}

TEST(long_paths)
{
	_cleanup_(allocators_freep) struct allocators *a = single("^/");
	char path[1026];

	ASSERT(a);
	memset(path, '/', sizeof(path));
	path[1025] = '\0';
	EXPECT(!matches(a, path));
	path[1024] = '\0';
	EXPECT(matches(a, path));
}

/* ---- short names ---- */

TEST(short_names)
{
	static const char *const pairs[][2] = {
		{ PY "/torch/nn/modules/linear.py", "torch/nn/modules/linear.py" },
		{ "/usr/lib/python3/dist-packages/numpy/core/x.py", "numpy/core/x.py" },
		{ "/usr/lib/python3.12/json/decoder.py", "json/decoder.py" },
		{ "/usr/lib64/python3.9/json/decoder.py", "json/decoder.py" },
		{ "/opt/py/lib/python3.13t/json/decoder.py", "json/decoder.py" },
		{ "lib/python3.11/abc.py", "abc.py" },
		{ "site-packages/a.py", "a.py" },
		{ "/a/site-packages/b/site-packages/c.py", "c.py" },
		{ "/a/site-packages/b/lib/python3.1/c.py", "c.py" },
		{ "/home/a/train.py", "/home/a/train.py" },
		{ "train.py", "train.py" },
		{ "", "" },
		{ "/", "/" },
		{ "<string>", "<string>" },
		{ "/a/site-packages/", "/a/site-packages/" },
		{ "/a/site-packages", "/a/site-packages" },
		{ "/a/my-site-packages/b.py", "/a/my-site-packages/b.py" },
		{ "/a/mylib/python3.12/b.py", "/a/mylib/python3.12/b.py" },
		{ "/a/lib/python3.12x/b.py", "/a/lib/python3.12x/b.py" },
		{ "/a/lib/python3./b.py", "/a/lib/python3./b.py" },
		{ "/a/lib/python3/b.py", "/a/lib/python3/b.py" },
		{ "/a/lib/python3.12/", "/a/lib/python3.12/" },
		{ "/a/lib/python3.12", "/a/lib/python3.12" },
		{ "/a/lib//python3.12/b.py", "/a/lib//python3.12/b.py" },
		{ "/a/site-packages//b.py", "/b.py" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		EXPECT_STR(python_file_short(pairs[i][0]), pairs[i][1]);
}

/* ---- keys ---- */

#define APP 0x400000
#define CUDA 0x7f0000000000

static struct mapping app = { .start = APP, .end = APP + 0x10000, .offset = 0x1000, .inode = 1, .path = "/opt/app" };
static struct mapping cuda = { .start = CUDA, .end = CUDA + 0x10000, .inode = 2, .path = "/usr/lib/libcuda.so.1" };
static struct mapping generated = { .start = 0x1000, .end = 0x9000, .path = "" };

static struct frame native(struct mapping *m, uint64_t offset)
{
	return (struct frame){ .kind = FRAME_NATIVE, .pc = m->start + offset, .mapping = m };
}

static struct frame python(const char *file, const char *function, uint32_t line)
{
	return (struct frame){ .kind = FRAME_PYTHON, .file = file, .function = function, .line = line };
}

/* The app has a build id, "/opt/app" being its only file; others have none. */
static size_t fake_file(const struct mapping *m, uint64_t offset, uint8_t ret[64], uint64_t *ret_vaddr,
			bool *ret_has_vaddr, void *userdata)
{
	const char *id = userdata;

	if (!id || strstr(m->path, "app") == NULL)
		return 0;
	*ret_vaddr = offset + 0x200000;
	*ret_has_vaddr = id[0] != '-';
	memcpy(ret, id, strlen(id));
	return strlen(id);
}

struct keys {
	uint64_t id, site, exact;
};

static struct keys keys_as(const char *build_id, struct frame *list, size_t count)
{
	_cleanup_(allocators_freep) struct allocators *a = defaults();
	struct frames f = { .list = list, .count = count };

	site_key_set(&f, a, fake_file, (void *)build_id);
	return (struct keys){ .id = f.id, .site = f.site, .exact = f.exact };
}

#define KEYS(...)                                                                                                      \
	({                                                                                                             \
		struct frame list_[] = { __VA_ARGS__ };                                                                \
		keys_as("id", list_, ARRAY_SIZE(list_));                                                               \
	})

#define CALL native(&cuda, 0x100)
#define TRAIN python("/home/a/train.py", "Trainer.step", 12)

TEST(allocator_frames_do_not_count)
{
	struct frame list[] = { CALL, python(PY "/torch/cuda/memory.py", "f", 1), TRAIN, native(&app, 4) };
	struct keys a = keys_as("id", list, ARRAY_SIZE(list)), b = KEYS(native(&cuda, 0x900), TRAIN, native(&app, 4));

	EXPECT(list[0].is_allocator && list[1].is_allocator && !list[2].is_allocator && !list[3].is_allocator);
	EXPECT(a.id == b.id && a.site == b.site);
	EXPECT(a.exact != b.exact);
	b = KEYS(TRAIN, native(&app, 4));
	EXPECT(a.id == b.id && a.site == b.site);
}

TEST(nothing_but_allocators_is_taken_whole)
{
	struct keys a = KEYS(CALL), b = KEYS(native(&cuda, 0x200)), c = KEYS(CALL, CALL);

	EXPECT(a.id != b.id && a.site != b.site);
	EXPECT(a.id != c.id);
}

TEST(lines_are_of_the_site_only)
{
	struct keys a = KEYS(CALL, TRAIN), b = KEYS(CALL, python("/home/a/train.py", "Trainer.step", 13));

	EXPECT(a.id == b.id);
	EXPECT(a.site != b.site && a.exact != b.exact);
}

TEST(the_same_wherever_it_is_installed)
{
	struct keys a = KEYS(CALL, python("/home/a/train.py", "f", 1), python(PY "/torch/x.py", "g", 2));
	struct keys b = KEYS(CALL, python("/srv/b/train.py", "f", 1),
			     python("/usr/lib/python3/dist-packages/torch/x.py", "g", 2));

	EXPECT(a.id == b.id && a.site == b.site && a.exact != b.exact);
	EXPECT(a.id != KEYS(CALL, python("/home/a/train2.py", "f", 1), python(PY "/torch/x.py", "g", 2)).id);
	EXPECT(a.id != KEYS(CALL, python("/home/a/train.py", "f", 1), python(PY "/torchx/x.py", "g", 2)).id);
	EXPECT(a.id != KEYS(CALL, python("/home/a/train.py", "f2", 1), python(PY "/torch/x.py", "g", 2)).id);
}

TEST(a_name_that_ends_in_a_slash)
{
	EXPECT(KEYS(CALL, python("/a/b/", "f", 1)).id != KEYS(CALL, python("/c/d/", "f", 1)).id);
	EXPECT(KEYS(CALL, python("/", "f", 1)).id != KEYS(CALL, python("", "f", 1)).id);
}

TEST(the_same_wherever_it_is_mapped)
{
	struct mapping moved = app, deleted = app;
	struct keys a = KEYS(CALL, native(&app, 0x50)), b;

	moved.start += 0x700000000;
	moved.end += 0x700000000;
	b = KEYS(CALL, native(&moved, 0x50));
	EXPECT(a.id == b.id && a.site == b.site && a.exact != b.exact);
	/* Another piece of the same file. */
	moved.start += 0x40;
	moved.offset += 0x40;
	EXPECT(a.id == KEYS(CALL, native(&moved, 0x10)).id);
	deleted.path = "/somewhere/else/app2 (deleted)";
	EXPECT(a.id == KEYS(CALL, native(&deleted, 0x50)).id);
	EXPECT(a.id != KEYS(CALL, native(&app, 0x51)).id);
}

TEST(return_addresses_and_others)
{
	struct frame exact = native(&app, 0x4f);

	exact.is_exact = true;
	EXPECT(KEYS(CALL, native(&app, 0x50)).id == KEYS(CALL, exact).id);
}

TEST(build_ids)
{
	struct frame list[] = { CALL, native(&app, 0x50) };
	struct keys a = keys_as("id1", list, 2), b = keys_as("id2", list, 2);
	struct keys c = keys_as("-", list, 2), d = keys_as("--", list, 2);

	EXPECT(a.id != b.id && a.site != b.site);
	EXPECT(a.exact == b.exact);
	EXPECT(c.id != d.id && a.id != c.id);
}

TEST(without_a_build_id)
{
	struct mapping other = app, deleted = app, renamed = app;
	struct frame list[] = { CALL, native(&app, 0x50) }, list2[] = { CALL, native(&other, 0x50) };
	struct frame list3[] = { CALL, native(&deleted, 0x50) }, list4[] = { CALL, native(&renamed, 0x50) };
	struct keys a = keys_as(NULL, list, 2);

	other.path = "/srv/containers/7/app";
	deleted.path = "/opt/app (deleted)";
	renamed.path = "/opt/app2";
	EXPECT(a.id == keys_as(NULL, list2, 2).id);
	EXPECT(a.id == keys_as(NULL, list3, 2).id);
	EXPECT(a.id != keys_as(NULL, list4, 2).id);
	EXPECT(a.id != keys_as("id", list, 2).id);
	list[1].pc++;
	EXPECT(a.id != keys_as(NULL, list, 2).id);
}

TEST(deleted_is_not_part_of_a_name)
{
	struct mapping deleted = cuda;
	struct frame list[] = { native(&deleted, 1), TRAIN };

	deleted.path = "/usr/lib/libcuda.so.1 (deleted)";
	(void)keys_as("id", list, 2);
	EXPECT(list[0].is_allocator);
}

/* Generated code moves from run to run. */
TEST(code_in_no_file)
{
	struct mapping memfd = generated, vdso = generated;
	struct frame nowhere = { .pc = 0x4711 };
	struct keys a = KEYS(CALL, native(&generated, 0x10)), b = KEYS(CALL, native(&generated, 0x20));

	EXPECT(a.id == b.id && a.site != b.site && a.exact != b.exact);
	EXPECT(a.id == KEYS(CALL, nowhere).id);
	vdso.path = "[vdso]";
	EXPECT(a.id == KEYS(CALL, native(&vdso, 0x30)).id);
	memfd.path = "/memfd:x7fa (deleted)";
	memfd.inode = 3;
	EXPECT(a.id == KEYS(CALL, native(&memfd, 0x30)).id);
	/* A library may be loaded from there. */
	memfd.path = "/memfd:app (deleted)";
	EXPECT(a.id != KEYS(CALL, native(&memfd, 0x30)).id);
	vdso.path = NULL;
	EXPECT(a.id == KEYS(CALL, native(&vdso, 0x30)).id);
}

TEST(unreadable_python_frames)
{
	struct keys a = KEYS(CALL, python(NULL, NULL, 0), TRAIN), b = KEYS(CALL, python("/x.py", NULL, 0), TRAIN);

	EXPECT(a.id == b.id);
	EXPECT(a.id != KEYS(CALL, TRAIN).id);
	EXPECT(a.id != KEYS(CALL, python(NULL, "", 0), TRAIN).id);
	EXPECT(KEYS(CALL, python(NULL, "", 0), TRAIN).id != KEYS(CALL, python("", "", 0), TRAIN).id);
}

TEST(parts_do_not_run_into_each_other)
{
	EXPECT(KEYS(CALL, python("ab", "c", 0)).id != KEYS(CALL, python("a", "bc", 0)).id);
	EXPECT(KEYS(CALL, python("a", "b", 0), python("c", "d", 0)).id !=
	       KEYS(CALL, python("c", "d", 0), python("a", "b", 0)).id);
	EXPECT(KEYS(CALL, python("a", "b", 0)).id != KEYS(CALL, python("a", "b", 0), python("a", "b", 0)).id);
	EXPECT(KEYS(CALL, python("a", "b", 1), python("a", "b", 2)).site !=
	       KEYS(CALL, python("a", "b", 2), python("a", "b", 1)).site);
}

TEST(no_frames)
{
	struct keys k = keys_as("id", NULL, 0);

	EXPECT(k.id == 0 && k.site == 0 && k.exact == 0);
	k = KEYS(CALL);
	EXPECT(k.id && k.site && k.exact);
}

/* Ids are written to journals: those of old records must stay those of new ones. */
TEST(ids_stay)
{
	struct frame list[] = { CALL, native(&app, 0x50), TRAIN, native(&generated, 1) };

	EXPECT(keys_as("id", list, 4).id == UINT64_C(0x955a83831c71c96b));
	EXPECT(keys_as(NULL, list, 4).id == UINT64_C(0x6c24539b6582d358));
}

TEST(without_allocators_all_count)
{
	struct frame list[] = { CALL, TRAIN };
	struct frames f = { .list = list, .count = 2 };

	site_key_set(&f, NULL, NULL, NULL);
	EXPECT(!list[0].is_allocator);
	EXPECT(f.id != KEYS(CALL, TRAIN).id);
}

TEST(strikes)
{
	char *patterns[] = { "^(a+)+$", "b$" };
	struct allocators *a = NULL;
	unsigned int strikes = 2;
	char path[512];

	ASSERT(allocators_new(patterns, 2, &a) == 0);
	memset(path, 'a', sizeof(path));
	path[510] = 'b';
	path[511] = '\0';
	EXPECT(allocators_match(a, path, 511, &strikes)); /* the other pattern still counts */
	EXPECT_EQ(strikes, 1);
	EXPECT(!allocators_match(a, path + 1, 510, &strikes));
	EXPECT_EQ(strikes, 0);
	EXPECT(!allocators_match(a, "b", 1, &strikes));
	/* What was not asked is not remembered as an answer; what was, is. */
	EXPECT(allocators_match(a, path, 511, &strikes));
	strikes = 1;
	EXPECT(allocators_match(a, "b", 1, &strikes));
	strikes = 2;
	EXPECT(allocators_match(a, path + 1, 510, &strikes));
	allocators_free(a);
}

/* A pattern that takes forever on names that a process has chosen holds up nobody for long. */
TEST(costly_patterns)
{
	_cleanup_(allocators_freep) struct allocators *a = single("^(/?a+)+$");
	static char names[64][1025];
	struct frame list[64];
	struct frames f = { .list = list, .count = 64 };
	uint64_t start;

	ASSERT(a);
	for (size_t i = 0; i < 64; i++) {
		memset(names[i], 'a', 1024);
		names[i][1020 - i] = '!';
		list[i] = python(names[i], "f", 1);
	}
	start = clock_monotonic_ns();
	site_key_set(&f, a, NULL, NULL);
	EXPECT(clock_monotonic_ns() - start < NSEC_PER_SEC / 4);
	EXPECT(!list[0].is_allocator && f.id != 0);
	/* The next stack is a new one. */
	strcpy(names[0], "/aaa");
	site_key_set(&f, a, NULL, NULL);
	EXPECT(list[0].is_allocator);
}

TEST_MAIN()
