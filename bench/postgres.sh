#!/usr/bin/env bash
# Sessions in PostgreSQL beside the database itself: what a statement that writes the same rows reaches with pgbench.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
	cat <<'EOT'
Usage: bench/postgres.sh [--rounds N] [--seconds S] [--build DIR]

Starts a PostgreSQL with its defaults (it syncs each commit) below DIR (default build-bench), which has to be on a real disk.
In N rounds (default 3) of S seconds (default 5) each: pgbench with 64 connections, each with a session of its own, whose
statement checks the fence and adds 16 records and 16 events; then Holdfast with 64 producers that append 16 events to a
session of their own and wait for the answer. The last line is the ratio of the medians.
EOT
}

rounds=3
seconds=5
build=$root/build-bench
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		usage
		exit 0
		;;
	--rounds | --seconds | --build)
		[ $# -ge 2 ] || die "$1 needs a value"
		declare "${1#--}=$2"
		shift 2
		;;
	*) die "no such option: $1 (see --help)" ;;
	esac
done

need_packages "${build_packages[@]}" postgresql postgresql-contrib
need_setup "$build" -Dbuildtype=release -Dtests=false
ninja -C "$build" holdfast bench/holdfast-bench-produce >&2

bin=$(for found in /usr/lib/postgresql/*/bin; do echo "$found"; done | sort -V | tail -n 1)
work=$(mktemp -d "$build/postgres.XXXXXX")
chmod 755 "$work"
mkdir "$work/db"
[ "$(id -u)" -ne 0 ] || chown postgres: "$work/db"

as_user() {
	if [ "$(id -u)" -eq 0 ]; then
		(cd / && setpriv --reuid postgres --regid postgres --clear-groups "$@")
	else
		"$@"
	fi
}

finish() {
	as_user "$bin/pg_ctl" --pgdata "$work/db/data" -s --mode immediate stop || true
	rm -rf "$work"
}
trap finish EXIT

as_user "$bin/initdb" --pgdata "$work/db/data" --auth trust --username holdfast --encoding UTF8 --locale C >"$work/log"
as_user "$bin/pg_ctl" --pgdata "$work/db/data" --log "$work/db/log" --wait -s \
	--options "-c listen_addresses='' -c unix_socket_directories='$work/db' -c max_connections=120" start

address="host=$work/db user=holdfast dbname=postgres"
sql() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$work/db" -U holdfast -d postgres -c "$1"
}

# A line of the length that Holdfast's have in this bench.
line=$(printf '{"seq":1000,"ts":1700000000000,"type":"x-bench","data":{"n":1,"sent":1,"pad":"%032d"}}' 0)
cat >"$work/statement" <<EOT
\set sid 1 + :client_id
WITH won AS (UPDATE holdfast_session AS s SET last_record = last_record + 16 WHERE sid = :sid AND fence = 1 RETURNING sid, last_record), records AS (INSERT INTO holdfast_record (sid, n, kind, ts, data) SELECT sid, last_record - 16 + g, 2, 0, '$line'::bytea FROM won, generate_series(1, 16) AS g), events AS (INSERT INTO holdfast_event (sid, seq, ts, line) SELECT sid, last_record - 16 + g, 0, '$line' FROM won, generate_series(1, 16) AS g) SELECT sid FROM won;
EOT

clear_tables() {
	sql "TRUNCATE holdfast_session, holdfast_record, holdfast_event, holdfast_name, holdfast_blob, holdfast_garbage, holdfast_node"
	sql "CHECKPOINT"
}

holdfast_rate() {
	HOLDFAST_STORE=$address "$build/bench/holdfast-bench-produce" ws --server "$build/holdfast" --dir "$work" --sockets 64 --window 1 --batch 16 --seconds "$1"
}

holdfast_rate 1 >/dev/null # it makes the tables
: >"$work/raw"
: >"$work/holdfast"
for ((round = 1; round <= rounds; round++)); do
	clear_tables
	sql "INSERT INTO holdfast_session (sid, id, epoch, fence, owner, created_at, created, last_record) SELECT g, 's' || g, 1, 1, 'bench', 0, '', 0 FROM generate_series(1, 64) AS g"
	tps=$(pgbench -n -h "$work/db" -U holdfast -c 64 -j 2 -M prepared -T "$seconds" -f "$work/statement" postgres 2>/dev/null |
		sed -n 's/^tps = \([0-9]*\).*/\1/p')
	echo $((tps * 16)) | tee -a "$work/raw" | sed 's/^/pgbench   events_per_s=/'
	clear_tables
	result=$(holdfast_rate "$seconds")
	sed 's/.*inputs_per_s=\([0-9]*\).*/\1/' <<<"$result" >>"$work/holdfast"
	echo "holdfast  $result"
done

median() {
	sort -n "$1" | sed -n "$(((rounds + 1) / 2))p"
}
echo "pgbench $(median "$work/raw") events/s, holdfast $(median "$work/holdfast") events/s, ratio $(awk "BEGIN { printf \"%.2f\", $(median "$work/holdfast") / $(median "$work/raw") }")"
