# shellcheck shell=bash disable=SC2154
# Roots of Debian, for scripts/trixie, scripts/package, scripts/tar and scripts/machine; sourced after lib.sh, not run. Whoever sources it defines
# not_here WHY: what follows where no root can be made.

can_make_roots() {
	[ "$(id -u)" -eq 0 ] || not_here "this needs root"
	unshare --mount --pid --net --fork true 2>/dev/null || not_here "this machine lets nobody make namespaces"
}

# make_root NAME DIR: a root of that version of Debian with nothing but its essential packages. It is made under another name first: what
# was interrupted is not taken for a root.
make_root() {
	local name=$1 inside=$2 new=$2.new log=$2.log mirror
	need_packages debootstrap curl
	# debootstrap itself would wait long for a network that does not answer.
	mirror=$(mirror_of "$name") || not_here "no network, or no mirror that apt uses here has Debian's $name (DEBIAN_MIRROR names another one)"
	rm -rf "$inside" "$new"
	say "making a root of Debian ($name) in $inside"
	debootstrap --variant=minbase --include=mount "$name" "$new" "$mirror" >"$log" 2>&1 ||
		not_here "debootstrap made no root: $(tail -n 1 "$log") ($log)"
	add_security_updates "$name" "$new"
	mv "$new" "$inside"
}

# mirror_of SUITE: the first mirror that has this suite: DEBIAN_MIRROR, or those that apt uses on this machine.
mirror_of() {
	local mirror mirrors=()
	if [ -n "${DEBIAN_MIRROR:-}" ]; then
		mirrors=("$DEBIAN_MIRROR" "$DEBIAN_MIRROR-security")
	else
		readarray -t mirrors < <(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u)
	fi
	for mirror in "${mirrors[@]}"; do
		if curl -sfI --max-time 20 -o /dev/null "${mirror%/}/dists/$1/Release"; then
			printf '%s\n' "${mirror%/}"
			return
		fi
	done
	return 1
}

# Mirrors have them beside the packages; one that has not is good enough for tests.
add_security_updates() {
	local name=$1-security inside=$2 mirror
	if mirror=$(mirror_of "$name"); then
		printf 'deb %s %s main\n' "$mirror" "$name" >>"$inside/etc/apt/sources.list"
	else
		say "no mirror has $name: going on without"
	fi
}

name_of_debian() {
	case $1 in
	12) echo bookworm ;;
	13) echo trixie ;;
	*) die "no such version of Debian: $1 (12 or 13)" ;;
	esac
}

# mount_layers PLACE LAYER...: in the namespaces of the caller, $merged becomes the root of PLACE with these layers above it. What changes
# goes to the last one. Packages that apt downloads are kept for the next time.
mount_layers() {
	local place=$1 lower=$1/root top
	shift
	merged=$place/merged
	while [ $# -gt 1 ]; do
		lower=$1/upper:$lower
		shift
	done
	top=$1
	mkdir -p "$merged" "$top/upper" "$top/work" "$place/archives/partial"
	mount -t overlay overlay -o "lowerdir=$lower,upperdir=$top/upper,workdir=$top/work" "$merged"
	mount --bind "$place/archives" "$merged/var/cache/apt/archives"
	mount -t proc proc "$merged/proc"
	mount -t tmpfs tmpfs "$merged/tmp"
	mount -t tmpfs -o mode=755 tmpfs "$merged/run"
	mkdir -p "$merged/run/lock"
}

# enter_root COMMAND...: what is outside of $merged is gone for it.
enter_root() {
	cd "$merged"
	pivot_root . .
	umount -l .
	cd /
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# in_layers PLACE LAYER... -- COMMAND...: runs it in the root of PLACE with these layers; HOLDFAST_SHARE is /share in there.
in_layers() {
	unshare --mount --pid --fork --kill-child bash -euc '
		. "$1/scripts/root.sh"
		shift
		layers=()
		while [ "$1" != -- ]; do
			layers+=("$1")
			shift
		done
		shift
		mount_layers "${layers[@]}"
		mount --rbind /sys "$merged/sys"
		mount --rbind /dev "$merged/dev"
		mkdir -p "$merged/share"
		mount --bind "$HOLDFAST_SHARE" "$merged/share"
		enter_root "$@"
	' - "$root" "$@"
}

# need_layer PLACE NAME PACKAGE...: the layer PLACE/NAME above its root has these packages.
need_layer() {
	local place=$1 layer=$1/$2
	shift 2
	if [ "$(cat "$layer/.packages" 2>/dev/null)" = "$*" ]; then
		return
	fi
	mkdir -p "$layer"
	say "installing packages in $layer"
	HOLDFAST_SHARE=/etc in_layers "$place" "$layer" -- sh -euc '
		cp /share/resolv.conf /etc/resolv.conf
		apt-get update -qq
		printf "force-unsafe-io\n" >/etc/dpkg/dpkg.cfg.d/layer # an interrupted layer is made again
		apt-get upgrade -y -qq
		apt-get install -y -qq --no-install-recommends "$@"' - "$@" >"$layer/apt.log" 2>&1 ||
		not_here "apt-get could not install what it takes: $(tail -n 1 "$layer/apt.log") ($layer/apt.log)"
	printf '%s\n' "$*" >"$layer/.packages"
}

# copy_sources DIR: the files of this checkout, as they are.
copy_sources() {
	mkdir -p "$1"
	git -C "$root" ls-files -co --exclude-standard -z | (cd "$root" && tar --null --ignore-failed-read -cf - -T - 2>/dev/null) | tar -xf - -C "$1"
}

# need_build_layer PLACE DEBIAN: its root, and the layer PLACE/build, in which Debian packages are built.
need_build_layer() {
	mkdir -p "$1"
	[ -d "$1/root" ] || make_root "$(name_of_debian "$2")" "$1/root"
	need_layer "$1" build "${build_packages[@]}" build-essential debhelper zsh fish lintian
}
