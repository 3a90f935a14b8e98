#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what lies beside it: ./install [--prefix DIR] [--destdir DIR] [--uninstall]
set -eu
cd "$(dirname "$0")"
prefix=/usr/local destdir='' uninstall=''

usage() {
	echo "usage: ./install [--prefix DIR] [--destdir DIR] [--uninstall]"
}

while [ $# -gt 0 ]; do
	case $1 in
	--prefix | --destdir)
		[ $# -gt 1 ] || { usage >&2; exit 2; }
		case $2 in
		/*) ;;
		*)
			echo "$1: an absolute path, not $2" >&2
			exit 2
			;;
		esac
		if [ "$1" = --prefix ]; then prefix=${2%/}; else destdir=${2%/}; fi
		shift 2
		;;
	--prefix=* | --destdir=*)
		option=${1%%=*} value=${1#*=}
		shift
		set -- "$option" "$value" "$@"
		;;
	--uninstall) uninstall=yes; shift ;;
	--help) usage; exit ;;
	*)
		usage >&2
		exit 2
		;;
	esac
done

# Where a file of this archive goes. The program looks for rules in one place alone.
target() {
	case $1 in
	etc/* | usr/lib/gpuxray | usr/lib/gpuxray/*) echo "$destdir/$1" ;;
	*) echo "$destdir$prefix/${1#usr/}" ;;
	esac
}

# A new file takes the old one's name, since a program that runs cannot be written over.
put() {
	to=$(target "$1")
	mode=644
	[ ! -x "$1" ] || mode=755
	case $1 in
	etc/*) [ ! -e "$to" ] || return 0 ;;
	esac
	mkdir -p "$(dirname "$to")"
	case $1 in
	*/gpuxray.service)
		sed "s|/usr/bin/gpuxray|$prefix/bin/gpuxray|" "$1" >"$to.new"
		;;
	*) cp "$1" "$to.new" ;;
	esac
	chmod $mode "$to.new"
	mv "$to.new" "$to"
}

if [ "$uninstall" ]; then
	find usr -type f | while read -r f; do rm -f "$(target "$f")"; done
	find usr -depth -type d -path '*/gpuxray*' | while read -r d; do rmdir "$(target "$d")" 2>/dev/null || true; done
else
	umask 022
	find usr etc -type f | while read -r f; do put "$f"; done
	mkdir -p "$destdir/etc/gpuxray/rules.d"
fi
case $prefix in
/usr | /usr/local) ;;
*)
	[ "$uninstall" ] || cat <<-END
		systemd does not look into $prefix by itself: systemctl link $prefix/lib/systemd/system/gpuxray.service
	END
	;;
esac
[ "$destdir" ] || { journalctl --update-catalog; systemctl daemon-reload; } 2>/dev/null || true
