/* SPDX-License-Identifier: MIT */
/* embed SCRIPT ARGS...: a program that is no Python, with Python in it. */
#include <Python.h>
#include <stdio.h>

#include "stack.h"

static FRAME int run_script(const char *path)
{
	FILE *f = fopen(path, "r");
	int r = f ? PyRun_SimpleFileExFlags(f, path, 1, NULL) : -1;

	KEEP_FRAME();
	return r;
}

int main(int argc, char **argv)
{
	PyConfig config;
	PyStatus status;

	if (argc < 2)
		return 2;
	PyConfig_InitPythonConfig(&config);
	config.parse_argv = 0;
	status = PyConfig_SetBytesArgv(&config, argc - 1, argv + 1);
	if (!PyStatus_Exception(status))
		status = Py_InitializeFromConfig(&config);
	PyConfig_Clear(&config);
	if (PyStatus_Exception(status))
		return 3;
	if (run_script(argv[1]))
		return 1;
	return Py_FinalizeEx() < 0 ? 4 : 0;
}
