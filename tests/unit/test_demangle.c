/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "stack/demangle.h"
#include "test.h"

static void expect(const char *name, size_t max, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, "before ");
	demangle(&sb, name, max);
	EXPECT(strncmp(strbuf_str(&sb), "before ", 7) == 0);
	EXPECT_STR(strbuf_str(&sb) + 7, want);
}

TEST(names)
{
	expect("", 100, "");
	expect("cuMemAlloc_v2", 100, "cuMemAlloc_v2");
	expect("_ZN2at6native5emptyEN3c108ArrayRefIlEENS1_8optionalINS1_10ScalarTypeEEE", 100, "at::native::empty");
	expect("_ZSt4sortIPiEvT_S1_", 100, "std::sort<int*>");
	expect("_ZZ4mainENKUlvE_clEv", 100, "main::{lambda()#1}::operator()");
	expect("_ZN3foo3barIiEEvT_.constprop.0", 100, "foo::bar<int>");
	expect("_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJRKiEEEvN9__gnu_cxx17__normal_iteratorIPiS1_EEDpOT_", 200,
	       "std::vector<int, std::allocator<int>>::_M_realloc_insert<int const&>");
	expect("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2EOS4_", 200,
	       "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>::basic_string");
	expect("_ZN12_GLOBAL__N_13fooD0Ev", 100, "(anonymous namespace)::foo::~foo");
	expect("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", 100, "std::operator<< <std::char_traits<char>>");
	expect("_ZN1AcvbEv", 100, "A::operator bool");
	expect("_ZThn16_N3foo3barEv", 100, "non-virtual thunk to foo::bar");
	expect("_ZN3fooIFvPKciEE3runEv", 100, "foo<void (char const*, int)>::run");
	expect("_ZN3fooIPFvPKciEE3runEv", 100, "foo<void (*)(char const*, int)>::run");
	expect("_ZN3fooIM3barKFiiERA3_A4_KcE3runEv", 100, "foo<int (bar::*)(int) const, char const (&)[3][4]>::run");
	expect("_ZN3fooIM3bariLb1ELin3ELm7EL_Z3bazvEE3runEv", 100, "foo<int bar::*, true, -3, 7ul, baz>::run");
	expect("_ZN3fooIXadL_ZN2at3addERKiS2_EEE3runEv", 100, "foo<&at::add>::run");
	expect("_ZN3fooIXplT_Li1EEE3runEv", 100, "foo<...>::run");
	expect("_ZN3fooIJEJidEE3runEv", 100, "foo<int, double>::run");
	expect("_ZZN2at6nativeL3addIfEEvT_DTcl1gfp_EEENKUlT_iE0_clIdEEDaS1_i", 100,
	       "at::native::add<float>::{lambda(auto:1, int)#2}::operator()<double>");
	expect("_ZZ4mainE1x_0", 100, "main::x");
	expect("_ZGVZ4mainE1x", 100, "_ZGVZ4mainE1x"); /* no function */
	expect("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", 100, "core::fmt::Formatter::pad");
	expect("_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE", 100,
	       "core::ptr::drop_in_place<alloc::string::String>");
	expect("_ZN29_$LT$a..B$u20$as$u20$c..D$GT$2go28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", 100,
	       "<a::B as c::D>::go::{{closure}}");
	expect("_RNvMs_NtCs1234_7mycrate3fooNtB4_3Foo3bar", 100, "<mycrate::foo::Foo>::bar");
	expect("_RINvCs2OpA4fNwd7R_1r3genFG_RL0_eERL0_eEB2_", 100, "r::gen::<fn(&str) -> &str>");
	expect("_RINvCs2OpA4fNwd7R_1r4flagKb1_Kcdf_Kan5_EB2_", 100, "r::flag::<true, 0xdf, -5>");
	expect("_RINvNtCs2OpA4fNwd7R_1ru9gre_6ka8iu9wrter_juaTlReEEB4_", 100,
	       "r::punycode{gre_6ka8i}::punycode{wrter_jua}::<(i32, &str)>");
	expect("_RINvNtCsgEmfK2I1SDS_4core3mem11size_of_valRDINtNtNtB4_3ops8function2FnThEEp6OutputuEL_ECs2OpA4fNwd7R_1r", 200,
	       "core::mem::size_of_val::<&dyn core::ops::function::Fn<(u8,), Output = ()>>");
	expect("_RINvC1a3genAlj2_SdPxOFUKCyEzQDNtC1b1TEL_E", 100,
	       "a::gen::<[i32; 2], [f64], *const i64, *mut unsafe extern \"C\" fn(u64) -> !, &mut dyn b::T>");
	expect("_RNCNvC1a4mains_0.llvm.123", 100, "a::main::{closure#1}");
	expect("_RNSNvC1a4main4vtbl", 100, "a::main::{shim:vtbl#0}");
	expect("_RNvXCa", 100, "_RNvXCa");
	expect("malloc@@GLIBC_2.2.5", 100, "malloc");
	expect("memcpy@GLIBC_2.2.5", 100, "memcpy");
	expect("@odd", 100, "@odd");
	/* Not mangled after all: as it is. */
	expect("_Z", 100, "_Z");
	expect("_ZN", 100, "_ZN");
	expect("_RMC0R", 100, "_RMC0R");
	expect("_Zebra\n\xff", 100, "_Zebra\n\xff");
	expect("_GLOBAL__sub_I_x", 100, "_GLOBAL__sub_I_x");
}

TEST(long_names_are_cut)
{
	char name[8192];

	expect("0123456789", 10, "0123456789");
	expect("0123456789", 9, "012345678...");
	expect("_ZN2at6native5emptyEv", 17, "at::native::empty");
	expect("_ZN2at6native5emptyEv", 5, "at::n...");
	expect("_RNvMs_NtCs1234_7mycrate3fooNtB4_3Foo3bar", 10, "<mycrate::...");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	expect(name, 3, "xxx...");
	memcpy(name, "_Z", 2);
	expect(name, 3, "_Zx...");
}

/* Digits of 36 in C++ and 62 in Rust. */
static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* f<a<int, int>, pair of that twice, pair of that twice, ...> */
static void add_cpp_pairs(struct strbuf *sb, unsigned depth)
{
	strbuf_adds(sb, "_Z1fI1aIiiE");
	for (unsigned i = 1; i <= depth; i++) {
		const char c = i < 10 ? digits[i] : (char)('A' + i - 10);

		strbuf_addf(sb, "S0_IS%c_S%c_E", c, c);
	}
	strbuf_adds(sb, "Evv");
}

/* ((((T, T), again), again), ...): each "again" points back to the tuple before. */
static void add_rust_pairs(struct strbuf *sb, unsigned depth)
{
	strbuf_adds(sb, "_RMC0");
	for (unsigned i = 0; i < depth; i++)
		strbuf_addc(sb, 'T');
	strbuf_addc(sb, 'j');
	for (unsigned i = depth; i > 0; i--)
		strbuf_addf(sb, "B%c_E", digits[i + 2]);
}

/* Short names that stand for endless ones must not take endless time or memory. */
TEST(names_that_explode)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, out = STRBUF_INIT;
	const uint64_t start = clock_monotonic_ns();

	/* That these are what they seem to be shows while they are small. */
	add_cpp_pairs(&name, 2);
	expect(strbuf_str(&name), 512,
	       "f<a<int, int>, a<a<int, int>, a<int, int>>, a<a<a<int, int>, a<int, int>>, a<a<int, int>, a<int, int>>>>");
	strbuf_reset(&name);
	add_rust_pairs(&name, 2);
	expect(strbuf_str(&name), 512, "<((usize, usize), (usize, usize))>");

	for (unsigned depth = 8; depth <= 35; depth += 27) {
		strbuf_reset(&name);
		strbuf_reset(&out);
		add_cpp_pairs(&name, depth);
		demangle(&out, strbuf_str(&name), 512);
		EXPECT_EQ(out.len, 515);
		EXPECT(strncmp(strbuf_str(&out), "f<a<int, int>, a<a<int, int>", 28) == 0);
		strbuf_reset(&name);
		strbuf_reset(&out);
		add_rust_pairs(&name, depth);
		demangle(&out, strbuf_str(&name), 512);
		EXPECT_EQ(out.len, 515);
		EXPECT(strncmp(strbuf_str(&out), "<((((((((", 9) == 0);
	}

	/* A pack that is looked for in 2^30 leaves; conversions that are tried twice at each of 30 levels. */
	strbuf_reset(&name);
	strbuf_adds(&name, "_Z1fIM1wI1aIiiE");
	for (unsigned i = 2; i <= 30; i++) {
		const char c = i < 10 ? digits[i] : (char)('A' + i - 10);

		strbuf_addf(&name, "S1_IS%c_S%c_E", c, c);
	}
	strbuf_adds(&name, "EDpSV_Evv");
	strbuf_reset(&out);
	demangle(&out, strbuf_str(&name), 512);
	EXPECT_EQ(out.len, 515);
	EXPECT(strncmp(strbuf_str(&out), "f<", 2) == 0);
	strbuf_reset(&name);
	strbuf_adds(&name, "_Z");
	for (unsigned i = 0; i < 30; i++)
		strbuf_adds(&name, "cvT_IL_Z");
	strbuf_adds(&name, "1fE");
	for (unsigned i = 0; i < 30; i++)
		strbuf_adds(&name, "EE");
	strbuf_reset(&out);
	demangle(&out, strbuf_str(&name), 512);
	EXPECT(out.len <= 515);

	/* A binder over 2^60 lifetimes. */
	expect("_RMXC0FtFFGFFFFFFFFFFFB3_", 512, "_RMXC0FtFFGFFFFFFFFFFFB3_");
	expect("_RINvC1a1bFGFFFFFFFFFFFEuE", 512, "_RINvC1a1bFGFFFFFFFFFFFEuE");

	strbuf_reset(&name);
	strbuf_adds(&name, "_Z1fI");
	for (unsigned i = 0; i < 100000; i++)
		strbuf_adds(&name, "1aI");
	strbuf_reset(&out);
	demangle(&out, strbuf_str(&name), 512);
	EXPECT_EQ(out.len, 515);
	EXPECT(strncmp(strbuf_str(&out), "_Z1fI1aI", 8) == 0);
	EXPECT(clock_monotonic_ns() - start < 5 * NSEC_PER_SEC);
}

static void expect_signature(const char *name, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	EXPECT_EQ(demangle_signature(&sb, name, 512), want != NULL);
	EXPECT_STR(strbuf_str(&sb), want ? want : "");
}

TEST(signatures)
{
	expect_signature("_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator6mallocEPPvamP11CUstream_st",
			 "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, "
			 "unsigned long, CUstream_st*)");
	expect_signature("_ZN3c104cuda20CUDACachingAllocator6NativeL16local_raw_deleteEPv",
			 "c10::cuda::CUDACachingAllocator::Native::local_raw_delete(void*)");
	expect_signature("_ZN3c104cuda20CUDACachingAllocator15CudaMallocAsync12_GLOBAL__N_111mallocAsyncEPPvamP11CUstream_st",
			 "c10::cuda::CUDACachingAllocator::CudaMallocAsync::(anonymous namespace)::mallocAsync(void**, signed "
			 "char, unsigned long, CUstream_st*)");
	expect_signature("_ZNK1a1fEv", "a::f() const");
	expect_signature("_ZNK1a1fERKS_S1_", "a::f(a const&, a const&) const");
	expect_signature("_Z3fooIiEvT_i", "foo<int>(T, int)");
	expect_signature("_ZN1agtERKS_", "a::operator>(a const&)");
	expect_signature("_Z1fi@@V_1.0", "f(int)");
	/* No function, no C++ name, a clone that takes other arguments, one that ends too early, too long. */
	expect_signature("_ZN1a1bE", NULL);
	expect_signature("_ZTV1a", NULL);
	expect_signature("cuMemAlloc_v2", NULL);
	expect_signature("_Z1fi.part.0", NULL);
	expect_signature("_Z1fP", NULL);
	expect_signature("_Z1fiX", NULL);
}

TEST(signature_longer_than_wanted)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	EXPECT(!demangle_signature(&sb, "_Z4longi", 8));
	EXPECT(demangle_signature(&sb, "_Z4longi", 9));
	EXPECT_STR(strbuf_str(&sb), "long(int)");
}

TEST_MAIN()
