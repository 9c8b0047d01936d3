#!/usr/bin/env bash
# Holdfast beside its peers, in one run: bench/run.sh --peers.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
	cat <<'EOT'
Usage: bench/run.sh --peers [--quick] [--rounds N] [--seconds S] [--build DIR] [--raw FILE] [--profile DIR] [CASE...]

Runs each case against Holdfast, against the floor (bench/peer_epoll.c), and against NATS and Nchan, one right after the
other, in N rounds (default 3) of S seconds (default 1), and prints tables in Markdown: medians of the rounds,
with ratios, and what a bystander in a session of its own waits meanwhile. With --quick one round, and the
smaller cases only. bench/NOTES.md says how to read them.

CASE: fanout, one, sessions, append, catchup, idle, reconnect, screen. Default: all.
--raw FILE adds the lines of name=value from which the tables are made to a file, and `LC_ALL=C awk -f bench/peers.awk FILE` makes them again.
--profile DIR writes a flame graph of Holdfast in each case, DIR/CASE.svg, and costs it about a tenth of its rate (needs perf
and node).

Every server listens on a free port of 127.0.0.1, keeps its data below DIR (default build-bench), which has to be on a
real disk, and is ended by its process id. NATS and Nchan are Debian's nats-server and libnginx-mod-nchan: scripts/peers installs
them. What is missing is left out.
EOT
}

rounds=3
seconds=1
build=$root/build-bench
raw=
profile=
quick=false
cases=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		usage
		exit 0
		;;
	--quick)
		quick=true
		rounds=1
		shift
		;;
	--rounds | --seconds | --build | --raw | --profile)
		[ $# -ge 2 ] || die "$1 needs a value"
		declare "${1#--}=$2"
		shift 2
		;;
	fanout | one | sessions | append | catchup | idle | reconnect | screen)
		cases+=("$1")
		shift
		;;
	*) die "no such option or case: $1 (see --help)" ;;
	esac
done
[ ${#cases[@]} -gt 0 ] || cases=(fanout one sessions append catchup idle reconnect screen)

need_packages "${build_packages[@]}"
need_setup "$build" -Dbuildtype=release -Dtests=false
ninja -C "$build" holdfast bench/holdfast-bench bench/holdfast-bench-peer bench/holdfast-bench-compare >&2

nginx=$(PATH=$PATH:/usr/sbin command -v nginx || true)
nats=$(PATH=$PATH:/usr/sbin command -v nats-server || true)
nchan_module=/usr/lib/nginx/modules/ngx_nchan_module.so
[ -e "$nchan_module" ] || nginx=
if [ -z "$nginx" ] || [ -z "$nats" ]; then
	say "left out, as they are not installed:${nats:+ }${nats:- nats-server}${nginx:+ }${nginx:- libnginx-mod-nchan}; scripts/peers installs them"
fi

[ -z "$profile" ] || { command -v perf >/dev/null && command -v node >/dev/null && mkdir -p "$profile"; } || die "--profile needs perf and node"
work=$(mktemp -d "$build/peers.XXXXXX")
pid=
tool=
perf=
failures=0

stop_process() {
	if [ -n "$1" ]; then
		kill "$1" 2>/dev/null || true
		wait "$1" 2>/dev/null || true
	fi
}

stop_server() {
	stop_process "$pid"
	pid=
	rm -rf "$work/data"
}

clean_up() {
	stop_process "$tool"
	stop_process "$perf"
	stop_server
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# wait_for_port EXPRESSION: until the server has said its port; sets port. Fails if the server ends, or says nothing for 10 s.
wait_for_port() {
	for ((i = 0; i < 200; i++)); do
		port=$(sed -n "$1" "$work/data/log" | head -n 1)
		[ -z "$port" ] || return 0
		kill -0 "$pid" 2>/dev/null || return 1
		sleep 0.05
	done
	return 1
}

is_listening() {
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# nginx takes no port 0: free ones are tried.
start_nchan() {
	for ((try = 0; try < 20; try++)); do
		port=$((20000 + RANDOM % 12000))
		is_listening "$port" && continue
		cat >"$work/data/nginx.conf" <<EOT
load_module $nchan_module;
daemon off;
master_process off;
worker_rlimit_nofile 20000;
pid $work/data/pid;
error_log $work/data/log crit;
events { worker_connections 19000; }
http {
	access_log off;
	keepalive_requests 100000000;
	keepalive_timeout 600s;
	tcp_nodelay on;
	client_body_temp_path $work/data; proxy_temp_path $work/data; fastcgi_temp_path $work/data; uwsgi_temp_path $work/data; scgi_temp_path $work/data;
	nchan_shared_memory_size 512m;
	nchan_message_timeout 1h;
	nchan_message_buffer_length 100;
	server {
		listen 127.0.0.1:$port backlog=8192;
		location ~ ^/pub/(.+)\$ { nchan_publisher; nchan_channel_id \$1; }
		location ~ ^/sub/(.+)\$ { nchan_subscriber websocket; nchan_channel_id \$1; nchan_subscriber_first_message newest; }
		location ~ ^/rest/(.+)\$ { nchan_subscriber websocket; nchan_channel_id \$1; nchan_subscriber_first_message oldest; }
	}
}
EOT
		"$nginx" -p "$work/data" -c "$work/data/nginx.conf" 2>>"$work/data/err" &
		pid=$!
		for ((i = 0; i < 100; i++)); do
			kill -0 "$pid" 2>/dev/null || break
			is_listening "$port" && return 0
			sleep 0.05
		done
		stop_process "$pid"
		pid=
	done
	return 1
}

# start_server KIND: with a directory of its own; sets pid, port and words (what the load tool is to speak).
start_server() {
	mkdir "$work/data"
	: >"$work/data/log"
	words=$1
	case $1 in
	holdfast*)
		words=holdfast
		local durability=fsync
		[ "$1" = holdfast ] || durability=write
		"$build/holdfast" serve --listen 127.0.0.1:0 --data "$work/data/store" --auth off --log-level warn --durability "$durability" 2>"$work/data/log" &
		;;
	epoll) "$build/bench/holdfast-bench-peer" "$work/data/frames" 2>"$work/data/log" & ;;
	nats | jetstream)
		cat >"$work/data/nats.conf" <<EOT
listen: "127.0.0.1:-1"
max_connections: 20000
max_pending: 268435456
write_deadline: "60s"
EOT
		[ "$1" = nats ] || echo "jetstream { store_dir: \"$work/data/jetstream\" }" >>"$work/data/nats.conf"
		"$nats" -c "$work/data/nats.conf" >"$work/data/log" 2>&1 &
		;;
	nchan)
		start_nchan
		return
		;;
	esac
	pid=$!
	wait_for_port 's/.*[Ll]istening .*127\.0\.0\.1:\([0-9]*\).*/\1/p'
}

has() {
	case $1 in
	nats | jetstream) [ -n "$nats" ] ;;
	nchan) [ -n "$nginx" ] ;;
	esac
}

# start_profile MODE: of what happens when all connections are there.
start_profile() {
	while [ "$1" = relay ] && [ ! -e "$work/live" ] && kill -0 "$tool" 2>/dev/null; do
		sleep 0.1
	done
	rm -f "$work/live"
	perf record -q -e cpu-clock -F 499 --call-graph dwarf,8192 -p "$pid" -o "$work/perf.data" >/dev/null 2>&1 &
	perf=$!
}

stop_profile() {
	kill -INT "$perf" 2>/dev/null || true
	wait "$perf" 2>/dev/null || true
	perf=
	perf script -i "$work/perf.data" --no-inline -F comm,tid,ip,sym,dso 2>/dev/null | "$root/bench/flame.mjs" "Holdfast: $1" >"$profile/$1.svg" || true
	[ -s "$profile/$1.svg" ] || rm -f "$profile/$1.svg"
	rm -f "$work/perf.data"
}

# run KIND CASE MODE OPTION...: adds its lines to the results, or says what went wrong and goes on.
run() {
	local kind=$1 name=$2
	shift 2
	has "$kind" || return 0
	say "$name, $kind"
	if ! start_server "$kind"; then
		say "FAILED: $kind did not start: $(tail -n 3 "$work/data/log")"
		failures=$((failures + 1))
	else
		timeout 180 "$build/bench/holdfast-bench-compare" "$@" --to "$words" --port "$port" --pid "$pid" --live "$work/live" >"$work/out" 2>"$work/err" &
		tool=$!
		[ -z "$profile" ] || [ "$kind" != holdfast ] || start_profile "$1"
		if wait "$tool"; then
			sed "s/^/kind=$kind case=$name round=$round /" "$work/out" >>"$work/results"
		else
			say "FAILED: $name, $kind: $(tail -n 2 "$work/err")"
			# What it has measured until then is true.
			sed -n "/by_p50/s/^/kind=$kind case=$name round=$round /p" "$work/out" >>"$work/results"
			failures=$((failures + 1))
		fi
		tool=
		[ -z "$perf" ] || stop_profile "$name"
	fi
	stop_server
}

# run_each KINDS CASE MODE OPTION...
run_each() {
	local kinds=$1
	shift
	for kind in $kinds; do
		run "$kind" "$@"
	done
}

case_fanout() {
	run_each "holdfast epoll nats nchan" fanout-100 relay --observers 100 --window 64 --seconds "$seconds"
	run_each "holdfast epoll nats nchan" fanout-1000 relay --observers 1000 --window 64 --seconds "$seconds"
	if ! $quick && [ "$round" -eq 1 ]; then
		run_each "holdfast epoll nats nchan" fanout-10000 relay --observers 10000 --window 64 --seconds "$((2 * seconds))"
	fi
}

case_one() {
	run_each "holdfast epoll holdfast-write nchan nats" one-100 relay --observers 100 --seconds "$seconds"
	run_each "holdfast epoll holdfast-write nchan nats" one-1000 relay --observers 1000 --seconds "$seconds"
}

case_sessions() {
	run_each "holdfast epoll nats nchan" sessions-1 relay --sessions 1 --observers 10 --window 64 --seconds "$seconds"
	run_each "holdfast epoll nats nchan" sessions-64 relay --sessions 1000 --observers 10 --window 64 --seconds "$seconds"
	$quick || run_each "holdfast epoll nats nchan" sessions-1000 relay --sessions 1000 --observers 10 --window 1000 --seconds "$seconds"
}

case_append() {
	"$build/bench/holdfast-bench" sync --dir "$work" --seconds "$seconds" |
		sed "s/^/kind=disk case=append-1 round=$round seconds=$seconds /" >>"$work/results"
	run_each "holdfast holdfast-write jetstream" append-1 relay --observers 0 --seconds "$seconds"
	run_each "holdfast holdfast-write jetstream" append-64 relay --observers 0 --window 64 --seconds "$seconds"
	run_each "holdfast holdfast-write jetstream" append-256 relay --observers 0 --sessions 256 --window 256 --seconds "$seconds"
	run_each "holdfast holdfast-write" append-http relay --observers 0 --sessions 256 --window 256 --http --seconds "$seconds"
}

case_catchup() {
	local clients=100 limit=20
	if $quick; then
		clients=10
		limit=5
	fi
	[ "$round" -eq 1 ] || return 0
	run_each "holdfast jetstream" catchup catchup --clients "$clients" --limit "$limit"
	run holdfast catchup catchup --clients "$clients" --limit "$limit" --html
}

case_idle() {
	[ "$round" -eq 1 ] || return 0
	run_each "holdfast nats nchan" idle idle --clients 5000
}

case_reconnect() {
	run_each "holdfast nchan" reconnect reconnect --clients 5000 --events 1000
}

case_screen() {
	run holdfast screen screen --observers 100 --seconds "$((2 * seconds))"
	run epoll screen relay --observers 100 --rate 100 --window 1024 --seconds "$((2 * seconds))"
	if [ "$round" -eq 1 ]; then
		run_each "holdfast epoll nats nchan" alone alone --seconds "$((2 * seconds))"
	fi
}

: >"$work/results"
for ((round = 1; round <= rounds; round++)); do
	for name in "${cases[@]}"; do
		say "round $round of $rounds: $name ($SECONDS s)"
		"case_$name"
	done
done

[ -z "$raw" ] || cat "$work/results" >>"$raw"
echo "$(date -u '+%Y-%m-%d %H:%M UTC'), $(uname -sr), $(nproc) CPUs ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), $("$build/holdfast" --version | head -n 1)${nats:+, $("$nats" --version)}${nginx:+, Nchan $(dpkg-query -W -f '${Version}' libnginx-mod-nchan)}, medians of $rounds rounds of $seconds s, $((SECONDS / 60)) min $((SECONDS % 60)) s in all"
echo
LC_ALL=C awk -f "$root/bench/peers.awk" "$work/results"
if [ "$failures" -gt 0 ]; then
	die "$failures runs failed, see above"
fi
