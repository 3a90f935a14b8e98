/* SPDX-License-Identifier: MIT */
/*
 * Plain CUDA C++ as it is built for use: -O2, no frame pointers. Allocates through chains of C++ functions and says
 * which, by marks as those of stacks_mark.py, with native functions, innermost first. Waits for a line on stdin.
 */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <pthread.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

/* A frame of its own: what comes after the call prevents a tail call. */
#define FRAME __attribute__((noinline))
#define KEEP_FRAME() asm volatile("" ::: "memory")

static const size_t MIB = 1 << 20;

static void must(cudaError_t r, const char *what)
{
	if (r == cudaSuccess)
		return;
	fprintf(stderr, "%s: %d %s\n", what, (int)r, cudaGetErrorString(r));
	exit(2);
}

static void mark(size_t bytes, const char *what, const char *functions)
{
	const char *path = getenv("STACKS_EXPECT");
	FILE *f = fopen(path ? path : "/dev/null", "a");

	if (!f)
		exit(2);
	fprintf(f,
		"{\"event\":\"single_alloc\",\"mode\":\"native\",\"pid\":%d,\"tid\":%ld,\"bytes\":%zu,\"what\":\"%s\","
		"\"frames\":[],\"chain\":[%s]}\n",
		(int)getpid(), syscall(SYS_gettid), bytes, what, functions);
	fclose(f);
}

namespace shop {

struct Source {
	virtual ~Source() {}
	virtual void *fill(size_t bytes) = 0;
};

template <typename T> FRAME void *take(size_t count)
{
	void *p = NULL;

	must(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
	KEEP_FRAME();
	return p;
}

struct Disk : Source {
	/* An array on the stack, so that the frame is a large one. */
	FRAME void *fill(size_t bytes) override
	{
		volatile char name[3000];
		void *p;

		name[bytes % sizeof(name)] = 1;
		p = take<float>(bytes / sizeof(float));
		KEEP_FRAME();
		return name[0] == 2 ? NULL : p;
	}
};

/* A frame of variable size is left by the frame pointer whatever the flags say. */
FRAME void *by_alloca(Source &source, size_t bytes, size_t room)
{
	volatile char *scratch = (volatile char *)__builtin_alloca(room);
	void *p;

	scratch[0] = scratch[room - 1] = 1;
	p = source.fill(bytes);
	KEEP_FRAME();
	return scratch[0] ? p : NULL;
}

FRAME void *recurse(Source &source, size_t bytes, int depth)
{
	void *p = depth ? recurse(source, bytes, depth - 1) : by_alloca(source, bytes, 100 + bytes % 1000);

	KEEP_FRAME();
	return p;
}

} // namespace shop

static void *in_thread(void *)
{
	shop::Disk disk;
	void *p;

	mark(33 * MIB, "thread", "\"shop::take\",\"shop::Disk::fill\",\"in_thread\"");
	p = disk.fill(33 * MIB);
	KEEP_FRAME();
	return p;
}

int main()
{
	shop::Disk disk;
	std::string deep = "\"shop::take\",\"shop::Disk::fill\",\"shop::by_alloca\"";
	pthread_t thread;
	char c;

	must(cudaSetDevice(0), "cudaSetDevice");
	mark(31 * MIB, "template", "\"shop::take\",\"main\"");
	shop::take<double>(31 * MIB / sizeof(double));
	for (int i = 0; i <= 20; i++)
		deep += ",\"shop::recurse\"";
	deep += ",\"main\"";
	mark(32 * MIB, "alloca and recursion", deep.c_str());
	shop::recurse(disk, 32 * MIB, 20);
	if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
		return 2;
	printf("{\"done\":true,\"pid\":%d}\n", (int)getpid());
	fflush(stdout);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	return 0;
}
