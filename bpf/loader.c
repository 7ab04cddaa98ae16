/* tidegate-xdp: puts the filter on an interface, tells it what to ban, shows what it does. README.md. */
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "events.h"
#include "filter.h"
#include "json.h"
#include "lists.h"
#include "sync.h"

#define NETS_MAX 256
#define WINDOW_MS_MAX 60000
#define EVENTS_MAX 100000
#define QUIET_S_MAX 86400
#define SIZE_MAX_ENTRIES 16777216

static const char USAGE[] =
	"tidegate-xdp COMMAND --iface IFACE [--pin DIR] [options]\n"
	"  attach   --mode driver|generic [caps] [--sources N] [--bans N]\n"
	"  detach   take the filter off and remove its pins\n"
	"  status   counters, lists, memory (JSON)\n"
	"  list     every entry of the lists, a line of JSON each\n"
	"  sync     bans and allows as JSON lines on standard input\n"
	"  config   show, or change at run time with [caps]\n"
	"  events   sources that cross a cap, a line of JSON each, until stopped\n"
	"  upgrade  this binary's program into the attached filter, without a gap\n"
	"  test-run sync, and packets through the program; without --iface one that is attached nowhere\n"
	"caps: --packet-cap N --packet-window-ms N --syn-cap N --syn-window-ms N (cap 0: none)\n"
	"      --dry-run on|off --deep-vlan pass|drop --management NET|none (repeatable)\n"
	"      --events-per-second N --event-quiet-s N\n";

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

/* What the command line asks for; -1: left as it is. */
struct wishes {
	const char *interface;
	const char *root;
	enum tidegate_mode mode;
	struct filter_sizes sizes;
	long packet_cap, packet_window_ms, syn_cap, syn_window_ms;
	long dry_run, deep_vlan_drop, events_per_second, event_quiet_s;
	struct listing management[NETS_MAX];
	size_t management_count;
	bool management_given;
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

static int read_options(struct wishes *wishes, int count, char **words)
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

static void wish(__u32 *field, long value)
{
	if (value >= 0)
		*field = value;
}

static void fulfil(struct tidegate_config *config, const struct wishes *wishes)
{
	wish(&config->packet_cap, wishes->packet_cap);
	wish(&config->packet_window_ms, wishes->packet_window_ms);
	wish(&config->syn_cap, wishes->syn_cap);
	wish(&config->syn_window_ms, wishes->syn_window_ms);
	wish(&config->dry_run, wishes->dry_run);
	wish(&config->deep_vlan_drop, wishes->deep_vlan_drop);
	wish(&config->events_per_second, wishes->events_per_second);
	wish(&config->event_quiet_s, wishes->event_quiet_s);
	config->packet_ticks = window_ticks(config->packet_window_ms);
	config->syn_ticks = window_ticks(config->syn_window_ms);
}

/*
 * 100 SYNs a second: a page makes a handful of connections, but hundreds of people may share an address. A
 * SYN dropped is sent again a second later, so the cap slows honest crowds down and does not shut them out.
 */
static struct tidegate_config defaults(void)
{
	return (struct tidegate_config){ .layout = TIDEGATE_LAYOUT,
					 .packet_cap = 10000,
					 .packet_window_ms = 1000,
					 .syn_cap = 100,
					 .syn_window_ms = 1000,
					 .deep_vlan_drop = 1,
					 .events_per_second = 100,
					 .event_quiet_s = 10 };
}

static int set_management(struct filter *filter, const struct wishes *wishes)
{
	int error;

	if (!wishes->management_given)
		return EXIT_DONE;
	error = management_replace(filter, wishes->management, wishes->management_count);
	return error ? fail_kernel(error, "set the management networks") : EXIT_DONE;
}

static int answer_config(const struct filter *filter, const char *op)
{
	struct tidegate_config config;
	struct tidegate_state state;

	if (filter_config(filter, &config) || filter_state(filter, &state))
		return fail_kernel(-errno, "read the configuration");
	printf("{\"ok\":true,\"op\":\"%s\",\"interface\":", op);
	json_print(filter->interface, strlen(filter->interface));
	printf(",\"mode\":\"%s\",\"layout\":%d,\"config\":", mode_name(state.mode), TIDEGATE_LAYOUT);
	print_config(filter, &config);
	printf("}\n");
	return EXIT_DONE;
}

static int attach(struct filter *filter, const struct wishes *wishes)
{
	struct tidegate_config config = defaults();
	int code;

	if (!wishes->mode)
		return fail(EXIT_INPUT, "choose --mode driver (fast) or --mode generic (every interface)",
			    "no mode was given");
	fulfil(&config, wishes);
	code = filter_prepare(filter, &wishes->sizes, &config);
	if (code)
		return code;
	code = set_management(filter, wishes);
	if (!code)
		code = filter_link(filter, wishes->mode);
	if (code)
		filter_abandon(filter);
	return code ? code : answer_config(filter, "attach");
}

static int configure(struct filter *filter, const struct wishes *wishes)
{
	struct tidegate_config config;
	int code = filter_open(filter, true);

	if (code)
		return code;
	/* First the networks: with lower caps none of them may be caught in between. */
	code = set_management(filter, wishes);
	if (code)
		return code;
	if (filter_config(filter, &config))
		return fail_kernel(-errno, "read the configuration");
	fulfil(&config, wishes);
	if (filter_config_write(filter, &config))
		return fail_kernel(-errno, "write the configuration");
	return answer_config(filter, "config");
}

static int opened(struct filter *filter, const char *command)
{
	bool exclusive = !strcmp(command, "upgrade");
	int code = filter_open(filter, exclusive);

	if (code)
		return code;
	if (!strcmp(command, "status"))
		return filter_status(filter);
	if (!strcmp(command, "upgrade"))
		return filter_upgrade(filter);
	if (!strcmp(command, "sync") || !strcmp(command, "test-run"))
		return filter_share(filter) ? fail_kernel(-errno, "open the pins") :
					      sync_run(filter, !strcmp(command, "test-run"));
	if (!strcmp(command, "events"))
		return events_run(filter);
	code = list_print(filter);
	return code ? fail_kernel(code, "read the lists") : EXIT_DONE;
}

static int test_run(const struct wishes *wishes)
{
	struct tidegate_config config = defaults();
	struct filter filter;
	int code = filter_place(&filter, PIN_ROOT, "none");

	/* Through the attached filter and its lists. */
	if (wishes->interface) {
		code = filter_place(&filter, wishes->root, wishes->interface);
		if (!code)
			code = opened(&filter, "test-run");
		filter_close(&filter);
		return code;
	}
	fulfil(&config, wishes);
	if (!code)
		code = filter_load(&filter, &wishes->sizes, &config);
	if (!code)
		code = set_management(&filter, wishes);
	if (!code)
		code = sync_run(&filter, true);
	filter_close(&filter);
	return code;
}

static int run(const char *command, const struct wishes *wishes)
{
	static const char *const OPENED[] = { "status", "list", "sync", "events", "upgrade" };
	struct filter filter;
	int code;

	if (!strcmp(command, "test-run"))
		return test_run(wishes);
	code = filter_place(&filter, wishes->root, wishes->interface);
	if (code)
		return code;
	code = -1;
	if (!strcmp(command, "attach"))
		code = attach(&filter, wishes);
	else if (!strcmp(command, "detach"))
		code = filter_detach(&filter);
	else if (!strcmp(command, "config"))
		code = configure(&filter, wishes);
	for (size_t i = 0; code < 0 && i < sizeof(OPENED) / sizeof(*OPENED); i++)
		if (!strcmp(command, OPENED[i]))
			code = opened(&filter, command);
	filter_close(&filter);
	return code >= 0 ? code : fail(EXIT_INPUT, "see `tidegate-xdp help`", "unknown command: %s", command);
}

/* An answer that did not arrive is no success. */
static int written(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	fprintf(stderr, "tidegate-xdp: the answer could not be written: %s; look with `tidegate-xdp status`\n",
		strerror(errno));
	return code ? code : EXIT_KERNEL;
}

int main(int count, char **words)
{
	struct wishes *wishes = calloc(1, sizeof(*wishes));
	int code;

	/* A reader that has gone shows as a failed write. */
	signal(SIGPIPE, SIG_IGN);
	if (count < 2 || !strcmp(words[1], "help") || !strcmp(words[1], "--help")) {
		fputs(USAGE, count < 2 ? stderr : stdout);
		return count < 2 ? EXIT_INPUT : EXIT_DONE;
	}
	if (!wishes)
		return fail(EXIT_KERNEL, "free some memory", "out of memory");
	code = read_options(wishes, count - 1, words + 1);
	if (!code)
		code = run(words[1], wishes);
	free(wishes);
	return written(code);
}
