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

int filter_prepare(struct filter *filter, const struct filter_sizes *sizes,
		   const struct tidegate_config *config)
{
	int code;

	if (!if_nametoindex(filter->interface))
		return fail(EXIT_INPUT, "see `ip link`", "there is no interface %s", filter->interface);
	code = pins_claim(filter);
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
	int error = 0;

	if (access(filter->dir, F_OK)) {
		if (pins_other_layout(filter, dir) < 0)
			return filter_not_attached(filter);
		snprintf(filter->dir, sizeof(filter->dir), "%s", dir);
	}
	if (pins_lock(filter))
		return fail_kernel(-errno, "lock the pins");
	filter->link = pins_open(filter, "link");
	if (filter->link == -EPERM || filter->link == -EACCES)
		return fail_kernel(filter->link, "open the pins");
	if (filter->link >= 0)
		error = bpf_link_detach(filter->link);
	/* The interface may be gone, and the link with it. */
	if (error && error != -EOPNOTSUPP && error != -EINVAL && error != -ENOLINK && error != -ENODEV)
		return fail_kernel(error, "detach the link");
	error = pins_remove(filter, filter->dir);
	if (error)
		return fail_kernel(error, "remove the pins");
	printf("{\"ok\":true,\"op\":\"detach\",\"interface\":\"%s\"}\n", filter->interface);
	return EXIT_DONE;
}
