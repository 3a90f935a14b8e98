# gpuxray: build with GNU make. `make V=1` shows commands, `make WERROR=1` makes warnings errors, `make SAN=1` builds with
# ASan and UBSan into its own folder, `make STATIC="bpf config"` links those libraries statically.
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/bin/bpftool) bpftool)
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

# -liberty (libiberty) demangles C++ and Rust names.
static_or = $(if $(filter $(1),$(STATIC)),-l:lib$(1).a,-l$(1))
LIBS := $(call static_or,bpf) $(call static_or,config) -ldw -lelf -lz -lsystemd -lpcre2-8 -l:libiberty.a -ldl -lm

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

unit: $(UNIT)
	$(Q)for t in $(UNIT); do echo "# $$t"; $$t || exit 1; done

clean:
	rm -rf .build gpuxray

.PHONY: all unit clean
.DELETE_ON_ERROR:
-include $(OBJS:.o=.d) $(O)/src/main.d $(UNIT:=.d)
