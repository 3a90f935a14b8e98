/* SPDX-License-Identifier: MIT */
/* One function a subcommand; argv[0] is its name. Each returns the exit status of interface and man page. */
#pragma once

/* Each returns when its subcommand is done. */
int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_memtrace(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_mon(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_report(int argc, char **argv);
