#include "holdfast/store_versions.h"

void versions_tell_formats(
	struct buffer *out, const char *what, uint64_t has, unsigned from, unsigned to)
{
	buffer_printf(out, "%s %llu, and this program (holdfast %s) reads ", what,
		(unsigned long long)has, HOLDFAST_VERSION);
	if (from == to) {
		buffer_printf(out, "%u only", from);
	} else {
		buffer_printf(out, "%u to %u", from, to);
	}
	buffer_printf(out, ": install %s holdfast", has > to ? "a newer" : "an older");
}

bool record_is_known(const struct record *record)
{
	return record->kind >= RECORD_CREATE && record->kind <= RECORD_NEWEST;
}

bool record_may_be_left_out(const struct record *record)
{
	return !record_is_known(record) && (record->kind & RECORD_MAY_BE_LEFT_OUT);
}

bool versions_tell_record(
	snapshot_is_foreign *is_foreign, const struct record *record, struct buffer *out)
{
	unsigned has;
	unsigned from;
	unsigned to;
	if (!record_is_known(record) && !record_may_be_left_out(record)) {
		buffer_printf(out,
			"it has a record of kind %u, which this program (holdfast %s) does not know: install a newer holdfast",
			(unsigned)record->kind, HOLDFAST_VERSION);
		return true;
	}
	if (record->kind == RECORD_SNAPSHOT && is_foreign && is_foreign(record, &has, &from, &to)) {
		buffer_printf(
			out, "its snapshot of session %.*s has", (int)record->id_len, record->id);
		versions_tell_formats(out, " version", has, from, to);
		return true;
	}
	return false;
}
