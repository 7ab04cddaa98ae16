/* The filter as it is found by its pins: opening, its small maps, errors in words. */
#include "filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static __u32 program_id(int program)
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);

	return program < 0 || bpf_obj_get_info_by_fd(program, &info, &length) ? 0 : info.id;
}

static bool read_link(const struct filter *filter, struct bpf_link_info *link)
{
	__u32 length = sizeof(*link);

	memset(link, 0, sizeof(*link));
	return filter->link >= 0 && !bpf_obj_get_info_by_fd(filter->link, link, &length);
}

/*
 * The program that the link runs. Its pin may be missing or that of the one before, where a loader was killed
 * in an upgrade; then the kernel is asked, which needs CAP_SYS_ADMIN. Without, all but `test-run` goes on.
 */
static int open_program(const struct filter *filter)
{
	int pinned = pins_open(filter, "program"), running;
	struct bpf_link_info link;

	if (!read_link(filter, &link) || program_id(pinned) == link.prog_id)
		return pinned;
	running = bpf_prog_get_fd_by_id(link.prog_id);
	if (running < 0)
		return pinned;
	if (pinned >= 0)
		close(pinned);
	return running;
}

bool filter_open_pins(struct filter *filter)
{
	bool complete = true;

	filter->link = pins_open(filter, "link");
	filter->program = open_program(filter);
	for (int i = 0; i < MAP_TOTAL; i++) {
		filter->maps[i] = pins_open(filter, filter_map_names[i]);
		complete = complete && filter->maps[i] >= 0;
	}
	return complete;
}

int filter_open(struct filter *filter, bool exclusive)
{
	struct tidegate_config config;
	int error = exclusive ? pins_lock(filter) : access(filter->dir, F_OK) ? -errno : 0;
	bool complete;

	if (error == -ENOENT)
		return filter_not_attached(filter);
	if (error)
		return fail_kernel(error, "reach the pins");
	complete = filter_open_pins(filter);
	if (filter->link == -EPERM || filter->link == -EACCES)
		return fail_kernel(filter->link, "open the pins");
	if (filter->link < 0 || !complete)
		return fail(EXIT_NOT_ATTACHED, "attach again, or clear away with `tidegate-xdp detach`",
			    "the pins of %s are not complete", filter->interface);
	if (filter_config(filter, &config))
		return fail_kernel(-errno, "read the configuration");
	if (config.layout != TIDEGATE_LAYOUT)
		return fail(EXIT_LAYOUT, "detach, then attach with this binary",
			    "the filter on %s has map layout %u, this binary has %d", filter->interface,
			    config.layout, TIDEGATE_LAYOUT);
	return EXIT_DONE;
}

static void close_one(int *descriptor)
{
	if (*descriptor >= 0)
		close(*descriptor);
	*descriptor = -1;
}

void filter_close_pins(struct filter *filter)
{
	for (int i = 0; i < MAP_TOTAL; i++)
		close_one(&filter->maps[i]);
	close_one(&filter->program);
	close_one(&filter->link);
}

void filter_close(struct filter *filter)
{
	filter_close_pins(filter);
	close_one(&filter->lock);
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
	struct bpf_link_info link;

	return filter->link < 0 || (read_link(filter, &link) && link.xdp.ifindex);
}

__u64 network_namespace(void)
{
	struct stat own;

	return stat("/proc/self/ns/net", &own) ? 0 : own.st_ino;
}

enum filter_where filter_where(const struct filter *filter, char *name)
{
	struct bpf_link_info link;
	struct tidegate_state state;

	name[0] = '\0';
	if (!read_link(filter, &link) || !link.xdp.ifindex)
		return FILTER_GONE;
	if (filter_state(filter, &state) || state.namespace != network_namespace())
		return FILTER_ELSEWHERE;
	if (if_nametoindex(filter->interface) == link.xdp.ifindex)
		return FILTER_HERE;
	return if_indextoname(link.xdp.ifindex, name) ? FILTER_RENAMED : FILTER_MOVED;
}
