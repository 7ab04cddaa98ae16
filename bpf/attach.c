/*
 * Attaching and detaching. Link, program and maps are pinned: the filter stays when the loader ends, however
 * it ends. The mode is the one asked for or none.
 */
#include "filter.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "json.h"
#include "pins.h"

static int link_failed(const struct filter *filter, enum tidegate_mode mode, int error)
{
	if (error == -EPERM)
		return fail_kernel(error, "attach the program");
	if (error == -EBUSY || error == -EEXIST)
		return fail(EXIT_BUSY, "look with `ip link show` and `bpftool net`; one program per interface",
			    "another XDP program is on %s", filter->interface);
	if (mode == TIDEGATE_DRIVER)
		return fail(EXIT_NO_DRIVER_MODE,
			    "see dmesg (MTU, LRO, queues); `--mode generic` works everywhere and is slower",
			    "%s cannot run XDP in driver mode: %s; nothing was attached", filter->interface,
			    strerror(-error));
	return fail(EXIT_KERNEL, "see dmesg", "cannot attach to %s: %s", filter->interface, strerror(-error));
}

static int link_up(struct filter *filter, enum tidegate_mode mode, unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_link_create_opts, options,
		    .flags = mode == TIDEGATE_DRIVER ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
	struct tidegate_state state;
	int error = filter_state(filter, &state);

	state.mode = mode;
	state.ifindex = ifindex;
	state.namespace = network_namespace();
	if (!error)
		error = filter_state_write(filter, &state);
	if (error)
		return fail_kernel(error, "write the state");
	filter->link = bpf_link_create(filter->program, ifindex, BPF_XDP, &options);
	if (filter->link < 0)
		return link_failed(filter, mode, filter->link);
	/* Not pinned, the link goes with this process: a failure here leaves nothing attached. */
	error = pins_make(filter);
	return error ? fail_kernel(error, "pin the filter") : EXIT_DONE;
}

/* The interface may be gone, and the link with it. */
static int take_off(const struct filter *filter)
{
	int error = filter->link >= 0 ? bpf_link_detach(filter->link) : 0;

	return error == -EOPNOTSUPP || error == -EINVAL || error == -ENOLINK || error == -ENODEV ? 0 : error;
}

/*
 * A filter that works on this interface stays. What another loader left half made, or what belongs to an
 * interface that had the name before, goes: under the lock nobody is still at work on it.
 */
static int clear_stale(struct filter *filter)
{
	char name[IF_NAMESIZE];
	bool complete = filter_open_pins(filter);
	enum filter_where where = filter_where(filter, name);
	int error;

	if (filter->link < 0 && filter->link != -ENOENT)
		return fail_kernel(filter->link, "open the pins");
	if (complete && (where == FILTER_HERE || where == FILTER_ELSEWHERE))
		return fail(EXIT_BUSY, "use `tidegate-xdp upgrade` for a new program, `config` for other caps",
			    "%s has a filter", filter->interface);
	if (filter->link >= 0)
		fprintf(stderr, "tidegate-xdp: a stale filter of %s is cleared away%s%s\n", filter->interface,
			name[0] ? "; its interface is now called " : "", name);
	error = take_off(filter);
	filter_close_pins(filter);
	if (!error)
		error = pins_clear(filter->dir);
	return error ? fail_kernel(error, "clear stale pins away") : EXIT_DONE;
}

int filter_prepare(struct filter *filter, const struct filter_sizes *sizes,
		   const struct tidegate_config *config)
{
	int code;

	if (!if_nametoindex(filter->interface))
		return fail(EXIT_INPUT, "see `ip link`", "there is no interface %s", filter->interface);
	code = pins_claim(filter);
	if (!code)
		code = clear_stale(filter);
	if (code)
		return code;
	code = filter_load(filter, sizes, config);
	if (code)
		filter_abandon(filter);
	return code;
}

void filter_abandon(struct filter *filter)
{
	pins_remove(filter, filter->dir);
}

int filter_link(struct filter *filter, enum tidegate_mode mode)
{
	struct tidegate_config config = {};
	int code = link_up(filter, mode, if_nametoindex(filter->interface));

	if (code)
		return code;
	filter_config(filter, &config);
	fprintf(stderr, "tidegate-xdp: filter attached to %s in %s mode%s%s\n", filter->interface,
		mode == TIDEGATE_DRIVER ? "DRIVER" : "GENERIC",
		mode == TIDEGATE_GENERIC ? " (slower: the kernel has built its packet buffers by then)" : "",
		config.dry_run ? ", DRY RUN: nothing is dropped" : "");
	return EXIT_DONE;
}

/* Pins of any layout, complete or not, go; so does the program. */
int filter_detach(struct filter *filter)
{
	char dir[PATH_TEXT_MAX];
	int error = pins_lock(filter);

	if (error == -ENOENT) {
		if (pins_other_layout(filter, dir) < 0)
			return filter_not_attached(filter);
		snprintf(filter->dir, sizeof(filter->dir), "%s", dir);
		error = pins_lock(filter);
	}
	if (error == -ENOENT)
		return filter_not_attached(filter);
	if (error)
		return fail_kernel(error, "lock the pins");
	filter->link = pins_open(filter, "link");
	if (filter->link == -EPERM || filter->link == -EACCES)
		return fail_kernel(filter->link, "open the pins");
	error = take_off(filter);
	if (error)
		return fail_kernel(error, "detach the link");
	error = pins_remove(filter, filter->dir);
	if (error)
		return fail_kernel(error, "remove the pins");
	printf("{\"ok\":true,\"op\":\"detach\",\"interface\":");
	json_print(filter->interface, strlen(filter->interface));
	printf("}\n");
	return EXIT_DONE;
}
