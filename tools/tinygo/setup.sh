#!/bin/sh
# Installs what building TinyGo and linking wasm needs on Debian 12, and nothing
# that is there already. These packages are heavy, so only `make tinygo` asks
# for them. Without root or apt, or with --check, it names what is missing and
# stops.
set -eu

# What is looked for, and the package that has it.
needs() {
	cat <<'LIST'
/usr/lib/llvm-19/include/llvm/Config/llvm-config.h llvm-19-dev
/usr/lib/llvm-19/bin/ld.lld lld-19
/usr/lib/llvm-19/bin/clang clang-19
/usr/lib/llvm-19/include/clang-c/Index.h libclang-19-dev
/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a libclang-rt-19-dev-wasm32
/usr/lib/wasm32-wasi/libc.a wasi-libc
/usr/bin/wasm-opt binaryen
/usr/bin/g++ g++
LIST
}

missing=$(needs | while read -r file package; do
	[ -e "$file" ] || echo "$package"
done | tr '\n' ' ')
[ -n "$missing" ] || exit 0

if [ "${1:-}" = --check ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "tinygo: missing Debian packages: $missing" >&2
	echo "tinygo: run 'make tinygo' as root on Debian 12, or install them by other means" >&2
	exit 1
fi
echo "tinygo: installing $missing"
apt-get -q update
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $missing
