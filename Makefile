# gpuxray: build with GNU make. `make V=1` shows commands, `make WERROR=1` makes warnings errors, `make SAN=1` builds with
# ASan and UBSan into its own folder, `make STATIC="bpf config"` links those libraries statically.
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= gcc
CLANG ?= clang
# Ubuntu's /usr/sbin/bpftool only works for the kernel that runs; the tool itself lies in linux-tools.
BPFTOOL ?= $(firstword $(wildcard /usr/lib/linux-tools/*/bpftool /usr/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
VERSION := 0.1.0

O ?= .build$(if $(SAN),/san)$(if $(filter clang%,$(notdir $(CC))),/clang)
ARCH := $(shell uname -m | sed 's/x86_64/x86/;s/aarch64/arm64/')

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wformat=2 -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DGPUXRAY_VERSION='"$(VERSION)"' -DPREFIX='"$(PREFIX)"' -Isrc -I. -I$(O)
ALL_CFLAGS = -std=gnu11 $(WARN) $(if $(WERROR),-Werror) $(CFLAGS) -fno-omit-frame-pointer -pthread \
	$(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined)
comma := ,

LDFLAGS += -Wl,--as-needed
static_or = $(if $(filter $(1),$(STATIC)),-l:lib$(1).a,-l$(1))
LIBS := $(call static_or,bpf) $(call static_or,config) -lelf -lz -lsystemd -lpcre2-8 -llzma -ldl -lm

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

SRCS := $(filter-out src/main.c,$(wildcard src/*/*.c))
OBJS := $(SRCS:%.c=$(O)/%.o)
LIB := $(O)/libgpuxray.a
BIN := $(O)/gpuxray
SKEL := $(O)/gpuxray.skel.h
UNIT := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(wildcard tests/unit/test_*.c))

all: $(BIN)
	$(Q)[ "$(O)" != .build ] || ln -sf .build/gpuxray gpuxray

$(O)/bpf/gpuxray.bpf.o: bpf/gpuxray.bpf.c $(wildcard bpf/*.h)
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -g -O2 -mcpu=v3 -target bpf -D__BPF__ -D__TARGET_ARCH_$(ARCH) -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Ibpf -I/usr/include/$(shell uname -m)-linux-gnu -c $< -o $@

$(SKEL): $(O)/bpf/gpuxray.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name gpuxray_bpf > $@.tmp && mv $@.tmp $@

# Only src/trace sees the skeleton.
$(filter $(O)/src/trace/%,$(OBJS)): $(SKEL)

$(O)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

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
FAKE_CFLAGS := -std=gnu11 $(WARN) $(if $(WERROR),-Werror) -O2 -g -D_GNU_SOURCE -fno-omit-frame-pointer \
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

.build/libfuzzer/%: tests/fuzz/%.c $(SKEL)
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

bench: all fake $(O)/tests/bench/journal_tail $(O)/tests/bench/rules
	$(Q)tests/bench/run

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

install: all
	install -Dm755 $(BIN) $(DESTDIR)$(PREFIX)/bin/gpuxray
	install -d $(DESTDIR)$(RULESDIR) $(DESTDIR)/etc/gpuxray/rules.d
	install -m644 rules/*.conf $(DESTDIR)$(RULESDIR)/
	[ -e $(DESTDIR)/etc/gpuxray/gpuxray.conf ] || install -Dm644 contrib/gpuxray.conf $(DESTDIR)/etc/gpuxray/gpuxray.conf
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(CATALOGDIR)
	sed 's|/usr/bin/gpuxray|$(PREFIX)/bin/gpuxray|' contrib/systemd/gpuxray.service > $(DESTDIR)$(UNITDIR)/gpuxray.service
	install -d $(DESTDIR)$(MANDIR)/man5
	install -m644 contrib/man/*.5 $(DESTDIR)$(MANDIR)/man5/
	install -m644 contrib/systemd/gpuxray.catalog $(DESTDIR)$(CATALOGDIR)/gpuxray.catalog
	[ -n "$(DESTDIR)" ] || { journalctl --update-catalog; systemctl daemon-reload; } 2>/dev/null || true

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/gpuxray $(DESTDIR)$(UNITDIR)/gpuxray.service $(DESTDIR)$(CATALOGDIR)/gpuxray.catalog
	for f in contrib/man/*.5; do rm -f $(DESTDIR)$(MANDIR)/man5/$$(basename $$f); done
	for f in rules/*.conf; do rm -f $(DESTDIR)$(RULESDIR)/$$(basename $$f); done
	-rmdir $(DESTDIR)$(RULESDIR) $(DESTDIR)/usr/lib/gpuxray 2>/dev/null

clean:
	rm -rf .build gpuxray

.PHONY: all fake unit seeded fuzz check demo bench leakbench install uninstall clean
.DELETE_ON_ERROR:
-include $(OBJS:.o=.d) $(O)/src/main.d $(UNIT:=.d) $(LEAK:.o=.d)
