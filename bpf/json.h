/*
 * Reads one line of the control protocol: a flat JSON object (RFC 8259) of strings, numbers, booleans and
 * null. Everything is bounded, nothing is allocated; what does not fit is refused, never cut off silently.
 */
#ifndef TIDEGATE_JSON_H
#define TIDEGATE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_FIELDS_MAX 12
#define JSON_NAME_MAX 24
/* A frame of 4 KB in hex is the longest value there is. */
#define JSON_TEXT_MAX 8192

enum json_type { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING };

struct json_field {
	char name[JSON_NAME_MAX];
	enum json_type type;
	double number;    /* 0 or 1 for booleans */
	const char *text; /* of a string, without escapes, ends with NUL */
	size_t length;
};

struct json_object {
	struct json_field fields[JSON_FIELDS_MAX];
	size_t count;
	char texts[JSON_TEXT_MAX];
	size_t used;
};

/* NULL, or what is wrong with the line. */
const char *json_read(struct json_object *object, const char *line, size_t length);

/* The field of this name, or NULL. */
const struct json_field *json_field(const struct json_object *object, const char *name);

/* Prints `text` to standard output as a JSON string with its quotes. */
void json_print(const char *text, size_t length);

#endif
