/* The ban, allow and management lists: single changes, and whole lists staged and committed at once. */
#ifndef TIDEGATE_LISTS_H
#define TIDEGATE_LISTS_H

#include <stdbool.h>
#include "filter.h"
#include "net.h"

#define STAGED_MAX 1000000

enum list { LIST_MANAGEMENT, LIST_ALLOW, LIST_BAN };

struct listing {
	enum list list;
	struct net net;
	__u64 until_ms; /* Unix time; 0: no end */
	__u8 severity;
};

struct staged;

struct stage {
	struct staged *entries;
	size_t count;
	size_t room;
	size_t dropped; /* beyond STAGED_MAX */
	size_t expired; /* over before they were staged */
};

struct commit {
	size_t bans;
	size_t allows;
	size_t swept;
	size_t left_out;
	size_t expired;
	double took_ms;
};

/* NULL, or why a network may not be on that list. */
const char *listing_refused(const struct listing *listing);

/* At once. Returns 0, or -errno; *replaced is whether another entry gave way. */
int list_add(const struct filter *filter, const struct listing *listing, bool *replaced);

/* Returns 1 if it was listed, 0 if not, or -errno. */
int list_remove(const struct filter *filter, const struct listing *listing);

int stage_add(struct stage *stage, const struct listing *listing);
void stage_clear(struct stage *stage);

/* Puts the staged lists into force and takes out what is not on them. Returns 0 or -errno. */
int stage_commit(const struct filter *filter, struct stage *stage, __u64 version, struct commit *commit);

/* These networks and no others; new ones go in before old ones are taken out. */
int management_replace(const struct filter *filter, const struct listing *listings, size_t count);

/* Entries in one map. */
size_t list_size(const struct filter *filter, enum filter_map map);

/* Prints each entry of the lists as a line of JSON. */
int list_print(const struct filter *filter);

/* Prints the management list as a JSON array. */
void management_print(const struct filter *filter);

__u64 unix_ms(void);
/* Unix time less CLOCK_MONOTONIC; it changes when the clock is set, or after the machine has slept. */
__s64 clock_offset_ms(void);
/* Unix time of a CLOCK_MONOTONIC time. */
__u64 unix_ms_of(__u64 monotonic_ns);

#endif
