# Makes the tables of RESULTS.md from the lines that bench/run.sh has gathered: kind=… case=… and what the load tool said.

function median(list,    count, values, i, j, value) {
	count = split(list, values, " ")
	for (i = 2; i <= count; i++) {
		value = values[i] + 0
		for (j = i - 1; j > 0 && values[j] + 0 > value; j--)
			values[j + 1] = values[j]
		values[j + 1] = value
	}
	return count % 2 ? values[(count + 1) / 2] + 0 : (values[count / 2] + values[count / 2 + 1]) / 2
}

# The median over the runs that were not disturbed; if all were, over all.
function of(kind, name, field) {
	return median((kind, name, field) in quiet ? quiet[kind, name, field] : all[kind, name, field])
}

# A row with a figure from disturbed runs says so.
function label(text, name,    list, i) {
	split("holdfast peer-sync peer", list, " ")
	for (i = 1; i <= 3; i++)
		if (!((list[i], name, "other_cpu_percent") in quiet))
			return text " (disturbed)"
	return text
}

function ratio(name, field) {
	return sprintf("%.2f", of("holdfast", name, field) / of("peer-sync", name, field))
}

function amount(value) {
	return value >= 1e6 ? sprintf("%.2f M", value / 1e6) : value >= 1e4 ? sprintf("%.0f k", value / 1e3) : sprintf("%.0f", value)
}

function ms(value) {
	return sprintf("%.2f", value / 1000)
}

function times(kind, name) {
	return ms(of(kind, name, "latency_p50")) " / " ms(of(kind, name, "latency_p99"))
}

function throughput_row(text, name) {
	printf "| %s | %s | **%s** | %s | %s | %s | %.0f / %.0f |\n", label(text, name),
		amount(of("holdfast", name, "events_per_s")), amount(of("holdfast", name, "deliveries_per_s")),
		amount(of("peer-sync", name, "deliveries_per_s")), amount(of("peer", name, "deliveries_per_s")),
		ratio(name, "deliveries_per_s"), of("holdfast", name, "cpu_ns_per_delivery"),
		of("peer-sync", name, "cpu_ns_per_delivery")
}

function latency_row(text, name) {
	printf "| %s | %s / **%s** / %s / %s | %s | %s | %s | %s |\n", label(text, name),
		ms(of("holdfast", name, "latency_p50")), ms(of("holdfast", name, "latency_p99")),
		ms(of("holdfast", name, "latency_p999")), ms(of("holdfast", name, "latency_max")),
		times("peer-sync", name), times("peer", name), ratio(name, "latency_p50"), ratio(name, "latency_p99")
}

function idle_row(name) {
	printf "| %d | %.1f MiB | %.1f MiB | **%.1f KiB** | %.1f KiB |\n", of("holdfast", name, "observers"),
		of("holdfast", name, "rss_before") / 1048576, of("holdfast", name, "rss_after_event") / 1048576,
		of("holdfast", name, "bytes_per_observer") / 1024,
		of("holdfast", name, "bytes_per_observer_after_event") / 1024
}

function append_row(text, name) {
	printf "| %s | %s | **%s** | %s | %.2f |\n", text, amount(of("store", name, "appends_per_s")),
		amount(of("store", name, "events_per_s")), amount(of("store", name, "raw_per_s")),
		of("store", name, "appends_per_s") / of("store", name, "raw_per_s")
}

function load_row(text, name) {
	printf "| %s | **%.2f** | %.2f | %.2f |\n", text, of("store", name, "load_ms"), of("store", name, "load_max_ms"),
		of("store", name, "open_ms")
}

{
	delete line
	for (i = 1; i <= NF; i++) {
		split($i, pair, "=")
		line[pair[1]] = pair[2]
	}
	name = line["case"] "-" line["observers"]
	other = 0
	if ("other_cpu_percent" in line) {
		other = line["other_cpu_percent"]
		runs++
		calm += other <= 10
	}
	for (field in line) {
		key = line["kind"] SUBSEP name SUBSEP field
		all[key] = all[key] " " line[field]
		if (other <= 10)
			quiet[key] = quiet[key] " " line[field]
	}
}

END {
	print "| throughput | events/s | deliveries/s | peer with sync | peer | ratio | CPU ns per delivery |"
	print "|---|---|---|---|---|---|---|"
	throughput_row("1 observer", "throughput-1")
	throughput_row("100 observers", "throughput-100")
	throughput_row("1,000 observers", "throughput-1000")
	throughput_row("100 observers, one event an append", "singles-100")
	print ""
	print "| latency in ms | p50 / p99 / p99.9 / max | peer with sync, p50 / p99 | peer, p50 / p99 | ratio p50 | ratio p99 |"
	print "|---|---|---|---|---|---|"
	latency_row("1 observer", "latency-1")
	latency_row("100 observers", "latency-100")
	latency_row("1,000 observers", "latency-1000")
	latency_row("100 observers, 500 events/s", "rate-100")
	print ""
	print "| idle observers | before | after | each | each, after an event |"
	print "|---|---|---|---|---|"
	idle_row("idle-1000")
	idle_row("idle-5000")
	print ""
	printf "In %d of %d runs other programs took a tenth of a CPU at most; the others were left out.\n", calm, runs
	printf "One `fdatasync` of a 256-byte append on this disk: p50 %s ms, p99 %s ms.\n",
		ms(of("disk", "sync-", "sync_p50")), ms(of("disk", "sync-", "sync_p99"))
	print ""
	print "| durable appends | appends/s | events/s | appends and syncs the bare disk takes in a second | ratio |"
	print "|---|---|---|---|---|"
	append_row("1 producer", "append-1-")
	append_row("16 producers", "append-16-")
	append_row("256 producers", "append-256-")
	append_row("256 producers, 16 events an append", "append-256-16-")
	print ""
	print "| the last 50 events, from a cold disk, ms | median of 11 | slowest | with connecting |"
	print "|---|---|---|---|"
	load_row("of 1,000", "load-1000-")
	load_row("of 1,000,000", "load-1000000-")
	print ""
	printf "Catching up with 100,000 events in the format markdown: %s events/s.\n", amount(of("store", "catchup-", "events_per_s"))
	printf "Start with 10,000 idle sessions: %.2f s, from a cold disk %.2f s; %.0f bytes of memory for each, and %.0f when each has been used and left memory again.\n",
		of("store", "restart-", "start_ms") / 1000, of("store", "restart-", "start_cold_ms") / 1000,
		of("store", "restart-", "bytes_per_session"), of("store", "restart-", "bytes_per_session_after_use")
}
