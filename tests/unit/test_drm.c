/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "drm_make.h"
#include "proc/drm.h"
#include "proc/nvml_snapshot.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define NOT_KNOWN UINT64_MAX
#define CARD "0000:03:00.0"
#define OTHER_CARD "0000:43:00.0"

static struct drm_fdinfo parse(const char *text)
{
	struct drm_fdinfo d = { .device_bytes = 12345 };

	EXPECT_EQ(drm_fdinfo_parse(text, &d), 0);
	return d;
}

static uint64_t device_bytes(const char *keys)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "pos:\t0\ndrm-driver:\txe\n%s", keys);
	return parse(text).device_bytes;
}

/* As Linux 6.1 writes it, and 6.14. */
TEST(fdinfo_of_amdgpu)
{
	struct drm_fdinfo d;

	d = parse("pos:\t0\nflags:\t02100002\nmnt_id:\t25\nino:\t545\ndrm-driver:\tamdgpu\n"
		  "drm-client-id:\t18446744073709551615\ndrm-pdev:\t0000:03:00.0\npasid:\t32771\n"
		  "drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t9216 KiB\n"
		  "drm-memory-cpu: \t100 KiB\ndrm-engine-gfx:\t0 ns\ndrm-engine-compute:\t7001 ns\n");
	EXPECT_STR(d.driver, "amdgpu");
	EXPECT_STR(d.pci, CARD);
	EXPECT(d.has_client_id && d.client_id == UINT64_MAX);
	EXPECT(d.has_device_memory);
	EXPECT_EQ(d.device_bytes, 2 * MIB);
	EXPECT_EQ(d.kinds, GPU_PROCESS_COMPUTE);

	d = parse("drm-driver:\tamdgpu\ndrm-client-id:\t5\ndrm-pdev:\t0000:03:00.0\n"
		  "drm-total-cpu:\t0\ndrm-total-gtt:\t2 MiB\ndrm-total-vram:\t64 MiB\ndrm-shared-vram:\t16 MiB\n"
		  "drm-active-vram:\t0\ndrm-resident-vram:\t48 MiB\ndrm-purgeable-vram:\t0\n"
		  "drm-memory-vram:\t49152 KiB\n"
		  "amd-evicted-vram:\t16384 KiB\namd-requested-vram:\t65536 KiB\ndrm-engine-gfx:\t10 ns\n");
	EXPECT_EQ(d.device_bytes, 48 * MIB);
	EXPECT_EQ(d.kinds, GPU_PROCESS_GRAPHICS);
}

TEST(fdinfo_of_intel_and_nouveau)
{
	struct drm_fdinfo d;

	d = parse("drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:4d:00.0\ndrm-total-system0:\t9 MiB\n"
		  "drm-resident-system0:\t9 MiB\ndrm-total-local0:\t32 MiB\ndrm-resident-local0:\t16 MiB\n"
		  "drm-total-stolen-local0:\t4 MiB\ndrm-engine-render:\t9288864723 ns\n");
	EXPECT_EQ(d.device_bytes, 16 * MIB);
	d = parse("drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:4d:00.0\ndrm-total-gtt:\t192 KiB\n"
		  "drm-total-vram0:\t23992 KiB\ndrm-resident-vram0:\t23992 KiB\ndrm-resident-vram1:\t8 KiB\n"
		  "drm-total-stolen:\t4 KiB\ndrm-cycles-rcs:\t0\ndrm-cycles-ccs:\t28257900\n"
		  "drm-total-cycles-ccs:\t7655183225\n");
	EXPECT_EQ(d.device_bytes, 24000 * KIB);
	EXPECT_EQ(d.kinds, GPU_PROCESS_COMPUTE);
	/* In the processor: nothing of its own. */
	d = parse("drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\ndrm-total-system0:\t9 MiB\n");
	EXPECT(!d.has_device_memory && d.device_bytes == NOT_KNOWN);
	d = parse("drm-driver:\tnouveau\ndrm-memory-vram:\t17\n");
	EXPECT_EQ(d.device_bytes, 17);
	EXPECT(!d.has_client_id);
	EXPECT_STR(d.pci, "");
	d = parse("drm-driver:\tnvidia-drm\ndrm-client-id:\t7\ndrm-pdev:\t0000:3b:00.0\n");
	EXPECT(!d.has_device_memory);
}

TEST(which_figure_counts)
{
	EXPECT_EQ(device_bytes("drm-resident-vram:\t1 KiB\ndrm-memory-vram:\t2 KiB\ndrm-total-vram:\t3 KiB\n"), KIB);
	EXPECT_EQ(device_bytes("drm-total-vram:\t3 KiB\ndrm-memory-vram:\t2 KiB\n"), 2 * KIB);
	EXPECT_EQ(device_bytes("drm-total-vram:\t3 KiB\ndrm-shared-vram:\t2 KiB\n"), 3 * KIB);
	EXPECT_EQ(device_bytes("drm-resident-vram:\t0\ndrm-memory-vram:\t2 KiB\n"), 0);
	/* What cannot be read falls back to what can. */
	EXPECT_EQ(device_bytes("drm-resident-vram:\t-1 KiB\ndrm-total-vram:\t3 GiB\n"), 3072 * MIB);
	EXPECT(device_bytes("drm-resident-vram:\tmany\n") == NOT_KNOWN);
	EXPECT(device_bytes("drm-resident-vram0:\tmany\ndrm-resident-vram1:\t1\n") == NOT_KNOWN);
	EXPECT_EQ(device_bytes("drm-resident-vram:   7   KiB  \n"), 7 * KIB);
	EXPECT(device_bytes("drm-resident-vram:\t7 pages\n") == NOT_KNOWN);
	EXPECT(device_bytes("drm-resident-vram:\t18014398509481984 KiB\n") == NOT_KNOWN);
	EXPECT(device_bytes("drm-resident-vram:\t99999999999999999999999999999999\n") == NOT_KNOWN);
	EXPECT(device_bytes("drm-resident-vram0:\t18446744073709551615\ndrm-resident-vram1:\t1\n") == NOT_KNOWN);
	EXPECT(device_bytes("drm-resident-vramx:\t1\ndrm-resident-localhost:\t1\ndrm-resident-:\t1\n") == NOT_KNOWN);
	EXPECT(device_bytes("drm-memory-vram0:\t1\ndrm-memory-vram1:\t1\ndrm-memory-vram2:\t1\ndrm-memory-vram3:\t1\n"
			    "drm-memory-vram4:\t1\ndrm-memory-vram5:\t1\ndrm-memory-vram6:\t1\ndrm-memory-vram7:\t1\n"
			    "drm-memory-vram8:\t1\n") == NOT_KNOWN);
}

TEST(texts_that_are_no_fdinfo)
{
	char text[2048] = "drm-driver:\tamdgpu\n";
	struct drm_fdinfo d;

	EXPECT_EQ(drm_fdinfo_parse("", &d), -EINVAL);
	EXPECT_EQ(drm_fdinfo_parse("pos:\t0\nflags:\t02\ndrm-memory-vram:\t1 KiB\n", &d), -EINVAL);
	EXPECT_EQ(drm_fdinfo_parse("drm-driver:\n", &d), -EINVAL);
	EXPECT_EQ(drm_fdinfo_parse("drm-driver:\ta-name-that-is-longer-than-any\n", &d), -EINVAL);
	/* Half a line says nothing. */
	(void)strcat(text, "drm-resident-vram:");
	memset(text + strlen(text), ' ', 300);
	(void)strcat(text, "7 KiB\n");
	d = parse(text);
	EXPECT(!d.has_device_memory);
}

TEST(small_parsers)
{
	char pci[16], uuid[96];

	EXPECT_EQ(drm_kfd_location_parse("cpu_cores_count 0\nlocation_id 17152\ndomain 0\nunique_id 1\n", pci), 0);
	EXPECT_STR(pci, OTHER_CARD);
	EXPECT_EQ(drm_kfd_location_parse("domain 65536\nlocation_id 1073742593\n", pci), 0);
	EXPECT_STR(pci, "10000:03:00.1");
	EXPECT_EQ(drm_kfd_location_parse("domain 0\nlocation_id 0\n", pci), -EINVAL);
	EXPECT_STR(pci, "");
	EXPECT_EQ(drm_kfd_location_parse("", pci), -EINVAL);
	EXPECT_EQ(drm_unique_id_parse("18FBC3A2b1c2d3e4\n", uuid), 0);
	EXPECT_STR(uuid, "GPU-18fbc3a2b1c2d3e4");
	EXPECT_EQ(drm_unique_id_parse("0000000000000000", uuid), -EINVAL);
	EXPECT_EQ(drm_unique_id_parse("18fbc3a2b1c2d3e", uuid), -EINVAL);
	EXPECT_EQ(drm_unique_id_parse("18fbc3a2b1c2d3e45", uuid), -EINVAL);
	EXPECT_EQ(drm_unique_id_parse("", uuid), -EINVAL);
	EXPECT_EQ(gpu_pci_parse("00000000:3B:00.0", pci), 0);
	EXPECT_STR(pci, "0000:3b:00.0");
	EXPECT_EQ(gpu_pci_parse("12345678:3B:00.0", pci), -EINVAL);
	EXPECT_EQ(gpu_pci_parse("0000:3b:00", pci), -EINVAL);
	EXPECT_EQ(gpu_pci_parse("0000:3b:20.0", pci), -EINVAL);
	EXPECT_EQ(gpu_pci_parse("0000:3b:00.0 ", pci), -EINVAL);
	EXPECT_STR(pci, "");
}

static const struct gpu_process *process_of(const struct gpu_snapshot *s, uint32_t pid, uint32_t device)
{
	static const struct gpu_process none = { .used_bytes = 987654321 };

	for (size_t i = 0; i < s->process_count; i++)
		if (s->processes[i].pid == pid && s->processes[i].device == device)
			return &s->processes[i];
	return &none;
}

TEST(cards)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(drm_root_new(&d));
	EXPECT_EQ(drm_read(d.proc, d.sys, NULL, &s), -ENODEV);
	ASSERT(drm_root_card(&d, "card1", CARD, "amdgpu") && drm_root_card(&d, "card0", OTHER_CARD, "amdgpu") &&
	       drm_root_card(&d, "card10", "0000:4d:00.0", "i915") &&
	       drm_root_card(&d, "card2", "0000:00:02.0", "xe") &&
	       drm_root_card(&d, "card3", "0000:05:00.0", "nvidia") &&
	       drm_root_card(&d, "card4", "amdgpu_xcp_1", "amdgpu"));
	ASSERT(drm_root_text(&d, "connected", "sys/class/drm/card1-HDMI-A-1/status") &&
	       drm_root_text(&d, "0018FBC3A2b1c2d3\n", "sys/devices/" CARD "/unique_id") &&
	       drm_root_text(&d, "AMD Instinct MI300X\n", "sys/devices/" CARD "/product_name") &&
	       drm_root_text(&d, "206141652992\n", "sys/devices/" CARD "/mem_info_vram_total") &&
	       drm_root_text(&d, "297271296\n", "sys/devices/" CARD "/mem_info_vram_used") &&
	       drm_root_text(&d, "\n", "sys/devices/" OTHER_CARD "/product_name") &&
	       drm_root_text(&d, "100\n", "sys/devices/" OTHER_CARD "/mem_info_vram_total") &&
	       drm_root_text(&d, "101\n", "sys/devices/" OTHER_CARD "/mem_info_vram_used"));
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0);
	ASSERT(s.device_count == 3);
	EXPECT_STR(s.devices[0].pci, CARD);
	EXPECT_STR(s.devices[0].uuid, "GPU-0018fbc3a2b1c2d3");
	EXPECT_STR(s.devices[0].name, "AMD Instinct MI300X");
	EXPECT_EQ(s.devices[0].total_bytes, 206141652992);
	EXPECT_EQ(s.devices[0].used_bytes, 297271296);
	EXPECT_EQ(s.devices[0].index, -1);
	EXPECT_EQ(s.devices[0].parent, -1);
	EXPECT_STR(s.devices[1].uuid, "PCI-" OTHER_CARD);
	EXPECT_STR(s.devices[1].name, "amdgpu 1002:74a1");
	EXPECT_EQ(s.devices[1].total_bytes, 100);
	EXPECT(s.devices[1].used_bytes == NOT_KNOWN);
	EXPECT_STR(s.devices[2].driver, "i915");
	EXPECT(s.devices[2].total_bytes == NOT_KNOWN);
	EXPECT_EQ(s.process_count, 0);
	EXPECT(s.is_complete);
}

/* Descriptors of one client in one process and in others count once, for the lowest pid. */
TEST(clients)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu") &&
	       drm_root_card(&d, "card1", OTHER_CARD, "amdgpu"));
	/* Two descriptors of a client, another client, and one of the other card with the first one's number. */
	ASSERT(drm_root_client(&d, 300, 4, CARD, 1, "vram", "10 KiB") &&
	       drm_root_client(&d, 300, 5, CARD, 1, "vram", "10 KiB") &&
	       drm_root_client(&d, 300, 6, CARD, 2, "vram", "1 KiB") &&
	       drm_root_client(&d, 300, 7, OTHER_CARD, 1, "vram", "5 KiB"));
	/* Its children; 1000 sorts behind 300 as a number, before it as a word. */
	ASSERT(drm_root_client(&d, 1000, 4, CARD, 1, "vram", "10 KiB") &&
	       drm_root_client(&d, 1001, 4, CARD, 1, "vram", "12 KiB") &&
	       drm_root_client(&d, 1001, 9, CARD, 3, "vram", "100 KiB"));
	/* No region of the card's own memory; a card that is not ours. */
	ASSERT(drm_root_client(&d, 40, 4, CARD, 8, "gtt", "10 KiB") &&
	       drm_root_client(&d, 41, 4, "0000:00:02.0", 1, "vram", "10 KiB"));
	/* Files that are no card, whatever their text says. */
	ASSERT(drm_root_link(&d, "/dev/driver", "proc/42/fd/3") && drm_root_link(&d, "/dev/dri", "proc/42/fd/4") &&
	       drm_root_text(&d, "drm-driver:\tamdgpu\ndrm-pdev:\t" CARD "\ndrm-memory-vram:\t1\n",
			     "proc/42/fdinfo/3"));
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0);
	EXPECT_EQ(s.process_count, 3);
	EXPECT_EQ(process_of(&s, 300, 0)->used_bytes, 13 * KIB);
	EXPECT_EQ(process_of(&s, 300, 1)->used_bytes, 5 * KIB);
	EXPECT_EQ(process_of(&s, 1001, 0)->used_bytes, 100 * KIB);
	EXPECT(s.is_complete);
	EXPECT_EQ(s.left_out_count, 0);
}

/* Kernels that do not number their clients: all of a process is one, the largest counts. */
TEST(clients_without_a_number)
{
	static const char text[] = "drm-driver:\tamdgpu\ndrm-pdev:\t" CARD "\ndrm-memory-vram:\t%d KiB\n";
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	char buf[256];

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu"));
	for (unsigned int i = 0; i < 6; i++) {
		(void)snprintf(buf, sizeof(buf), text, (int)(i * i + 1));
		ASSERT(drm_root_link(&d, "/dev/dri/card0", "proc/%u/fd/%u", 50 + i % 2, i) &&
		       drm_root_text(&d, buf, "proc/%u/fdinfo/%u", 50 + i % 2, i));
	}
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0);
	EXPECT_EQ(s.process_count, 2);
	EXPECT_EQ(process_of(&s, 50, 0)->used_bytes, 17 * KIB);
	EXPECT_EQ(process_of(&s, 51, 0)->used_bytes, 26 * KIB);
}

TEST(kfd)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu") &&
	       drm_root_card(&d, "card1", OTHER_CARD, "amdgpu"));
#define NODES "sys/class/kfd/kfd/topology/nodes/"
	ASSERT(drm_root_text(&d, "0\n", NODES "0/gpu_id") &&
	       drm_root_text(&d, "cpu_cores_count 64\n", NODES "0/properties") &&
	       drm_root_text(&d, "111\n", NODES "1/gpu_id") &&
	       drm_root_text(&d, "location_id 768\ndomain 0\n", NODES "1/properties"));
	/* A card in two parts. */
	ASSERT(drm_root_text(&d, "222\n", NODES "2/gpu_id") &&
	       drm_root_text(&d, "location_id 17152\ndomain 0\n", NODES "2/properties") &&
	       drm_root_text(&d, "333\n", NODES "3/gpu_id") &&
	       drm_root_text(&d, "location_id 268452608\ndomain 0\n", NODES "3/properties"));
#define PROC "sys/class/kfd/kfd/proc/"
	ASSERT(drm_root_text(&d, "20480\n", PROC "60/vram_111") && drm_root_text(&d, "1000\n", PROC "60/vram_222") &&
	       drm_root_text(&d, "2000\n", PROC "60/vram_333") && drm_root_text(&d, "1\n", PROC "60/vram_999") &&
	       drm_root_text(&d, "5\n", PROC "61/vram_111") && drm_root_text(&d, "many\n", PROC "62/vram_111"));
	ASSERT(drm_root_client(&d, 60, 4, CARD, 1, "vram", "10 KiB") &&
	       drm_root_client(&d, 61, 4, CARD, 2, "vram", "10 KiB"));
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0);
	EXPECT_EQ(s.process_count, 3);
	EXPECT_EQ(process_of(&s, 60, 0)->used_bytes, 20480);
	EXPECT_EQ(process_of(&s, 60, 0)->kinds, GPU_PROCESS_COMPUTE);
	EXPECT_EQ(process_of(&s, 60, 1)->used_bytes, 3000);
	EXPECT_EQ(process_of(&s, 61, 0)->used_bytes, 10 * KIB);
}

/* A process with more descriptors than are looked at is told of. */
TEST(limits)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu"));
	for (unsigned int i = 0; i < 4097; i++)
		ASSERT(drm_root_link(&d, "/dev/null", "proc/70/fd/%u", i));
	ASSERT(drm_root_client(&d, 71, 4, CARD, 1, "vram", "10 KiB"));
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0);
	EXPECT_EQ(s.left_out_count, 1);
	EXPECT(!s.is_complete);
	EXPECT_EQ(process_of(&s, 71, 0)->used_bytes, 10 * KIB);
}

TEST_MAIN()
