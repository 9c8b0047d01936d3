#!/usr/bin/env bash
# Builds the server, the load tool and the peer with optimisation, runs all cases and prints the tables of RESULTS.md.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
	cat <<'EOT'
Usage: bench/run.sh [--rounds N] [--seconds S] [--tries N] [--limit S] [--build DIR]
       bench/run.sh --stream [--build DIR]
       bench/run.sh --peers [OPTION...] [CASE...]

Every case is run against Holdfast and against the two peers, one right after the other, in N rounds (default 3) of S
seconds (default 1) each. The tables show medians over the rounds.

A run waits until the machine is quiet, and if other programs took more than a tenth of a CPU meanwhile it is done again, up
to N tries (default 3). After the limit (default 60 s from the start) it neither waits nor tries again, so that all of it
takes two to three minutes. A disturbed run counts only if all runs of its case were disturbed.

Then the cases of the store follow, which take as long again. With --peers Holdfast is compared with NATS and Nchan instead (see bench/run.sh --peers --help). With --stream only the stream buffer is measured, by itself: ordinary text (some seconds) and hostile text (some minutes).

The servers keep their data below DIR (default build-bench), which has to be on a real disk, and are stopped again.
EOT
}

if [ "${1:-}" = --peers ]; then
	shift
	exec "$root/bench/peers.sh" "$@"
fi

rounds=3
seconds=1
tries=3
limit=60
build=$root/build-bench
stream=false
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		usage
		exit 0
		;;
	--stream)
		stream=true
		shift
		;;
	--rounds | --seconds | --tries | --limit | --build)
		[ $# -ge 2 ] || die "$1 needs a value"
		declare "${1#--}=$2"
		shift 2
		;;
	*) die "no such option: $1 (see --help)" ;;
	esac
done

need_packages "${build_packages[@]}"
need_build "$build" -Dbuildtype=release -Dtests=false
ninja -C "$build" bench/holdfast-bench bench/holdfast-bench-peer bench/holdfast-bench-store \
	bench/holdfast-bench-stream >&2

print_machine() {
	echo "$(date -u '+%Y-%m-%d %H:%M UTC'), $(uname -sr), $(nproc) CPUs ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1))"
	echo
}

if $stream; then
	print_machine
	exec "$build/bench/holdfast-bench-stream" all
fi

pid=
work=$(mktemp -d "$build/run.XXXXXX")

stop_server() {
	if [ -n "$pid" ]; then
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
		pid=
	fi
	exec 3<&-
	rm -rf "$work/data"
}
trap 'stop_server; rm -rf "$work"' EXIT

# start_server KIND: with a directory of its own; sets pid and port.
start_server() {
	local command line
	mkdir "$work/data"
	case $1 in
	holdfast) command=("$build/holdfast" serve --listen 127.0.0.1:0 --data "$work/data" --auth off --log-level warn) ;;
	peer-sync) command=("$build/bench/holdfast-bench-peer" "$work/data/log") ;;
	peer) command=("$build/bench/holdfast-bench-peer") ;;
	esac
	mkfifo "$work/data/stderr"
	"${command[@]}" 2>"$work/data/stderr" &
	pid=$!
	exec 3<"$work/data/stderr"
	read -r line <&3 || die "the server did not start: ${command[*]}"
	port=${line##*:}
	[[ $port =~ ^[0-9]+$ ]] || die "the server did not start: $line"
}

# Time on the CPUs so far, in ticks (/proc/stat, without idle and waiting for disks).
busy_ticks() {
	awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat
}

has_time() {
	[ "$SECONDS" -lt "$limit" ]
}

# Until all programs together took less than a tenth of a CPU for a quarter of a second.
wait_quiet() {
	local before after most
	most=$(($(getconf CLK_TCK) / 40))
	while has_time; do
		before=$(busy_ticks)
		sleep 0.25
		after=$(busy_ticks)
		if [ $((after - before)) -le "$most" ]; then
			return
		fi
	done
}

# run_once KIND MODE OPTION...: sets line.
run_once() {
	start_server "$1"
	shift
	line=$("$build/bench/holdfast-bench" "$@" --port "$port" --pid "$pid")
	stop_server
}

# run_case KIND NAME MODE OPTION...: one line to the results, of the least disturbed try.
run_case() {
	local kind=$1 name=$2 line best='' try other least=
	shift 2
	for ((try = 1; try <= tries; try++)); do
		wait_quiet
		say "$name, $kind"
		run_once "$kind" "$@"
		other=${line#* other_cpu_percent=}
		other=${other%% *}
		if [ -z "$least" ] || [ "$other" -lt "$least" ]; then
			least=$other
			best=$line
		fi
		if [ "$least" -le 10 ] || ! has_time; then
			break
		fi
		say "disturbed: other programs took $other % of a CPU (try $try)"
	done
	echo "kind=$kind case=$name $best" >>"$work/results"
}

run_against_all() {
	for kind in holdfast peer-sync peer; do
		run_case "$kind" "$@" --seconds "$seconds"
	done
}

for ((round = 1; round <= rounds; round++)); do
	say "round $round of $rounds"
	"$build/bench/holdfast-bench" sync --dir "$work" --seconds "$seconds" | sed 's/^/kind=disk case=sync /' >>"$work/results"
	for observers in 1 100 1000; do
		run_against_all throughput throughput --observers "$observers"
	done
	run_against_all singles throughput --observers 100 --batch 1 --window 64
	for observers in 1 100 1000; do
		run_against_all latency latency --observers "$observers"
	done
	run_against_all rate latency --observers 100 --rate 500
done
for observers in 1000 5000; do
	run_once holdfast idle --observers "$observers"
	echo "kind=holdfast case=idle $line" >>"$work/results"
done

# run_store NAME MODE OPTION...: the store's bench starts the server itself.
run_store() {
	local name=$1
	shift
	wait_quiet
	say "store: $*"
	line=$("$build/bench/holdfast-bench-store" "$@" --server "$build/holdfast" --dir "$work")
	echo "kind=store case=$name $line" >>"$work/results"
}

for ((round = 1; round <= rounds; round++)); do
	for producers in 1 16 256; do
		run_store "append-$producers" append --producers "$producers" --seconds "$seconds"
	done
	run_store append-256-16 append --producers 256 --batch 16 --seconds "$seconds"
	run_store load-1000 load --events 1000
	run_store load-1000000 load --events 1000000
	run_store catchup catchup
done
run_store restart restart

print_machine
awk -f "$root/bench/report.awk" "$work/results"
echo
echo "Medians of $rounds rounds of $seconds s."
echo
"$build/bench/holdfast-bench-stream" ordinary
