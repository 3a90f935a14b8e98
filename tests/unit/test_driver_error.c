/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "record/driver_error.h"

TEST(each_driver_has_its_own_names)
{
	EXPECT_STR(driver_error_name("cuMemAlloc_v2", 2), "CUDA_ERROR_OUT_OF_MEMORY");
	EXPECT_STR(driver_error_name("hipMalloc", 2), "hipErrorOutOfMemory");
	EXPECT_STR(driver_error_name("zeMemAllocDevice", 0x70000003), "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY");
	EXPECT_STR(driver_error_name("zeMemAllocHost", 0x70000002), "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY");
	EXPECT_STR(driver_error_name("hipHostUnregister", 713), "hipErrorHostMemoryNotRegistered");
	EXPECT_STR(driver_error_name("hipMalloc", 1053), "hipErrorRuntimeOther");
}

TEST(without_a_function_it_is_cuda)
{
	EXPECT_STR(driver_error_name(NULL, 2), "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST(what_no_driver_says_has_no_name)
{
	EXPECT(!driver_error_name("cuMemAlloc_v2", 0x70000003));
	EXPECT(!driver_error_name("zeMemAllocDevice", 2));
	EXPECT(!driver_error_name("hipMalloc", 0));
	EXPECT(!driver_error_name("hipMalloc", -1));
}

/* Of a framework: its codes are not the driver's. */
TEST(other_functions_have_no_names)
{
	static const char *const others[] = {
		"cupy_alloc", "cu", "hipster", "zebra", "ze", "malloc", "", "_Z5cuMem", "xhipMalloc", "hip2alloc", "cu9",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		EXPECT(!driver_error_name(others[i], 1));
		EXPECT(!driver_error_name(others[i], 2));
	}
}

TEST_MAIN()
