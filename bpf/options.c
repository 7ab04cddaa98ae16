/* Options of the command line: names, ranges, and the words for what does not fit. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MS_MAX 60000
#define EVENTS_MAX 100000
#define QUIET_S_MAX 86400
#define SIZE_MAX_ENTRIES 16777216

enum wish_option {
	OPTION_IFACE = 256, OPTION_PIN, OPTION_MODE, OPTION_SOURCES, OPTION_BANS,
	OPTION_PACKET_CAP, OPTION_PACKET_WINDOW, OPTION_SYN_CAP, OPTION_SYN_WINDOW,
	OPTION_DRY_RUN, OPTION_DEEP_VLAN, OPTION_MANAGEMENT, OPTION_EVENTS, OPTION_QUIET, OPTION_JSON,
};

static const struct option OPTIONS[] = {
	{ "iface", required_argument, NULL, OPTION_IFACE },
	{ "pin", required_argument, NULL, OPTION_PIN },
	{ "mode", required_argument, NULL, OPTION_MODE },
	{ "sources", required_argument, NULL, OPTION_SOURCES },
	{ "bans", required_argument, NULL, OPTION_BANS },
	{ "packet-cap", required_argument, NULL, OPTION_PACKET_CAP },
	{ "packet-window-ms", required_argument, NULL, OPTION_PACKET_WINDOW },
	{ "syn-cap", required_argument, NULL, OPTION_SYN_CAP },
	{ "syn-window-ms", required_argument, NULL, OPTION_SYN_WINDOW },
	{ "dry-run", required_argument, NULL, OPTION_DRY_RUN },
	{ "deep-vlan", required_argument, NULL, OPTION_DEEP_VLAN },
	{ "management", required_argument, NULL, OPTION_MANAGEMENT },
	{ "events-per-second", required_argument, NULL, OPTION_EVENTS },
	{ "event-quiet-s", required_argument, NULL, OPTION_QUIET },
	{ "json", no_argument, NULL, OPTION_JSON },
	{},
};

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* What fits an option, in words. */
static const char *fitting(int option)
{
	switch (option) {
	case OPTION_PIN:
		return "a path from the root";
	case OPTION_MODE:
		return "driver or generic";
	case OPTION_SOURCES:
	case OPTION_BANS:
		return "a whole number from 1 to " TEXT(SIZE_MAX_ENTRIES);
	case OPTION_PACKET_CAP:
	case OPTION_SYN_CAP:
		return "a whole number from 0 (no cap) to " TEXT(TIDEGATE_CAP_MAX);
	case OPTION_PACKET_WINDOW:
	case OPTION_SYN_WINDOW:
		return "a whole number of milliseconds from 1 to " TEXT(WINDOW_MS_MAX);
	case OPTION_DRY_RUN:
		return "on or off";
	case OPTION_DEEP_VLAN:
		return "pass or drop";
	case OPTION_MANAGEMENT:
		return "none, or one of at most " TEXT(NETS_MAX)
		       " networks, /1 or narrower: with all addresses exempt there would be no filter";
	case OPTION_EVENTS:
		return "a whole number from 0 to " TEXT(EVENTS_MAX);
	case OPTION_QUIET:
		return "a whole number of seconds from 0 to " TEXT(QUIET_S_MAX);
	}
	return "something else";
}

static int bad_value(int option, const char *name, const char *value)
{
	return fail(EXIT_INPUT, "see `tidegate-xdp help` and bpf/README.md", "--%s %.64s does not fit: wanted is %s",
		    name, value, fitting(option));
}

static bool read_number(const char *text, long least, long most, long *number)
{
	char *end;

	errno = 0;
	*number = strtol(text, &end, 10);
	return !errno && *text && !*end && *number >= least && *number <= most;
}

static bool read_choice(const char *text, const char *no, const char *yes, long *choice)
{
	*choice = !strcmp(text, yes);
	return *choice || !strcmp(text, no);
}

static bool read_management(struct wishes *wishes, const char *text)
{
	struct listing *listing = &wishes->management[wishes->management_count];

	wishes->management_given = true;
	if (!strcmp(text, "none"))
		return true;
	if (wishes->management_count == NETS_MAX)
		return false;
	listing->list = LIST_MANAGEMENT;
	if (net_read(&listing->net, text) || listing_refused(listing))
		return false;
	wishes->management_count++;
	return true;
}

static bool read_size(const char *text, unsigned int *size)
{
	long number;

	if (!read_number(text, 1, SIZE_MAX_ENTRIES, &number))
		return false;
	*size = number;
	return true;
}

static bool read_option(struct wishes *wishes, int option, const char *text)
{
	long choice;

	switch (option) {
	case OPTION_IFACE:
		wishes->interface = text;
		return true;
	case OPTION_PIN:
		wishes->root = text;
		return *text == '/';
	case OPTION_MODE:
		if (!read_choice(text, "generic", "driver", &choice))
			return false;
		wishes->mode = choice ? TIDEGATE_DRIVER : TIDEGATE_GENERIC;
		return true;
	case OPTION_SOURCES:
		return read_size(text, &wishes->sizes.sources);
	case OPTION_BANS:
		return read_size(text, &wishes->sizes.bans);
	case OPTION_PACKET_CAP:
		return read_number(text, 0, TIDEGATE_CAP_MAX, &wishes->packet_cap);
	case OPTION_PACKET_WINDOW:
		return read_number(text, 1, WINDOW_MS_MAX, &wishes->packet_window_ms);
	case OPTION_SYN_CAP:
		return read_number(text, 0, TIDEGATE_CAP_MAX, &wishes->syn_cap);
	case OPTION_SYN_WINDOW:
		return read_number(text, 1, WINDOW_MS_MAX, &wishes->syn_window_ms);
	case OPTION_DRY_RUN:
		return read_choice(text, "off", "on", &wishes->dry_run);
	case OPTION_DEEP_VLAN:
		return read_choice(text, "pass", "drop", &wishes->deep_vlan_drop);
	case OPTION_MANAGEMENT:
		return read_management(wishes, text);
	case OPTION_EVENTS:
		return read_number(text, 0, EVENTS_MAX, &wishes->events_per_second);
	case OPTION_QUIET:
		return read_number(text, 0, QUIET_S_MAX, &wishes->event_quiet_s);
	case OPTION_JSON:
		return true;
	}
	return false;
}

int read_options(struct wishes *wishes, int count, char **words)
{
	int option, index = 0;

	*wishes = (struct wishes){ .root = PIN_ROOT,
				   .packet_cap = -1,
				   .packet_window_ms = -1,
				   .syn_cap = -1,
				   .syn_window_ms = -1,
				   .dry_run = -1,
				   .deep_vlan_drop = -1,
				   .events_per_second = -1,
				   .event_quiet_s = -1 };
	opterr = 0;
	while ((option = getopt_long(count, words, "", OPTIONS, &index)) != -1) {
		if (option == '?')
			return fail(EXIT_INPUT, "see `tidegate-xdp help`", "unknown option or no value: %s",
				    words[optind - 1]);
		if (!read_option(wishes, option, optarg))
			return bad_value(option, OPTIONS[index].name, optarg ? optarg : "");
	}
	if (optind < count)
		return fail(EXIT_INPUT, "see `tidegate-xdp help`", "%s was not expected", words[optind]);
	return EXIT_DONE;
}
