/* A strict reader of one flat JSON object, see json.h. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 32

struct reader {
	const char *at;
	const char *end;
	struct json_object *object;
};

static void skip_space(struct reader *reader)
{
	while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
		reader->at++;
}

static bool accept(struct reader *reader, char wanted)
{
	skip_space(reader);
	if (reader->at >= reader->end || *reader->at != wanted)
		return false;
	reader->at++;
	return true;
}

static bool put(struct json_object *object, unsigned char byte)
{
	if (object->used + 1 >= sizeof(object->texts))
		return false;
	object->texts[object->used++] = (char)byte;
	return true;
}

/* Four hex digits, or -1. */
static long read_unit(struct reader *reader)
{
	long unit = 0;

	if (reader->end - reader->at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = *reader->at++;

		unit <<= 4;
		if (c >= '0' && c <= '9')
			unit |= c - '0';
		else if (c >= 'a' && c <= 'f')
			unit |= c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			unit |= c - 'A' + 10;
		else
			return -1;
	}
	return unit;
}

static bool put_code_point(struct json_object *object, long code)
{
	if (code < 0x80)
		return put(object, code);
	if (code < 0x800)
		return put(object, 0xc0 | code >> 6) && put(object, 0x80 | (code & 0x3f));
	if (code < 0x10000)
		return put(object, 0xe0 | code >> 12) && put(object, 0x80 | (code >> 6 & 0x3f)) &&
		       put(object, 0x80 | (code & 0x3f));
	return put(object, 0xf0 | code >> 18) && put(object, 0x80 | (code >> 12 & 0x3f)) &&
	       put(object, 0x80 | (code >> 6 & 0x3f)) && put(object, 0x80 | (code & 0x3f));
}

static const char *read_escape(struct reader *reader)
{
	static const char names[] = "\"\\/bfnrt";
	static const char values[] = "\"\\/\b\f\n\r\t";
	const char *name;
	long code, low;

	if (reader->at >= reader->end)
		return "a string does not end";
	char c = *reader->at++;

	if (c == 'u') {
		code = read_unit(reader);
		if (code <= 0)
			return "a bad \\u escape";
		if (code >= 0xd800 && code < 0xdc00) {
			if (reader->end - reader->at < 6 || reader->at[0] != '\\' || reader->at[1] != 'u')
				return "half a surrogate pair";
			reader->at += 2;
			low = read_unit(reader);
			if (low < 0xdc00 || low > 0xdfff)
				return "half a surrogate pair";
			code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		} else if (code >= 0xdc00 && code < 0xe000) {
			return "half a surrogate pair";
		}
		return put_code_point(reader->object, code) ? NULL : "the line's strings are too long";
	}
	name = c ? strchr(names, c) : NULL;
	if (!name)
		return "a bad escape";
	return put(reader->object, values[name - names]) ? NULL : "the line's strings are too long";
}

static const char *read_string(struct reader *reader, const char **text, size_t *length)
{
	size_t from = reader->object->used;

	if (!accept(reader, '"'))
		return "a string was expected";
	for (;;) {
		if (reader->at >= reader->end)
			return "a string does not end";
		unsigned char c = *reader->at++;

		if (c == '"')
			break;
		if (c < 0x20)
			return "a control character in a string";
		if (c == '\\') {
			const char *wrong = read_escape(reader);

			if (wrong)
				return wrong;
		} else if (!put(reader->object, c)) {
			return "the line's strings are too long";
		}
	}
	*text = reader->object->texts + from;
	*length = reader->object->used - from;
	if (reader->object->used >= sizeof(reader->object->texts))
		return "the line's strings are too long";
	reader->object->texts[reader->object->used++] = '\0';
	return NULL;
}

static const char *read_number(struct reader *reader, struct json_field *field)
{
	char digits[NUMBER_MAX];
	size_t length = 0;
	char *end;

	while (reader->at < reader->end && *reader->at && strchr("+-.eE0123456789", *reader->at)) {
		if (length + 1 >= sizeof(digits))
			return "a number is too long";
		digits[length++] = *reader->at++;
	}
	digits[length] = '\0';
	field->number = strtod(digits, &end);
	if (length == 0 || *end || !isfinite(field->number) || digits[0] == '+' || digits[0] == '.')
		return "a value was expected";
	field->type = JSON_NUMBER;
	return NULL;
}

static bool read_word(struct reader *reader, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length))
		return false;
	reader->at += length;
	return true;
}

static const char *read_value(struct reader *reader, struct json_field *field)
{
	skip_space(reader);
	if (reader->at < reader->end && *reader->at == '"') {
		field->type = JSON_STRING;
		return read_string(reader, &field->text, &field->length);
	}
	if (reader->at < reader->end && (*reader->at == '{' || *reader->at == '['))
		return "a value has values inside";
	if (read_word(reader, "true") || read_word(reader, "false")) {
		field->type = JSON_BOOLEAN;
		field->number = reader->at[-2] == 'u';
		return NULL;
	}
	if (read_word(reader, "null")) {
		field->type = JSON_NULL;
		return NULL;
	}
	return read_number(reader, field);
}

static const char *read_field(struct reader *reader)
{
	struct json_object *object = reader->object;
	struct json_field *field = &object->fields[object->count];
	const char *name, *wrong;
	size_t length;

	if (object->count == JSON_FIELDS_MAX)
		return "too many fields";
	memset(field, 0, sizeof(*field));
	wrong = read_string(reader, &name, &length);
	if (wrong)
		return wrong;
	if (length >= sizeof(field->name) || strlen(name) != length)
		return "a field's name is too long";
	memcpy(field->name, name, length + 1);
	if (json_field(object, name))
		return "a field is there twice";
	if (!accept(reader, ':'))
		return "':' was expected";
	wrong = read_value(reader, field);
	if (!wrong)
		object->count++;
	return wrong;
}

const char *json_read(struct json_object *object, const char *line, size_t length)
{
	struct reader reader = { .at = line, .end = line + length, .object = object };
	const char *wrong;

	object->count = 0;
	object->used = 0;
	if (!accept(&reader, '{'))
		return "not a JSON object";
	if (!accept(&reader, '}')) {
		do {
			wrong = read_field(&reader);
			if (wrong)
				return wrong;
		} while (accept(&reader, ','));
		if (!accept(&reader, '}'))
			return "'}' was expected";
	}
	skip_space(&reader);
	return reader.at == reader.end ? NULL : "something follows the object";
}

const struct json_field *json_field(const struct json_object *object, const char *name)
{
	for (size_t i = 0; i < object->count; i++)
		if (!strcmp(object->fields[i].name, name))
			return &object->fields[i];
	return NULL;
}

void json_print(const char *text, size_t length)
{
	putchar('"');
	for (size_t i = 0; i < length; i++) {
		unsigned char c = text[i];

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c); /* bytes, not characters: enough to recognise the line by */
		else
			putchar(c);
	}
	putchar('"');
}
