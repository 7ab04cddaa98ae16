/*
 * Lines in, lines out. Between "begin" and "commit" entries are only staged: whatever interrupts the caller,
 * what is in force stays as it was. Outside, each change is made at once.
 */
#include "sync.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include "json.h"
#include "lists.h"
#include "trial.h"

#define LINE_MAX_BYTES 12288
#define ECHO_MAX 160
#define EXACT_MAX 9007199254740992.0
#define REPEAT_MAX 100000000
/* Refused entries that the answer to a commit names. */
#define NAMED_MAX 10

struct refusal {
	enum list list;
	char net[NET_TEXT_MAX];
	const char *why;
};

struct session {
	struct filter *filter;
	bool trying;
	struct stage stage;
	bool open;   /* between begin and commit */
	bool broken; /* a line in between could not be read: commit is refused */
	__u64 version;
	size_t refused; /* since begin */
	struct refusal refusals[NAMED_MAX]; /* the first of them */
	unsigned long line;
	bool complained;
	struct json_object object;
};

static void complain(struct session *session, const char *wrong, const char *line, size_t length)
{
	session->complained = true;
	printf("{\"ok\":false,\"line\":%lu,\"error\":", session->line);
	json_print(wrong, strlen(wrong));
	printf(",\"input\":");
	json_print(line, length < ECHO_MAX ? length : ECHO_MAX);
	printf("}\n");
}

/* A whole number from 0 to `most` in this field, `missing` without it; -1 if it is anything else. */
static double whole_number(const struct json_object *object, const char *name, double missing, double most)
{
	const struct json_field *field = json_field(object, name);

	if (!field || field->type == JSON_NULL)
		return missing;
	if (field->type != JSON_NUMBER || field->number < 0 || field->number > most ||
	    field->number != (double)(__u64)field->number)
		return -1;
	return field->number;
}

static const char *text_field(const struct json_object *object, const char *name)
{
	const struct json_field *field = json_field(object, name);

	return field && field->type == JSON_STRING && strlen(field->text) == field->length ? field->text : NULL;
}

/* --- lists --- */

static const char *read_listing(const struct json_object *object, struct listing *listing)
{
	const char *text = text_field(object, "net");
	double until = whole_number(object, "until", 0, EXACT_MAX);
	double severity = whole_number(object, "severity", 0, 255);
	const char *wrong;

	if (!text)
		return "\"net\" is missing";
	if (until < 0)
		return "\"until\" is not a Unix time in milliseconds";
	if (severity < 0)
		return "\"severity\" is not from 0 to 255";
	wrong = net_read(&listing->net, text);
	if (wrong)
		return wrong;
	listing->until_ms = until;
	listing->severity = severity;
	return listing_refused(listing);
}

static void count_refused(struct session *session, enum list list, const char *why)
{
	const char *net = text_field(&session->object, "net");
	struct tidegate_state state;

	if (session->refused < NAMED_MAX) {
		struct refusal *refusal = &session->refusals[session->refused];

		refusal->list = list;
		refusal->why = why;
		snprintf(refusal->net, sizeof(refusal->net), "%s", net ? net : "");
	}
	session->refused++;
	if (!filter_state(session->filter, &state)) {
		state.refused++;
		filter_state_write(session->filter, &state);
	}
}

static const char *error_text(int error)
{
	return error == -ENOSPC || error == -E2BIG ? "the list is full of more severe entries" : strerror(-error);
}

static const char *add(struct session *session, enum list list)
{
	struct listing listing = { .list = list };
	const char *wrong = read_listing(&session->object, &listing);
	char text[NET_TEXT_MAX];
	bool replaced = false;
	int error;

	if (wrong) {
		count_refused(session, list, wrong);
		return wrong;
	}
	if (session->open) {
		error = stage_add(&session->stage, &listing);
		return error ? error_text(error) : NULL;
	}
	if (listing.until_ms && listing.until_ms <= unix_ms())
		return "\"until\" is over already";
	error = list_add(session->filter, &listing, &replaced);
	if (error)
		return error_text(error);
	printf("{\"ok\":true,\"op\":\"%s\",\"net\":\"%s\",\"replaced\":%s}\n", list == LIST_BAN ? "ban" : "allow",
	       net_write(&listing.net, text), replaced ? "true" : "false");
	return NULL;
}

static const char *op_ban(struct session *session)
{
	return add(session, LIST_BAN);
}

static const char *op_allow(struct session *session)
{
	return add(session, LIST_ALLOW);
}

static const char *take_out(struct session *session, enum list list)
{
	struct listing listing = { .list = list };
	const char *text = text_field(&session->object, "net");
	const char *wrong = text ? net_read(&listing.net, text) : "\"net\" is missing";
	char out[NET_TEXT_MAX];
	int found;

	if (wrong)
		return wrong;
	if (session->open)
		return "between begin and commit entries can only be added";
	found = list_remove(session->filter, &listing);
	if (found < 0)
		return error_text(found);
	printf("{\"ok\":true,\"op\":\"%s\",\"net\":\"%s\",\"found\":%s}\n", list == LIST_BAN ? "unban" : "unallow",
	       net_write(&listing.net, out), found ? "true" : "false");
	return NULL;
}

static const char *op_unban(struct session *session)
{
	return take_out(session, LIST_BAN);
}

static const char *op_unallow(struct session *session)
{
	return take_out(session, LIST_ALLOW);
}

static void close_stage(struct session *session)
{
	stage_clear(&session->stage);
	session->open = false;
	session->broken = false;
}

static const char *op_begin(struct session *session)
{
	double version = whole_number(&session->object, "generation", 0, EXACT_MAX);

	if (version < 0)
		return "\"generation\" is not a whole number";
	close_stage(session);
	session->open = true;
	session->refused = 0;
	session->version = version;
	return NULL;
}

static const char *op_abort(struct session *session)
{
	close_stage(session);
	printf("{\"ok\":true,\"op\":\"abort\"}\n");
	return NULL;
}

static void print_refusals(const struct session *session)
{
	for (size_t i = 0; i < session->refused && i < NAMED_MAX; i++) {
		const struct refusal *refusal = &session->refusals[i];

		printf("%s{\"list\":\"%s\",\"net\":", i ? "," : "", refusal->list == LIST_BAN ? "ban" : "allow");
		json_print(refusal->net, strlen(refusal->net));
		printf(",\"error\":");
		json_print(refusal->why, strlen(refusal->why));
		putchar('}');
	}
}

static const char *op_commit(struct session *session)
{
	struct commit commit;
	int error;

	if (!session->open)
		return "commit without begin";
	if (session->broken) {
		close_stage(session);
		return "a line since begin could not be read; nothing was changed";
	}
	error = stage_commit(session->filter, &session->stage, session->version, &commit);
	close_stage(session);
	if (error)
		return strerror(-error);
	printf("{\"ok\":true,\"op\":\"commit\",\"generation\":%llu,\"bans\":%zu,\"allows\":%zu,\"removed\":%zu,"
	       "\"leftOut\":%zu,\"expired\":%zu,\"refused\":%zu,\"tookMs\":%.3f,\"refusals\":[",
	       session->version, commit.bans, commit.allows, commit.swept, commit.left_out, commit.expired,
	       session->refused, commit.took_ms);
	print_refusals(session);
	printf("]}\n");
	return NULL;
}

/* --- trying out --- */

static const char *op_packet(struct session *session)
{
	double repeat = whole_number(&session->object, "repeat", 1, REPEAT_MAX);

	return try_packet(session->filter, text_field(&session->object, "hex"), repeat);
}

/* --- lines --- */

struct operation {
	const char *name;
	const char *(*run)(struct session *session);
	bool trying;
};

static const struct operation OPERATIONS[] = {
	{ "begin", op_begin, false },     { "ban", op_ban, false },	      { "allow", op_allow, false },
	{ "unban", op_unban, false },     { "unallow", op_unallow, false }, { "abort", op_abort, false },
	{ "commit", op_commit, false },   { "packet", op_packet, true },
};

static const struct operation *operation_of(const struct session *session)
{
	const char *name = text_field(&session->object, "op");

	for (size_t i = 0; name && i < sizeof(OPERATIONS) / sizeof(*OPERATIONS); i++)
		if (!strcmp(OPERATIONS[i].name, name) && (session->trying || !OPERATIONS[i].trying))
			return &OPERATIONS[i];
	return NULL;
}

static void run_line(struct session *session, const char *line, size_t length)
{
	const char *wrong = json_read(&session->object, line, length);
	const struct operation *operation = wrong ? NULL : operation_of(session);

	if (!operation) {
		/* What it would have said is unknown, so the list that it is part of must not count as whole. */
		session->broken = session->open;
		complain(session, wrong ? wrong : "unknown \"op\"", line, length);
		return;
	}
	/* Others wait only while something changes, not while this run waits for lines. */
	if (session->filter->lock >= 0)
		flock(session->filter->lock, LOCK_EX);
	if (filter_attached(session->filter))
		wrong = operation->run(session);
	else
		wrong = "the filter has been detached, or its interface is gone; start again after attaching";
	if (session->filter->lock >= 0)
		flock(session->filter->lock, LOCK_UN);
	if (wrong)
		complain(session, wrong, line, length);
}

/* The next line without its end; bytes beyond LINE_MAX_BYTES are read and forgotten. -1 at the end. */
static long next_line(char *line, bool *cut)
{
	size_t length = 0;
	int c;

	*cut = false;
	while ((c = getchar_unlocked()) != EOF && c != '\n') {
		if (length < LINE_MAX_BYTES)
			line[length++] = c;
		else
			*cut = true;
	}
	return c == EOF && length == 0 ? -1 : (long)length;
}

int sync_run(struct filter *filter, bool trying)
{
	static struct session session;
	static char line[LINE_MAX_BYTES];
	long length;
	bool cut;

	session.filter = filter;
	session.trying = trying;
	while ((length = next_line(line, &cut)) >= 0) {
		session.line++;
		if (cut) {
			session.broken = session.open;
			complain(&session, "the line is too long", line, length);
		} else if (length > 0) {
			run_line(&session, line, length);
		}
		fflush(stdout);
		if (ferror(stdout))
			break;
	}
	if (session.open)
		complain(&session, "the input ended before commit; nothing was changed", "", 0);
	stage_clear(&session.stage);
	fflush(stdout);
	return session.complained ? EXIT_INPUT : EXIT_DONE;
}
