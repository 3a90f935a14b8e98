/* SPDX-License-Identifier: MIT */
#include "stack/unwind.h"

const char *unwind_reason_text(enum unwind_reason reason)
{
	static const char *const texts[UNWIND_REASON_MAX] = {
		[UNWIND_DEPTH] = "more frames than the limit",
		[UNWIND_COPY_END] = "stack larger than the copy",
		[UNWIND_MISSING] = "part of the stack could not be read",
		[UNWIND_OUTSIDE] = "continues on another stack",
		[UNWIND_NO_MAPS] = "address space unknown",
		[UNWIND_NOT_MAPPED] = "return address not in known code",
		[UNWIND_RETURN_PROBE] = "cut by a return probe",
		[UNWIND_NO_FILE] = "generated code",
		[UNWIND_UNREADABLE] = "file could not be opened",
		[UNWIND_NO_INFO] = "no unwind information",
		[UNWIND_BAD_INFO] = "unusable unwind information",
		[UNWIND_NO_REGISTER] = "unwind information needs an unknown register",
		[UNWIND_LOOP] = "unwind information leads in a circle",
		[UNWIND_WORK] = "unwind information too costly",
	};

	return reason < UNWIND_REASON_MAX ? texts[reason] : NULL;
}
