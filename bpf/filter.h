/* The filter of one interface as the loader holds it: pins, maps, link, program. */
#ifndef TIDEGATE_FILTER_H
#define TIDEGATE_FILTER_H

#include <stdbool.h>
#include "shared.h"

#define PIN_ROOT "/sys/fs/bpf/tidegate"
#define PATH_TEXT_MAX 512

/* Exit codes; README.md explains them. */
enum exit_code {
	EXIT_DONE,
	EXIT_KERNEL,
	EXIT_INPUT,
	EXIT_NOT_ATTACHED,
	EXIT_BUSY,
	EXIT_NO_DRIVER_MODE,
	EXIT_RIGHTS,
	EXIT_LAYOUT,
};

#define FILTER_MAPS(X)                                                                 \
	X(config) X(state) X(counters) X(event_budget) X(management4) X(management6)   \
	X(allow4) X(allow6) X(allow_net4) X(allow_net6) X(ban4) X(ban6) X(ban_net4)    \
	X(ban_net6) X(sources4) X(sources6) X(events)

#define FILTER_MAP_ID(name) MAP_##name,
enum filter_map { FILTER_MAPS(FILTER_MAP_ID) MAP_TOTAL };
#undef FILTER_MAP_ID

extern const char *const filter_map_names[MAP_TOTAL];

struct filter {
	const char *interface; /* NULL: loaded for trying out, nothing is pinned */
	char folder[16]; /* the interface as a name in the BPF file system */
	char root[PATH_TEXT_MAX];
	char dir[PATH_TEXT_MAX]; /* of the pins */
	int lock;
	int program;
	int link;
	int maps[MAP_TOTAL];
};

/* Sizes of maps, 0: as built in. */
struct filter_sizes {
	unsigned int sources;
	unsigned int bans;
};

/* Where the filter is, as against the interface that has its name now. */
enum filter_where {
	FILTER_HERE,
	FILTER_GONE,      /* the interface went, and the link with it; or it was detached */
	FILTER_RENAMED,   /* its interface has another name */
	FILTER_MOVED,     /* its interface is in another network namespace */
	FILTER_ELSEWHERE, /* it was attached in another namespace than this process is in: cannot be told */
};

/* Prints the error as JSON on standard output and in words on standard error; returns `code`. */
int fail(enum exit_code code, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The exit code for a kernel call that failed with `error`: missing rights have their own. */
int fail_kernel(int error, const char *what);

/* Where the interface's pins are, of this layout. */
int filter_place(struct filter *filter, const char *root, const char *interface);

/* Says that nothing is pinned, or under another layout; the exit code. */
int filter_not_attached(const struct filter *filter);

/* Opens the pinned filter; when `exclusive`, keeps other loaders from changing it until closed. */
int filter_open(struct filter *filter, bool exclusive);

/* Opens what is pinned of link, program and maps. Returns whether the maps are complete. */
bool filter_open_pins(struct filter *filter);

/* `name` (IF_NAMESIZE long) is the present name of a renamed interface, else "". */
enum filter_where filter_where(const struct filter *filter, char *name);

/* Inode of this process's network namespace, 0 if unknown. */
__u64 network_namespace(void);

/* Loads the program with fresh maps that nobody else sees. */
int filter_load(struct filter *filter, const struct filter_sizes *sizes,
		const struct tidegate_config *config);

/* Claims the pin directory, clears away what is stale in it, and loads; then come the lists, then filter_link, or filter_abandon. */
int filter_prepare(struct filter *filter, const struct filter_sizes *sizes,
		   const struct tidegate_config *config);
int filter_link(struct filter *filter, enum tidegate_mode mode);
void filter_abandon(struct filter *filter);

/* So that `lock` can be taken and given back while the filter stays open. */
int filter_share(struct filter *filter);

int filter_detach(struct filter *filter);
int filter_upgrade(struct filter *filter);
int filter_status(struct filter *filter);
/* All but the lock. */
void filter_close_pins(struct filter *filter);
void filter_close(struct filter *filter);

int filter_config(const struct filter *filter, struct tidegate_config *config);
int filter_config_write(const struct filter *filter, const struct tidegate_config *config);
int filter_state(const struct filter *filter, struct tidegate_state *state);
int filter_state_write(const struct filter *filter, const struct tidegate_state *state);

/* Whether the program still is on an interface; one that was only loaded counts as such. */
bool filter_attached(const struct filter *filter);

/* Sums the counters of all CPUs; `sums` has TIDEGATE_COUNTER_TOTAL of them. */
int filter_counters(const struct filter *filter, struct tidegate_counter *sums);

/* Prints {"passed":{…},…}; counters that did not move are left out when `moved`. */
void print_counters(const struct tidegate_counter *sums, bool moved);
void print_config(const struct filter *filter, const struct tidegate_config *config);

const char *mode_name(unsigned int mode);
unsigned int window_ticks(unsigned int window_ms);

#endif
