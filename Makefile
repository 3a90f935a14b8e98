# gpuxray: build with GNU make. `make V=1` shows commands, `make WERROR=1` makes warnings errors, `make SAN=1` builds with
# ASan and UBSan into its own folder, `make STATIC="bpf config elf"` links those libraries statically. `make ARCH=arm64` (or x86)
# builds for the other machine: with its gcc, or CC=clang, against what tests/arm64/make-sysroot unpacks, or SYSROOT.
PREFIX ?= /usr/local
DESTDIR ?=
CLANG ?= clang
# As libbpf names machines; what the host is, and what is built for.
arch_of = $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(1)))
HOST_ARCH := $(call arch_of,$(shell uname -m))
ARCH ?= $(HOST_ARCH)
override ARCH := $(call arch_of,$(ARCH))
MACHINE := $(patsubst arm64,aarch64,$(patsubst x86,x86_64,$(ARCH)))
CROSS := $(filter-out $(HOST_ARCH),$(ARCH))
CC ?= gcc
ifneq ($(CROSS),)
ifeq ($(origin CC),default)
CC := $(MACHINE)-linux-gnu-gcc
endif
endif
SYSROOT ?= $(if $(CROSS),$(CURDIR)/.build/$(ARCH)/sysroot)
# What each compile and link of the other machine's needs.
TARGET := $(if $(CROSS),$(if $(filter clang%,$(notdir $(CC))),--target=$(MACHINE)-linux-gnu)) $(if $(SYSROOT),--sysroot=$(SYSROOT))
# Ubuntu's /usr/sbin/bpftool only works for the kernel that runs; the tool itself lies in linux-tools.
BPFTOOL ?= $(firstword $(wildcard /usr/lib/linux-tools/*/bpftool /usr/sbin/bpftool) bpftool)
# The one that is being worked on. --version says just that at the tag v$(VERSION), elsewhere the commit as well.
VERSION := 0.1.0
FULL_VERSION := $(or $(shell contrib/dist/version $(VERSION)),$(VERSION))

O ?= .build$(if $(CROSS),/$(ARCH))$(if $(SAN),/san)$(if $(filter clang%,$(notdir $(CC))),/clang)

# Reading files of others with privileges asks for it. (For arm64 clang 14 has no -fstack-clash-protection.) CFLAGS and LDFLAGS of a distribution take its place.
HARDEN := -fPIE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong $(if $(filter arm64,$(ARCH)),$(if $(filter clang%,$(notdir $(CC))),,-fstack-clash-protection),-fstack-clash-protection)
CFLAGS ?= -O2 -g $(if $(SAN),,$(HARDEN))
WARN := -Wall -Wextra -Wformat=2 -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DGPUXRAY_VERSION='"$(FULL_VERSION)"' -Isrc -I. -I$(O)
ALL_CFLAGS = $(TARGET) -std=gnu11 $(WARN) $(if $(WERROR),-Werror) $(CFLAGS) -ffile-prefix-map=$(CURDIR)=. -fno-omit-frame-pointer -pthread \
	$(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined)
comma := ,

LDFLAGS ?= $(if $(SAN),,-pie -Wl,-z,relro,-z,now)
# What comes from an archive is not there for shared libraries, which have their own of it.
LDFLAGS += -Wl,--as-needed $(if $(STATIC),-Wl$(comma)--exclude-libs$(comma)ALL)
static_or = $(if $(filter $(1),$(STATIC)),-l:lib$(1).a,-l$(1))
# zstd is what a libelf.a may need.
LIBS := $(foreach l,bpf config elf,$(call static_or,$l)) $(if $(filter zstd,$(STATIC)),-l:libzstd.a) -lz -lsystemd \
	$(foreach l,pcre2-8 lzma ncursesw tinfo,$(call static_or,$l)) -ldl -lm

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

SRCS := $(filter-out src/main.c,$(wildcard src/*/*.c))
OBJS := $(SRCS:%.c=$(O)/%.o)
LIB := $(O)/libgpuxray.a
BIN := $(O)/gpuxray
SKEL := $(O)/gpuxray.skel.h
# These take their own registers, as a probe would, and are written for x86-64.
UNIT_X86 := $(patsubst %,tests/unit/test_%.c,unwind unwind_process resolver resolver_process)
UNIT := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(filter-out $(if $(filter-out x86,$(ARCH)),$(UNIT_X86)),\
	$(wildcard tests/unit/test_*.c)))

all: $(BIN)
	$(Q)[ "$(O)" != .build ] || ln -sf .build/gpuxray gpuxray

$(O)/bpf/gpuxray.bpf.o: bpf/gpuxray.bpf.c $(wildcard bpf/*.h)
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -g -O2 -mcpu=v3 -target bpf -ffile-prefix-map=$(CURDIR)=. -D__BPF__ -D__TARGET_ARCH_$(ARCH) -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Ibpf $(if $(SYSROOT),--sysroot=$(SYSROOT)) -I$(SYSROOT)/usr/include/$(MACHINE)-linux-gnu -c $< -o $@

# Without DWARF, which nobody reads there: half of the object.
$(SKEL): $(O)/bpf/gpuxray.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen object $(<:.o=.bare.o) $<
	$(Q)$(BPFTOOL) gen skeleton $(<:.o=.bare.o) name gpuxray_bpf > $@.tmp && mv $@.tmp $@

# Only src/trace sees the skeleton.
$(filter $(O)/src/trace/%,$(OBJS)): $(SKEL)

# The page of reports, in one file and as bytes for render_html.c. The scripts stand in it in this order.
PAGE := src/history/page
PAGE_JS := $(addprefix $(PAGE)/,format.js data.js look.js gesture.js plot.js marks.js devices.js overview.js table.js incidents.js \
	failures.js processes.js flame.js main.js)
PAGE_H := $(O)/report_page.h

$(O)/page.html: $(PAGE)/assemble $(PAGE)/page.html $(PAGE)/page.css $(PAGE_JS) $(PAGE)/squeeze.awk
	$(call say,PAGE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$< $@ $(filter %.html %.css %.js,$^)

$(PAGE_H): $(O)/page.html
	$(Q){ echo 'static const unsigned char report_page[] = {'; od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; echo '};'; } > $@

$(O)/src/history/render_html.o: $(PAGE_H)

$(O)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Written only when it has changed: what names the version is then compiled again.
$(O)/version: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(FULL_VERSION)' | cmp -s - $@ || echo '$(FULL_VERSION)' > $@

$(patsubst %.c,$(O)/%.o,$(shell grep -l GPUXRAY_VERSION src/main.c src/*/*.c)): $(O)/version

$(LIB): $(OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BIN): $(O)/src/main.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

$(O)/tests/unit/%: tests/unit/%.c $(LIB) tests/unit/test.h
	$(call say,TEST,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(ALL_CFLAGS) -MMD -MP $< $(LIB) $(LDFLAGS) $(LIBS) -o $@

# The stand-in driver: real symbol names and return codes, no GPU. Always with frame pointers and without merging of equal
# functions, so that its stacks and symbols are what a test can name.
FAKE := $(O)/fake_gpu
FAKE_CFLAGS := $(TARGET) -std=gnu11 $(WARN) $(if $(WERROR),-Werror) -O2 -g -D_GNU_SOURCE -fno-omit-frame-pointer \
	-fno-optimize-sibling-calls $(if $(filter clang%,$(notdir $(CC))),,-fno-ipa-icf) -pthread
FAKE_HDRS := $(wildcard tests/fake_gpu/*.h)
FAKE_BINS := $(patsubst tests/fake_gpu/%.c,$(FAKE)/%,$(wildcard tests/fake_gpu/work_*.c))

FAKE_LIBS := $(addprefix $(FAKE)/,libcuda.so.1 libnvidia-ml.so.1 libcudart.so libamdhip64.so.6 libze_loader.so.1 libc10_cuda.so)
# What a library or a workload calls of the others; workloads call the driver unless said otherwise.
FAKE_USES = -l:libcuda.so.1
$(FAKE)/work_hip: FAKE_USES := -l:libamdhip64.so.6
$(FAKE)/work_hip: $(FAKE)/libamdhip64.so.6
$(FAKE)/work_ze: FAKE_USES := -l:libze_loader.so.1
$(FAKE)/work_ze: $(FAKE)/libze_loader.so.1

$(FAKE)/libcuda.so.1: tests/fake_gpu/libcuda.c $(wildcard tests/fake_gpu/libcuda_*.c) tests/fake_gpu/state.c
$(FAKE)/libnvidia-ml.so.1: tests/fake_gpu/libnvidia-ml.c tests/fake_gpu/state.c
$(FAKE)/libcudart.so: tests/fake_gpu/libcudart.c
$(FAKE)/libamdhip64.so.6: $(wildcard tests/fake_gpu/libamdhip64*.c) tests/fake_gpu/state.c
$(FAKE)/libze_loader.so.1: tests/fake_gpu/libze_loader.c tests/fake_gpu/state.c
$(FAKE)/libc10_cuda.so: tests/fake_gpu/libc10_cuda.c $(FAKE)/libcuda.so.1
$(FAKE_LIBS): $(FAKE_HDRS)
	$(call say,FAKE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_CFLAGS) -shared -fPIC -fvisibility=hidden $(filter %.c,$^) -L$(FAKE) \
		$(patsubst $(FAKE)/%,-l:%,$(filter $(FAKE)/%,$^)) -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -ldl -o $@

$(FAKE)/work_random: $(wildcard tests/fake_gpu/random_*.c)
$(FAKE)/work_%: tests/fake_gpu/work_%.c tests/fake_gpu/common.c $(FAKE_HDRS) $(FAKE)/libcuda.so.1
	$(call say,FAKE,$@)
	$(Q)$(CC) $(FAKE_CFLAGS) $(filter %.c,$^) -L$(FAKE) -Wl,--as-needed $(FAKE_USES) -Wl,-rpath,'$$ORIGIN' -ldl -o $@

# The same without frame pointers, as most programs are.
$(FAKE)/work_rate_nofp: tests/fake_gpu/work_rate.c tests/fake_gpu/common.c $(FAKE_HDRS) $(FAKE)/libcuda.so.1
	$(call say,FAKE,$@)
	$(Q)$(CC) $(FAKE_CFLAGS) -fomit-frame-pointer $(filter %.c,$^) -L$(FAKE) -Wl,--as-needed -l:libcuda.so.1 \
		-Wl,-rpath,'$$ORIGIN' -ldl -o $@

fake: $(FAKE_LIBS) $(FAKE_BINS) $(FAKE)/work_rate_nofp

# Fuzzers: with libFuzzer by hand (`make fuzz F=ruleset T=60`), their seeds under ASan in every check.
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SEEDED := $(FUZZ:%=$(O)/tests/fuzz/%)

$(O)/tests/fuzz/%: tests/fuzz/%.c tests/fuzz/main.c $(LIB)
	$(call say,FUZZ,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(filter %.c,$^) $(LIB) $(LDFLAGS) $(LIBS) -o $@

.build/libfuzzer/%: tests/fuzz/%.c $(SKEL) .build/report_page.h
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) -I.build -std=gnu11 -O1 -g -fsanitize=fuzzer,address,undefined -pthread $< $(SRCS) $(LIBS) -o $@

fuzz: .build/libfuzzer/fuzz_$(F)
	$(Q)mkdir -p .build/corpus/$(F)
	.build/libfuzzer/fuzz_$(F) -max_total_time=$(or $(T),60) .build/corpus/$(F) $(wildcard tests/fuzz/seeds/$(F))

unit: $(UNIT)
seeded: $(FUZZ_SEEDED)

# Everything: gcc and clang with -Werror, unit tests and fuzzer seeds under ASan and UBSan, end to end.
check:
	$(Q)tests/run

demo: all fake
	$(Q)tests/demo

$(O)/tests/bench/%: tests/bench/%.c
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $< -lsystemd -o $@

$(O)/tests/bench/rules: tests/bench/rules.c $(LIB)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $^ $(LDFLAGS) $(LIBS) -o $@

# Debian 12 under emulation: systemd as PID 1, its kernel and that of its backports. Needs `tests/install-packages vm`.
check-vm: all fake
	$(Q)tests/vm/run

# The same for 64-bit Arm, cross built: unit tests under emulation of a processor, and a machine with Debian's kernel where
# the daemon runs. Needs `tests/install-packages arm64`.
check-arm64:
	$(Q)tests/arm64/run

# An hour of mixed work without and one with ASan, side by side: nothing may grow. SOAK_SECONDS says how long (1500 or more).
soak: all fake
	$(Q)$(MAKE) SAN=1 CFLAGS="-O1 -g" all
	$(Q)GPUXRAY_SAN=$(CURDIR)/.build/san/gpuxray tests/e2e/run tests/soak/test_soak.py

# What takes longer, too. Needs `tests/install-packages` with package, vm and arm64.
check-all: check
	$(Q)$(MAKE) lint
	$(Q)tests/package/run slow
	$(Q)$(MAKE) check-vm
	$(Q)$(MAKE) check-arm64
	$(Q)$(MAKE) soak SOAK_SECONDS=1500

# Static checks of the tree, all of them. LINT=quick leaves the slow half of clang-tidy out, as tests/run does.
lint: $(SKEL) $(PAGE_H)
	$(Q)LINT='$(LINT)' O='$(O)' tests/lint/run

# What gpuxray is compared with. Without libunwind one of them is missing, and its row says so.
PKG_CONFIG ?= pkg-config
BENCH_LIBS := $(addprefix $(O)/tests/bench/,preload.so malloc_shim.so $(shell $(PKG_CONFIG) --exists libunwind && echo preload_unwind.so))

$(O)/tests/bench/preload_unwind.so: BENCH_USES = -DWITH_LIBUNWIND $(shell $(PKG_CONFIG) --cflags --libs libunwind)
$(O)/tests/bench/preload_unwind.so: tests/bench/preload.c
$(O)/tests/bench/preload.so: tests/bench/preload.c
$(O)/tests/bench/malloc_shim.so: tests/bench/malloc_shim.c
$(BENCH_LIBS):
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(if $(WERROR),-Werror) -O2 -g -fno-builtin -fno-omit-frame-pointer -pthread \
		-shared -fPIC $< $(BENCH_USES) -ldl -o $@

# BENCH=full: beside others and at scale, 15 minutes, renews contrib/doc/bench.md. BENCH=quick: the same in 3 minutes, fewer
# rounds and points, no page. BENCH=own: the figures of the README. Needs `tests/install-packages bench`.
BENCH ?= full
BENCH_full := --page contrib/doc compare scale
BENCH_quick := --quick compare scale
BENCH_own := pair stacks daemon latency memory limits rules

bench: all fake $(O)/tests/bench/journal_tail $(O)/tests/bench/rules $(BENCH_LIBS)
	$(Q)tests/bench/run $(or $(BENCH_$(BENCH)),$(error BENCH is full, quick or own))

# How good the leak rules are: generated programs and recordings of real ones, through the shipped rules.
LEAK := $(patsubst tests/leak/%.c,$(O)/tests/leak/%.o,$(wildcard tests/leak/*.c))
$(LEAK): CPPFLAGS += -Itests/leak
$(O)/leakbench: $(LEAK) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

leakbench: $(O)/leakbench
	$(O)/leakbench --floor tests/leak/floor.txt $(LEAKBENCH)

UNITDIR ?= $(PREFIX)/lib/systemd/system
CATALOGDIR ?= $(PREFIX)/lib/systemd/catalog
RULESDIR ?= /usr/lib/gpuxray/rules.d
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
DOCDIR ?= $(PREFIX)/share/doc/gpuxray
# For eyes and for other programs; below DOCDIR by the paths that the texts name.
DOCS := README.md LICENSE contrib/CHANGELOG.md $(wildcard contrib/doc/* contrib/systemd/*.conf \
	$(patsubst %,contrib/%/*,alertmanager alloy fluent-bit grafana journal-remote kubernetes loki mtail prometheus rsyslog \
	syslog-ng vector))

install: all
	install -Dm755 $(BIN) $(DESTDIR)$(PREFIX)/bin/gpuxray
	install -d $(DESTDIR)$(RULESDIR) $(DESTDIR)/etc/gpuxray/rules.d
	install -m644 rules/*.conf $(DESTDIR)$(RULESDIR)/
	[ -e $(DESTDIR)/etc/gpuxray/gpuxray.conf ] || install -Dm644 contrib/gpuxray.conf $(DESTDIR)/etc/gpuxray/gpuxray.conf
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(CATALOGDIR)
	sed 's|/usr/bin/gpuxray|$(PREFIX)/bin/gpuxray|' contrib/systemd/gpuxray.service > $(DESTDIR)$(UNITDIR)/gpuxray.service
	chmod 644 $(DESTDIR)$(UNITDIR)/gpuxray.service
	for n in 1 5 8; do install -d $(DESTDIR)$(MANDIR)/man$$n && install -m644 contrib/man/*.$$n $(DESTDIR)$(MANDIR)/man$$n/ || exit; done
	install -Dm644 contrib/completion/gpuxray.bash $(DESTDIR)$(BASHDIR)/gpuxray
	install -Dm644 contrib/completion/_gpuxray $(DESTDIR)$(ZSHDIR)/_gpuxray
	install -Dm644 contrib/completion/gpuxray.fish $(DESTDIR)$(FISHDIR)/gpuxray.fish
	install -m644 contrib/systemd/gpuxray.catalog $(DESTDIR)$(CATALOGDIR)/gpuxray.catalog
	for f in network-syslog metrics; do install -Dm644 contrib/systemd/gpuxray-$$f.conf \
		$(DESTDIR)$(PREFIX)/share/gpuxray/$$f.conf || exit; done
	for f in $(DOCS); do install -Dm644 $$f $(DESTDIR)$(DOCDIR)/$$f || exit; done
	[ -n "$(DESTDIR)" ] || { journalctl --update-catalog; systemctl daemon-reload; } 2>/dev/null || true

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/gpuxray $(DESTDIR)$(UNITDIR)/gpuxray.service $(DESTDIR)$(CATALOGDIR)/gpuxray.catalog
	rm -rf $(DESTDIR)$(PREFIX)/share/gpuxray $(DESTDIR)$(DOCDIR)
	for f in contrib/man/*; do rm -f $(DESTDIR)$(MANDIR)/man$${f##*.}/$${f##*/}; done
	rm -f $(DESTDIR)$(BASHDIR)/gpuxray $(DESTDIR)$(ZSHDIR)/_gpuxray $(DESTDIR)$(FISHDIR)/gpuxray.fish
	for f in rules/*.conf; do rm -f $(DESTDIR)$(RULESDIR)/$$(basename $$f); done
	-rmdir $(DESTDIR)$(RULESDIR) $(DESTDIR)/usr/lib/gpuxray 2>/dev/null

# Source and binary archives in .build/dist, a Debian package in .build/deb. distcheck builds what the source archive has.
dist: all
	$(Q)contrib/dist/source $(VERSION)
	$(Q)contrib/dist/binary $(VERSION)

distcheck:
	$(Q)contrib/dist/check $(VERSION)

deb:
	$(Q)contrib/dist/deb $(VERSION)

clean:
	rm -rf .build gpuxray

.PHONY: FORCE all check-vm lint soak check-arm64 check-all dist distcheck deb fake unit seeded fuzz check demo bench leakbench install uninstall clean
.DELETE_ON_ERROR:
-include $(OBJS:.o=.d) $(O)/src/main.d $(UNIT:=.d) $(LEAK:.o=.d)
