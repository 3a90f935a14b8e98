/* SPDX-License-Identifier: MIT */
/*
 * Walks JSON text that others wrote, in place and without recursion: for a few values out of files of container runtimes.
 * What is wrong with the text ends the walk: is_bad, and every call after that finds nothing.
 */
#pragma once

#include "proc/span.h"

#define JSON_DEPTH_MAX 64 /* of arrays and objects within each other, in what is passed over */

struct json_reader {
	const char *p, *end;
	bool is_bad;
	bool is_first; /* the next member or element is the first one */
};

/* A reader of a text that is neither copied nor terminated, and must outlive it. */
struct json_reader json_reader_of(const char *text, size_t len);
/* Goes into the object or array that is next; false: what is next is no such, and has been passed over. */
bool json_enter_object(struct json_reader *j);
bool json_enter_array(struct json_reader *j);
/*
 * The name of the next member, whose value is then next and must be taken, entered or passed over. False behind the last
 * one, when the object has been left. Names and strings are as they stand in the text, escapes included.
 */
bool json_next_member(struct json_reader *j, struct span *ret_name);
bool json_next_element(struct json_reader *j);
/* The string that is next; false: what is next is none, and has been passed over. */
bool json_take_string(struct json_reader *j, struct span *ret);
void json_skip(struct json_reader *j);
