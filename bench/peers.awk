# Makes the tables of bench/run.sh --peers from its lines: kind=… case=… round=… and what the load tool said.

function median(list,    count, values, i, j, value) {
	count = split(list, values, " ")
	for (i = 2; i <= count; i++) {
		value = values[i] + 0
		for (j = i - 1; j > 0 && values[j] + 0 > value; j--)
			values[j + 1] = values[j]
		values[j + 1] = value
	}
	if (!count)
		return 0
	return count % 2 ? values[(count + 1) / 2] + 0 : (values[count / 2] + values[count / 2 + 1]) / 2
}

function has(kind, name, field) {
	return (kind, name, field) in all
}

function of(kind, name, field) {
	return median(all[kind, name, field])
}

# The median of the ratios in each round, in which the two ran one right after the other.
function ratio(a, b, name, field,    i, list) {
	for (i = 1; i <= rounds; i++)
		if (((a, name, field, i) in one) && one[b, name, field, i] > 0)
			list = list " " one[a, name, field, i] / one[b, name, field, i]
	return median(list)
}

function amount(value) {
	return value >= 1e6 ? sprintf("%.2f M", value / 1e6) : value >= 1e4 ? sprintf("%.0f k", value / 1e3) : sprintf("%.0f", value)
}

function ms(value) {
	return value < 99500 ? sprintf("%.2f", value / 1000) : sprintf("%.0f", value / 1000)
}

function rate_cell(kind, name, field) {
	return has(kind, name, field) ? amount(of(kind, name, field)) : "–"
}

function time_cell(kind, name, what) {
	if (!has(kind, name, what "_p50"))
		return "–"
	return ms(of(kind, name, what "_p50")) " / " ms(of(kind, name, what "_p99"))
}

function verdict(value, target, at_most) {
	if (!target || !value)
		return "–"
	return (at_most ? "at most " : "at least ") target ": " ((at_most ? value <= target : value >= target) ? "met" : "**missed**")
}

function ratio_cell(a, b, name, field,    value) {
	value = ratio(a, b, name, field)
	return value ? sprintf("%.2f", value) : "–"
}

# Tables are kept and printed with columns of one width, so that they can be read as text.
function row(text) {
	table[++lines] = text
}

# Characters, not bytes (LC_ALL=C).
function cell_width(text) {
	gsub(/[\200-\277]/, "", text)
	return length(text)
}

function flush_table(    i, k, count, cells, width, text) {
	for (i = 1; i <= lines; i++) {
		count = split(table[i], cells, "|")
		for (k = 2; k < count; k++) {
			gsub(/^ +| +$/, "", cells[k])
			if (cells[k] !~ /^-+$/ && cell_width(cells[k]) > width[k])
				width[k] = cell_width(cells[k])
		}
	}
	for (i = 1; i <= lines; i++) {
		count = split(table[i], cells, "|")
		text = "|"
		for (k = 2; k < count; k++) {
			gsub(/^ +| +$/, "", cells[k])
			if (cells[k] ~ /^-+$/) {
				while (length(cells[k]) < width[k])
					cells[k] = cells[k] "-"
			} else {
				while (cell_width(cells[k]) < width[k])
					cells[k] = cells[k] " "
			}
			text = text " " cells[k] " |"
		}
		print text
	}
	print ""
	lines = 0
}

function relay_row(text, name, target_kind, target,    to) {
	if (!has("holdfast", name, "deliveries_per_s"))
		return
	row("| " text " | " rate_cell("holdfast", name, "deliveries_per_s") " | " rate_cell("epoll", name, "deliveries_per_s") " | " \
		rate_cell("nats", name, "deliveries_per_s") " | " rate_cell("nchan", name, "deliveries_per_s") " | " \
		ratio_cell("holdfast", "epoll", name, "deliveries_per_s") " | " ratio_cell("holdfast", "nats", name, "deliveries_per_s") " | " \
		ratio_cell("holdfast", "nchan", name, "deliveries_per_s") " | " \
		(target ? target_kind " " : "") verdict(ratio("holdfast", target_kind, name, "deliveries_per_s"), target) " |")
}

function one_row(text, name, what) {
	if (!has("holdfast", name, what "_p50"))
		return
	row("| " text " | " time_cell("holdfast", name, what) " | " time_cell("epoll", name, what == "latency" ? what : "latency") " | " \
		ratio_cell("holdfast", "epoll", name, what "_p50") " / " ratio_cell("holdfast", "epoll", name, what "_p99") " | " \
		verdict(ratio("holdfast", "epoll", name, what "_p50"), 1.2, 1) ", " verdict(ratio("holdfast", "epoll", name, what "_p99"), 1.2, 1) " |")
}

function write_row(text, name) {
	if (!has("holdfast-write", name, "deliveries_per_s"))
		return
	row("| " text " | " rate_cell("holdfast-write", name, "deliveries_per_s") " | " rate_cell("nchan", name, "deliveries_per_s") " | " \
		rate_cell("nats", name, "deliveries_per_s") " | " time_cell("holdfast-write", name, "latency") " | " time_cell("nchan", name, "latency") " | " \
		ratio_cell("holdfast-write", "nchan", name, "deliveries_per_s") " | " verdict(ratio("holdfast-write", "nchan", name, "deliveries_per_s"), 1) " |")
}

function append_row(text, name, against, target,    value, to) {
	if (!has("holdfast", name, "events_per_s"))
		return
	value = against ? ratio("holdfast", against, name, "events_per_s") : 0
	to = against == "disk" ? "the raw disk " : against ? "JetStream " : ""
	row("| " text " | " rate_cell("holdfast", name, "events_per_s") " | " time_cell("holdfast", name, "ack") " | " \
		rate_cell("holdfast-write", name, "events_per_s") " | " rate_cell("jetstream", name, "events_per_s") " | " \
		time_cell("jetstream", name, "ack") " | " rate_cell("disk", name, "events_per_s") " | " \
		(value ? sprintf("%.2f", value) : "–") " | " (value ? to verdict(value, target) : "–") " |")
}

function print_http(rate, times) {
	printf "Over HTTP: %s/s, %s. Its p99 is %.1f times its p50, %s.\n\n", amount(rate), verdict(rate, 25000), times, verdict(times, 3, 1)
}

function catchup_cell(kind, name) {
	if (!has(kind, name, "events_per_s"))
		return "–"
	return amount(of(kind, name, "events_per_s")) (of(kind, name, "complete") ? "" : " (not to the end)")
}

function catchup_row(count,    name, html) {
	name = "catchup-markdown-" count
	html = "catchup-html-" count
	if (!has("holdfast", name, "events_per_s"))
		return
	row("| " count " | " catchup_cell("holdfast", name) " | " catchup_cell("holdfast", html) " | " catchup_cell("jetstream", name) " | " \
		sprintf("%.2f", has("holdfast", html, "events_per_s") ? of("holdfast", html, "events_per_s") / of("holdfast", name, "events_per_s") : 0) " | " \
		sprintf("%.0f / %.0f / %.0f", of("holdfast", name, "rss_most") / 1048576, of("holdfast", html, "rss_most") / 1048576, of("jetstream", name, "rss_most") / 1048576) " | " \
		verdict(has("holdfast", html, "events_per_s") ? of("holdfast", html, "events_per_s") / of("holdfast", name, "events_per_s") : 0, 0.8) " |")
}

function by_cell(kind, name) {
	if (!has(kind, name, "by_p50"))
		return "–"
	return ms(of(kind, name, "by_p50")) " / " ms(of(kind, name, "by_p99")) " / " ms(of(kind, name, "by_p999"))
}

function by_row(text, name,    write) {
	if (!has("holdfast", name, "by_p50"))
		return
	write = by_cell("holdfast-write", name)
	row("| " text " | " by_cell("holdfast", name) " | " write " | " by_cell("epoll", name) " | " by_cell("nats", name) " | " \
		by_cell("jetstream", name) " | " by_cell("nchan", name) " | " \
		(of("holdfast", name, "by_p999") <= 20000 ? "met" : "**missed**") " |")
}

function any(pattern,    key) {
	for (key in names)
		if (key ~ pattern)
			return 1
	return 0
}

{
	delete line
	for (i = 1; i <= NF; i++) {
		split($i, pair, "=")
		line[pair[1]] = pair[2]
	}
	name = line["case"]
	if (line["mode"] == "catchup")
		name = name "-" line["format"] "-" line["clients"]
	if (line["kind"] == "disk")
		line["events_per_s"] = line["count"] / line["seconds"]
	names[name] = 1
	rounds = line["round"] + 0 > rounds ? line["round"] + 0 : rounds
	for (field in line) {
		key = line["kind"] SUBSEP name SUBSEP field
		all[key] = all[key] " " line[field]
		one[key, line["round"]] = line[field]
	}
}

END {
	if (any("^fanout|^sessions")) {
		row("| deliveries/s | Holdfast | epoll + fdatasync | NATS, nothing stored | Nchan, nothing stored | to epoll | to NATS | to Nchan | target |")
		row("|-|-|-|-|-|-|-|-|-|")
		relay_row("100 observers, window 64", "fanout-100", "epoll", 0.9)
		relay_row("1,000 observers, window 64", "fanout-1000", "epoll", 0.9)
		relay_row("10,000 observers, window 64", "fanout-10000", "epoll", 0.9)
		relay_row("1 session × 10 observers, window 64", "sessions-1", "", 0)
		relay_row("1,000 sessions × 10, 64 in flight", "sessions-64", "nats", 2)
		relay_row("1,000 sessions × 10, one in flight each", "sessions-1000", "nats", 2)
		flush_table()
	}
	if (any("^one")) {
		row("| one in flight, ms, p50 / p99 | Holdfast | epoll + fdatasync | ratios | target |")
		row("|-|-|-|-|-|")
		one_row("100 observers", "one-100", "latency")
		one_row("1,000 observers", "one-1000", "latency")
		flush_table()
		row("| one in flight, deliveries/s | Holdfast `write` | Nchan | NATS | Holdfast, ms | Nchan, ms | to Nchan | target |")
		row("|-|-|-|-|-|-|-|-|")
		write_row("100 observers", "one-100")
		write_row("1,000 observers", "one-1000")
		flush_table()
	}
	if (any("^append")) {
		row("| durable appends/s; ms until acknowledged, p50 / p99 | Holdfast | ms | Holdfast `write` | JetStream, not synced | ms | raw disk | ratio | target |")
		row("|-|-|-|-|-|-|-|-|-|")
		append_row("one at a time", "append-1", "disk", 0.85)
		append_row("window 64", "append-64", "jetstream", 1)
		append_row("256 producers", "append-256", "jetstream", 1)
		append_row("256 producers over HTTP", "append-http", "", 0)
		flush_table()
		if (has("holdfast", "append-http", "ack_p50"))
			print_http(of("holdfast", "append-http", "events_per_s"), of("holdfast", "append-http", "ack_p99") / of("holdfast", "append-http", "ack_p50"))
	}
	if (any("^catchup")) {
		row("| catch-up of 100,000, events/s | Holdfast, markdown | Holdfast, html | JetStream | html to markdown | MiB of memory, the three | target |")
		row("|-|-|-|-|-|-|-|")
		catchup_row(1)
		catchup_row(10)
		catchup_row(100)
		flush_table()
	}
	if (any("^idle|^reconnect")) {
		row("| | Holdfast | NATS | Nchan | target |")
		row("|-|-|-|-|-|")
		if (has("holdfast", "idle", "bytes_per_observer"))
			row(sprintf("| an idle observer of 5,000, KiB | %.1f | %.1f | %.1f | %s |", of("holdfast", "idle", "bytes_per_observer") / 1024,
				of("nats", "idle", "bytes_per_observer") / 1024, of("nchan", "idle", "bytes_per_observer") / 1024,
				verdict(of("holdfast", "idle", "bytes_per_observer") / 1024, 4, 1)))
		if (has("holdfast", "reconnect", "seconds"))
			row(sprintf("| 5,000 reconnect at once, 100 behind, s | %.2f | – | %.2f | – |", of("holdfast", "reconnect", "seconds"), of("nchan", "reconnect", "seconds")))
		flush_table()
	}
	if (has("holdfast", "screen", "chunk_p50")) {
		row("| 100 observers, 100 chunks/s, ms | p50 / p99 | to epoll + fdatasync, p50 | target |")
		row("|-|-|-|-|")
		row("| an event through epoll + fdatasync | " time_cell("epoll", "screen", "latency") " | – | – |")
		least = of("epoll", "screen", "latency_p50")
		row("| a chunk to the screen | " time_cell("holdfast", "screen", "chunk") sprintf(" | %+.2f ms | ", (of("holdfast", "screen", "chunk_p50") - least) / 1000) \
			(of("holdfast", "screen", "chunk_p50") <= least + 300 ? "+0.3: met |" : "+0.3: **missed** |"))
		row("| a finished block | " time_cell("holdfast", "screen", "block") sprintf(" | %+.2f ms | ", (of("holdfast", "screen", "block_p50") - least) / 1000) \
			(of("holdfast", "screen", "block_p50") <= least + 300 ? "+0.3: met |" : "+0.3: **missed** |"))
		flush_table()
	}
	row("| a bystander meanwhile, ms, p50 / p99 / p99.9 | Holdfast | Holdfast `write` | epoll + fdatasync | NATS | JetStream | Nchan | 20 ms |")
	row("|-|-|-|-|-|-|-|-|")
	by_row("alone", "alone")
	by_row("100 observers, window 64", "fanout-100")
	by_row("1,000 observers, window 64", "fanout-1000")
	by_row("10,000 observers, window 64", "fanout-10000")
	by_row("100 observers, one in flight", "one-100")
	by_row("1,000 observers, one in flight", "one-1000")
	by_row("1,000 sessions × 10, 64 in flight", "sessions-64")
	by_row("1,000 sessions × 10, one in flight each", "sessions-1000")
	by_row("appends one at a time", "append-1")
	by_row("appends, window 64", "append-64")
	by_row("256 producers", "append-256")
	by_row("256 producers over HTTP", "append-http")
	for (i = 1; i <= 100; i *= 10)
		by_row("catch-up, markdown, " i, "catchup-markdown-" i)
	for (i = 1; i <= 100; i *= 10)
		by_row("catch-up, html, " i, "catchup-html-" i)
	by_row("5,000 reconnect at once", "reconnect")
	by_row("100 observers, text that grows", "screen")
	flush_table()
}
