/* The maps behind the lists: exact entries in hashes, other prefixes in tries. Errors are -errno. */
#ifndef TIDEGATE_PLACES_H
#define TIDEGATE_PLACES_H

#include <time.h>
#include "lists.h"

#define BATCH 4096
#define KEY_MAX 20

struct batch {
	__u8 keys[BATCH * KEY_MAX];
	struct tidegate_entry values[BATCH];
};

__u64 now_ns(clockid_t clock);

enum filter_map list_map_of(const struct listing *listing);
unsigned int list_key_size(enum filter_map map);
/* Writes list_key_size(map) bytes. */
void list_key_of(enum filter_map map, const struct net *net, __u8 *key);
struct net list_net_of(enum filter_map map, const __u8 *key);
struct tidegate_entry list_entry_of(const struct listing *listing, __u32 generation);

typedef void (*list_visit)(void *context, const __u8 *key, const struct tidegate_entry *entry);

/* Visits every entry of the map. */
int list_walk(const struct filter *filter, enum filter_map map, list_visit visit, void *context);

/* Takes out what carries another generation; adds to *swept. */
int list_sweep(const struct filter *filter, enum filter_map map, __u32 generation, size_t *swept);

/* Its bit in `lists` of the configuration. */
__u32 list_bit_of(enum filter_map map);
/* Has the filter look at the lists with these bits, or not. */
int list_mark(const struct filter *filter, __u32 bits, bool used);

/* Whether an update failed because the map has no room. */
bool list_is_full(int error);

#endif
