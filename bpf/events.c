/* Reads the ring buffer of the filter, see events.h. */
#include "events.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include "json.h"
#include "lists.h"

#define WAIT_MS 200

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static int print_event(void *context, void *data, size_t size)
{
	const struct filter *filter = context;
	const struct tidegate_event *event = data;
	struct net net = { .family = event->family, .prefix = event->family == 4 ? 32 : 64 };
	char text[NET_TEXT_MAX];

	if (size < sizeof(*event))
		return 0;
	memcpy(net.address, event->source, sizeof(net.address));
	printf("{\"event\":\"capCrossed\",\"interface\":");
	json_print(filter->interface, strlen(filter->interface));
	printf(",\"cap\":\"%s\",\"net\":\"%s\",\"atMs\":%llu,\"limit\":%u,\"dryRun\":%s}\n",
	       event->kind == TIDEGATE_CAP_SYNS ? "syn" : "packet", net_write(&net, text),
	       unix_ms_of(event->at_ns), event->cap, event->dry_run ? "true" : "false");
	return 0;
}

int events_run(const struct filter *filter)
{
	struct ring_buffer *ring =
		ring_buffer__new(filter->maps[MAP_events], print_event, (void *)filter, NULL);
	bool attached = true;
	int error = 0;

	if (!ring)
		return fail_kernel(-errno, "open the ring buffer");
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	/* Whoever started this and died cannot read the events any more. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	while (!stopped && attached && !ferror(stdout)) {
		error = ring_buffer__poll(ring, WAIT_MS);
		if (error < 0 && error != -EINTR)
			break;
		error = 0;
		fflush(stdout);
		attached = filter_attached(filter);
	}
	ring_buffer__free(ring);
	if (!attached)
		return fail(EXIT_NOT_ATTACHED, "start again after attaching", "the filter on %s has gone",
			    filter->interface);
	return error ? fail_kernel(error, "read the ring buffer") : EXIT_DONE;
}
