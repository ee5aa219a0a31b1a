#!/bin/sh
# Installs what building, running and testing machined needs on Debian 12, and
# nothing that is there already. Without root or apt it names what is missing
# and stops.
set -eu

# What is looked for, and the package that has it.
needs() {
	cat <<'EOF'
/usr/bin/git git
/usr/bin/gcc gcc
/usr/include/stdlib.h libc6-dev
/usr/bin/aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
/usr/aarch64-linux-gnu/include/stdlib.h libc6-dev-arm64-cross
/usr/bin/pkg-config pkg-config
/usr/bin/zstd zstd
/usr/bin/libdeflate-gzip libdeflate-tools
/usr/bin/protoc protobuf-compiler
/usr/bin/mksquashfs squashfs-tools
/sbin/mke2fs e2fsprogs
/sbin/fsck.fat dosfstools
/sbin/mkfs.xfs xfsprogs
/sbin/mkfs.btrfs btrfs-progs
/sbin/mkfs.exfat exfatprogs
/sbin/mkfs.f2fs f2fs-tools
/sbin/mkntfs ntfs-3g
/sbin/cryptsetup cryptsetup-bin
/usr/bin/genisoimage genisoimage
/usr/bin/mcopy mtools
/usr/sbin/sgdisk gdisk
/usr/sbin/sfdisk fdisk
/usr/bin/dtc device-tree-compiler
/sbin/depmod kmod
/bin/ip iproute2
/usr/sbin/dnsmasq dnsmasq-base
/usr/bin/curl curl
/usr/bin/tftp tftp-hpa
/bin/busybox busybox
/usr/sbin/chronyd chrony
/usr/bin/chromium chromium
/usr/sbin/nginx nginx-light
/usr/bin/qemu-system-x86_64 qemu-system-x86
/usr/bin/qemu-system-aarch64 qemu-system-arm
/usr/lib/ipxe/qemu/efi-virtio.rom ipxe-qemu
/usr/share/OVMF/OVMF_CODE_4M.fd ovmf
/usr/share/AAVMF/AAVMF_CODE.fd qemu-efi-aarch64
EOF
}

missing=$(needs | while read -r file package; do
	[ -e "$file" ] || echo "$package"
done | tr '\n' ' ')

go_minor=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
if [ "${go_minor:-0}" -lt 26 ]; then
	echo "setup: Go 1.26 or newer is needed and $(go env GOVERSION 2>/dev/null || echo none) was found; install it from https://go.dev/dl" >&2
	exit 1
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "setup: missing Debian packages: $missing" >&2
	echo "setup: run 'make setup' as root on Debian 12, or install them by other means" >&2
	exit 1
fi
echo "setup: installing $missing"
apt-get -q update
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $missing
