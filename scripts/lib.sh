# shellcheck shell=bash disable=SC2034
# Shared by scripts/run, scripts/test and scripts/fuzz; sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What it takes to build the server (names in Debian 12 and 13).
build_packages=(
	gcc libc6-dev meson ninja-build pkgconf
	libwebsockets-dev libwebsockets-evlib-uv libuv1-dev libjansson-dev
	libcmark-gfm-dev libcmark-gfm-extensions-dev liburing-dev libxxhash-dev libssl-dev libjwt-dev libcap-dev zlib1g-dev libpq-dev libqrencode-dev libseccomp-dev
	esbuild # bundles the page
	libjs-highlight.js # read by the page as it runs
)

say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
	say "$*"
	exit 1
}

is_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "this needs root, and there is no sudo here. As root, run: apt-get install $missing_words"
	fi
}

# Installs those of the packages that are missing. Without network or a package index nothing happens when all are there.
need_packages() {
	local missing=() package missing_words
	if ! command -v dpkg-query >/dev/null; then
		say "this is no Debian; going on as if these were installed: $*"
		return
	fi
	for package in "$@"; do
		is_installed "$package" || missing+=("$package")
	done
	if [ ${#missing[@]} -eq 0 ]; then
		return
	fi
	missing_words="${missing[*]}"
	say "installing $missing_words"
	as_root apt-get update -qq
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
		die "apt-get could not install: $missing_words"
}

# The same for what makes tests faster, and is not needed: whatever keeps it away, the tests run without it.
want_packages() {
	(need_packages "$@") || say "going on without: $*"
}

# need_setup DIR OPTION...: sets the directory up, or again with other options.
need_setup() {
	local dir=$1 stamp=$1/.setup-options
	shift
	if [ ! -f "$dir/build.ninja" ]; then
		meson setup "$dir" "$root" "$@" >&2
	elif [ "$(cat "$stamp" 2>/dev/null)" != "$*" ]; then
		meson setup --reconfigure "$dir" "$root" "$@" >&2
	fi
	printf '%s\n' "$*" >"$stamp"
}

# need_build DIR OPTION...: the same, and compiles.
need_build() {
	need_setup "$@"
	ninja -C "$1" >&2
}
