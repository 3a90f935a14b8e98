# SPDX-License-Identifier: MIT
# Functions of make-image, here and in tests/arm64: the initrd of an emulated machine. Run in the checkout.

# What an emulated disk needs.
modules="crc32c_generic virtio_pci virtio_blk ext4"

# What modules.dep says that these modules need, in the order in which they are loaded.
closure() {
	for m in $modules; do
		sed -n "s|^\([^:]*/$m\.ko[^:]*\): *\(.*\)|\2 \1|p" "$1/modules.dep" | awk '
			{ for (i = NF - 1; i > 0; i--) print $i; print $NF }'
	done | awk '!seen[$0]++'
}

# initrd FILE MODULES BUSYBOX: it mounts the disk read-write and unpacks what is on the second one over it: the part that
# changes. MODULES is the kernel's folder of them.
initrd() {
	mods=$2 tree=$(mktemp -d)
	mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/root" "$tree/modules"
	cp "$3" "$tree/bin/busybox"
	closure "$mods" | while read -r m; do
		n=$((n + 1))
		case $m in
		*.xz) xz -dc "$mods/$m" ;;
		*) cat "$mods/$m" ;;
		esac >"$tree/modules/$(printf '%02d' "$n").ko"
	done
	cp tests/vm/init "$tree/init"
	(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$1"
	rm -rf "$tree"
}
