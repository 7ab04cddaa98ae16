/* The filter as it is found by its pins: opening, its small maps, errors in words. */
#include "filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "json.h"
#include "pins.h"

#define MAP_NAME(name) #name,
const char *const filter_map_names[MAP_TOTAL] = { FILTER_MAPS(MAP_NAME) };
#undef MAP_NAME

#define RIGHTS_REMEDY "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
#define TEXT_MAX 512

int fail(enum exit_code code, const char *remedy, const char *format, ...)
{
	static const char *const names[] = { "DONE", "KERNEL", "INPUT", "NOT_ATTACHED",
					     "BUSY", "NO_DRIVER_MODE", "RIGHTS", "LAYOUT" };
	char text[TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "tidegate-xdp: %s; %s\n", text, remedy);
	printf("{\"ok\":false,\"error\":\"%s\",\"message\":", names[code]);
	json_print(text, strlen(text));
	printf(",\"remedy\":");
	json_print(remedy, strlen(remedy));
	printf("}\n");
	fflush(stdout);
	return code;
}

int fail_kernel(int error, const char *what)
{
	if (error == -EPERM || error == -EACCES)
		return fail(EXIT_RIGHTS, RIGHTS_REMEDY, "not permitted to %s", what);
	return fail(EXIT_KERNEL, "see the kernel log (dmesg) and `tidegate-xdp status`", "cannot %s: %s", what,
		    strerror(-error));
}

const char *mode_name(unsigned int mode)
{
	return mode == TIDEGATE_DRIVER ? "driver" : mode == TIDEGATE_GENERIC ? "generic" : "unknown";
}

unsigned int window_ticks(unsigned int window_ms)
{
	__u64 tick_ns = 1ULL << TIDEGATE_TICK_SHIFT;

	return (window_ms * 1000000ULL + tick_ns - 1) / tick_ns;
}

int filter_not_attached(const struct filter *filter)
{
	char dir[PATH_TEXT_MAX];
	int layout = pins_other_layout(filter, dir);

	if (layout >= 0)
		return fail(EXIT_LAYOUT, "detach, then attach with this binary, or keep the binary that goes with it",
			    "the filter on %s has map layout %d, this binary has %d", filter->interface, layout,
			    TIDEGATE_LAYOUT);
	return fail(EXIT_NOT_ATTACHED, "attach it first: tidegate-xdp attach --iface IFACE --mode driver|generic",
		    "no filter is pinned for %s in %s", filter->interface, filter->root);
}

int filter_open(struct filter *filter, bool exclusive)
{
	struct tidegate_config config;

	if (access(filter->dir, F_OK))
		return errno == EACCES ? fail_kernel(-EACCES, "read the pins") : filter_not_attached(filter);
	if (exclusive && pins_lock(filter))
		return fail_kernel(-errno, "lock the pins");
	filter->link = pins_open(filter, "link");
	filter->program = pins_open(filter, "program");
	if (filter->link < 0 || filter->program < 0) {
		if (filter->link == -EPERM || filter->link == -EACCES)
			return fail_kernel(filter->link, "open the pins");
		return fail(EXIT_NOT_ATTACHED, "clear away with `tidegate-xdp detach`, then attach",
			    "the pins of %s are not complete", filter->interface);
	}
	for (int i = 0; i < MAP_TOTAL; i++) {
		filter->maps[i] = pins_open(filter, filter_map_names[i]);
		if (filter->maps[i] < 0)
			return fail(EXIT_NOT_ATTACHED, "detach, then attach", "the pin of map %s is missing",
				    filter_map_names[i]);
	}
	if (filter_config(filter, &config))
		return fail_kernel(-errno, "read the configuration");
	if (config.layout != TIDEGATE_LAYOUT)
		return fail(EXIT_LAYOUT, "detach, then attach with this binary",
			    "the filter on %s has map layout %u, this binary has %d", filter->interface,
			    config.layout, TIDEGATE_LAYOUT);
	return EXIT_DONE;
}

void filter_close(struct filter *filter)
{
	for (int i = 0; i < MAP_TOTAL; i++)
		if (filter->maps[i] >= 0)
			close(filter->maps[i]);
	if (filter->program >= 0)
		close(filter->program);
	if (filter->link >= 0)
		close(filter->link);
	if (filter->lock >= 0)
		close(filter->lock);
}

static int read_single(const struct filter *filter, enum filter_map map, void *value)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(filter->maps[map], &zero, value);
}

static int write_single(const struct filter *filter, enum filter_map map, const void *value)
{
	__u32 zero = 0;

	return bpf_map_update_elem(filter->maps[map], &zero, value, BPF_ANY);
}

int filter_config(const struct filter *filter, struct tidegate_config *config)
{
	return read_single(filter, MAP_config, config);
}

int filter_config_write(const struct filter *filter, const struct tidegate_config *config)
{
	return write_single(filter, MAP_config, config);
}

int filter_state(const struct filter *filter, struct tidegate_state *state)
{
	return read_single(filter, MAP_state, state);
}

int filter_state_write(const struct filter *filter, const struct tidegate_state *state)
{
	return write_single(filter, MAP_state, state);
}

int filter_counters(const struct filter *filter, struct tidegate_counter *sums)
{
	int cpus = libbpf_num_possible_cpus();
	struct tidegate_counter *each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;
	int error = each ? 0 : -ENOMEM;

	memset(sums, 0, sizeof(*sums) * TIDEGATE_COUNTER_TOTAL);
	for (__u32 id = 0; id < TIDEGATE_COUNTER_TOTAL && !error; id++) {
		error = bpf_map_lookup_elem(filter->maps[MAP_counters], &id, each);
		for (int cpu = 0; cpu < cpus && !error; cpu++) {
			sums[id].packets += each[cpu].packets;
			sums[id].bytes += each[cpu].bytes;
		}
	}
	free(each);
	return error;
}

bool filter_attached(const struct filter *filter)
{
	struct bpf_link_info link = {};
	__u32 length = sizeof(link);

	if (filter->link < 0)
		return true;
	return !bpf_obj_get_info_by_fd(filter->link, &link, &length) && link.xdp.ifindex;
}
