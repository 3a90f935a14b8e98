/* SPDX-License-Identifier: MIT */
/* Runs a fuzzer's entry on files and on everything in folders, in place of libFuzzer: each is a test case. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(4 << 20);
	size_t n;

	if (!f || !data) {
		fprintf(stderr, "%s: cannot read\n", path);
		return -1;
	}
	n = fread(data, 1, 4 << 20, f);
	fclose(f);
	/* Exact size, so that a read past the end is caught. */
	data = realloc(data, n ? n : 1);
	if (data)
		(void)LLVMFuzzerTestOneInput(data, n);
	free(data);
	return data ? 1 : -1;
}

static int run_path(const char *path)
{
	struct stat st;
	int n = 0;
	DIR *d;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return run_file(path);
	d = opendir(path);
	if (!d)
		return -1;
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		char sub[4096];
		int r;

		if (e->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		r = run_path(sub);
		if (r < 0) {
			closedir(d);
			return r;
		}
		n += r;
	}
	closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int r = run_path(argv[i]);

		if (r < 0)
			return 1;
		total += r;
	}
	printf("%d inputs\n", total);
	return total ? 0 : 1;
}
