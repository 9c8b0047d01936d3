/*
 * Parameters and results of statements in PostgreSQL's binary format (55.7 in its documentation,
 * and array_recv() in its sources).
 */
#include "pg.h"

#include <endian.h>
#include <string.h>

/*
 * An array begins with: number of dimensions, whether it has NULLs, type and number of elements,
 * first index; 4 bytes each. Each element follows with its length in front (-1: NULL).
 */

static void put_be(struct buffer *out, uint64_t value, size_t width)
{
	char bytes[8];
	for (size_t i = 0; i < width; i++) {
		bytes[i] = (char)(value >> (8 * (width - 1 - i)));
	}
	buffer_append(out, bytes, width);
}

static int add(struct pg_params *params, enum pg_type type)
{
	params->types[params->count] = type;
	return params->count++;
}

void pg_params_finish(struct pg_params *params)
{
	for (int i = 0; i < params->count; i++) {
		buffer_finish(&params->values[i]);
	}
	*params = (struct pg_params){0};
}

int pg_add_bigint(struct pg_params *params, int64_t value)
{
	int place = add(params, PG_BIGINT);
	put_be(&params->values[place], (uint64_t)value, 8);
	return place;
}

static int add_bytes(struct pg_params *params, enum pg_type type, const void *bytes, size_t len)
{
	int place = add(params, type);
	buffer_reserve(&params->values[place], 1); /* so that an empty value is not NULL */
	buffer_append(&params->values[place], bytes, len);
	return place;
}

int pg_add_text(struct pg_params *params, const char *text, size_t len)
{
	return add_bytes(params, PG_TEXT, text, len);
}

int pg_add_null_text(struct pg_params *params)
{
	return add(params, PG_TEXT); /* its value has no pointer */
}

int pg_add_bytea(struct pg_params *params, const void *bytes, size_t len)
{
	return add_bytes(params, PG_BYTEA, bytes, len);
}

int pg_add_array(struct pg_params *params, enum pg_type type)
{
	Oid element = type == PG_BIGINT_ARRAY ? PG_BIGINT
		      : type == PG_TEXT_ARRAY ? PG_TEXT
					      : PG_BYTEA;
	int place = add(params, type);
	struct buffer *out = &params->values[place];
	put_be(out, 1, 4);
	put_be(out, 0, 4);
	put_be(out, element, 4);
	put_be(out, 0, 4);
	put_be(out, 1, 4);
	return place;
}

static void count(struct pg_params *params, int place)
{
	uint32_t elements = htobe32(++params->elements[place]);
	memcpy(params->values[place].data + 12, &elements, sizeof(elements));
}

void pg_put_bigint(struct pg_params *params, int place, int64_t value)
{
	put_be(&params->values[place], 8, 4);
	put_be(&params->values[place], (uint64_t)value, 8);
	count(params, place);
}

void pg_put_bytes(struct pg_params *params, int place, const void *bytes, size_t len)
{
	put_be(&params->values[place], len, 4);
	buffer_append(&params->values[place], bytes, len);
	count(params, place);
}

void pg_put_null(struct pg_params *params, int place)
{
	uint32_t has_null = htobe32(1);
	put_be(&params->values[place], UINT32_MAX, 4);
	memcpy(params->values[place].data + 4, &has_null, sizeof(has_null));
	count(params, place);
}

int64_t pg_get_bigint(const PGresult *result, int row, int column)
{
	uint64_t value = 0;
	if (PQgetlength(result, row, column) == sizeof(value)) {
		memcpy(&value, PQgetvalue(result, row, column), sizeof(value));
	}
	return (int64_t)be64toh(value);
}
