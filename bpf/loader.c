/* tidegate-xdp: puts the filter on an interface, tells it what to ban, shows what it does. README.md. */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "events.h"
#include "filter.h"
#include "json.h"
#include "lists.h"
#include "options.h"
#include "sync.h"

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
