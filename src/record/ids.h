/* SPDX-License-Identifier: MIT */
/*
 * MESSAGE_ID of each kind of event. Made once with `systemd-id128 new` and fixed for ever: people's filters and the
 * catalog (contrib/systemd/gpuxray.catalog) rest on them. Add, never change or reuse.
 */
#pragma once

#define MESSAGE_ID_LIVE_BYTES "018c87ef31974774962025cc2d1f37f4"
#define MESSAGE_ID_SINGLE_ALLOC "38bc2af091e44a8e828f74d948148f50"
#define MESSAGE_ID_ALLOC_RATE "e660d795c65d4965bfc5a0776f2a28d8"
#define MESSAGE_ID_ALLOC_FAILURE "80869a82cb634418bf6231e200894b66"
#define MESSAGE_ID_LEAK "87964e46bab24f319cbb8b1a873583ba"
#define MESSAGE_ID_EXIT "b40304af76734b9790821c5de813838b"
#define MESSAGE_ID_UNTRACKED_GROWTH "f52041b59250440f96885463bf1b6849"
#define MESSAGE_ID_ORPHAN "44f5307ad1894bdf8e2ad599111cc5f0"
#define MESSAGE_ID_COVERAGE "78b85f99a6034f4198546f61603d6c12"
#define MESSAGE_ID_START "e2dc928bc4be4d32aeac864c812a7616"
#define MESSAGE_ID_STOP "e4a4eebd7a7843e0971ead51eeddaf58"
#define MESSAGE_ID_RELOAD "22595e5f71de4171932a200960540a59"
#define MESSAGE_ID_HEALTH "fdc7f2bde110495093ed4d5acd63a05b"
#define MESSAGE_ID_SUPPRESSED "659fe9a090d447e5955b23140e3e48c9"
