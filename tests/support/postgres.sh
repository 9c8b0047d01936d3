#!/usr/bin/env bash
# A PostgreSQL for tests: postgres.sh start DIR | up DIR | stop DIR | standby DIR FROM | promote DIR; up starts it again. Its socket is in DIR, which must not be there yet; it listens nowhere else.
# It does not sync: what a test wants to know is what the database promises, not what the disk under it does.
set -euo pipefail

dir=$2
bin=$(for found in /usr/lib/postgresql/*/bin; do echo "$found"; done | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || { echo "postgres.sh: there is no PostgreSQL; install the package postgresql" >&2; exit 1; }

# It refuses to run as root.
as_user() {
	if [ "$(id -u)" -eq 0 ]; then
		(cd / && setpriv --reuid postgres --regid postgres --clear-groups "$@")
	else
		"$@"
	fi
}

up() {
	as_user "$bin/pg_ctl" --pgdata "$dir/data" --log "$dir/log" --wait --timeout 120 -s \
		--options "-c listen_addresses='' -c unix_socket_directories='$dir' -c fsync=off -c full_page_writes=off -c shared_buffers=16MB -c max_connections=50" start >>"$dir.log" 2>&1 || { cat "$dir.log" "$dir/log" >&2; exit 1; }
}

# A cluster as initdb makes it. With HOLDFAST_TEST_SHARED, a directory of one run of many tests, that happens once, and each gets
# a copy.
first() {
	local made=${HOLDFAST_TEST_SHARED:+$HOLDFAST_TEST_SHARED/postgres}
	if [ -z "$made" ]; then
		init "$dir/data"
		return
	fi
	(
		flock 9
		[ -d "$made" ] || { init "$dir/made" && mv "$dir/made" "$made"; }
	) 9>"$made.lock"
	as_user cp -a "$made" "$dir/data"
}

init() {
	as_user "$bin/initdb" --pgdata "$1" --auth trust --username holdfast --encoding UTF8 --locale C --no-sync >"$dir.log" 2>&1 || { cat "$dir.log" >&2; exit 1; }
}

case $1 in
up)
	up
	;;
start)
	mkdir -p "$dir"
	[ "$(id -u)" -ne 0 ] || chown postgres: "$dir"
	first
	up
	;;
standby)
	mkdir -p "$dir"
	[ "$(id -u)" -ne 0 ] || chown postgres: "$dir"
	as_user "$bin/pg_basebackup" --host "$3" --username holdfast --pgdata "$dir/data" --write-recovery-conf --checkpoint fast --no-sync >"$dir.log" 2>&1 || { cat "$dir.log" >&2; exit 1; }
	echo "primary_conninfo = 'host=$3 user=holdfast application_name=standby'" | as_user tee -a "$dir/data/postgresql.auto.conf" >/dev/null
	up
	;;
promote)
	as_user "$bin/pg_ctl" --pgdata "$dir/data" -s --wait --timeout 120 promote
	;;
stop)
	as_user "$bin/pg_ctl" --pgdata "$dir/data" -s --mode immediate stop || true
	rm -rf "$dir" "$dir.log"
	;;
*)
	echo "postgres.sh: start DIR | up DIR | stop DIR | standby DIR FROM | promote DIR" >&2
	exit 2
	;;
esac
