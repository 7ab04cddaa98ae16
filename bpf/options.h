/* The command line's options, read into what it asks for. */
#ifndef TIDEGATE_OPTIONS_H
#define TIDEGATE_OPTIONS_H

#include "filter.h"
#include "lists.h"

#define NETS_MAX 256

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

/* Everything behind the command. What does not fit is told on standard error; answers the exit code. */
int read_options(struct wishes *wishes, int count, char **words);

#endif
