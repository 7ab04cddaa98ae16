/* Where each entry belongs, walking and sweeping the maps that hold them. See places.h. */
#include "places.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS 1000000ULL
/* A hundred years. */
#define FAR_MS 3155760000000ULL

struct place {
	int family;
	unsigned int key_size;
	bool net; /* a prefix list, not an exact one */
};

static const struct place PLACES[MAP_TOTAL] = {
	[MAP_management4] = { 4, sizeof(struct tidegate_net4), true },
	[MAP_management6] = { 6, sizeof(struct tidegate_net6), true },
	[MAP_allow4] = { 4, 4, false },
	[MAP_allow6] = { 6, 8, false },
	[MAP_allow_net4] = { 4, sizeof(struct tidegate_net4), true },
	[MAP_allow_net6] = { 6, sizeof(struct tidegate_net6), true },
	[MAP_ban4] = { 4, 4, false },
	[MAP_ban6] = { 6, 8, false },
	[MAP_ban_net4] = { 4, sizeof(struct tidegate_net4), true },
	[MAP_ban_net6] = { 6, sizeof(struct tidegate_net6), true },
};

/* Shortest prefixes: a ban must not take a whole registry's space; an allow may, but never everything. */
#define BAN_PREFIX_MIN4 8
#define BAN_PREFIX_MIN6 19
#define ALLOW_PREFIX_MIN 1

/* What no ban may touch: these are never the address of a client elsewhere (RFC 6890). */
struct special {
	struct net net;
	const char *why;
};

static const char OWN[] = "this machine's own addresses cannot be banned";
static const char LINK_LOCAL[] = "link-local addresses cannot be banned";
static const char MULTICAST[] = "multicast and broadcast addresses cannot be banned";

static const struct special SPECIAL[] = {
	{ { .family = 4, .prefix = 8 }, OWN },
	{ { .family = 4, .prefix = 8, .address = { 127 } }, OWN },
	{ { .family = 4, .prefix = 16, .address = { 169, 254 } }, LINK_LOCAL },
	{ { .family = 4, .prefix = 4, .address = { 224 } }, MULTICAST },
	{ { .family = 4, .prefix = 32, .address = { 255, 255, 255, 255 } }, MULTICAST },
	{ { .family = 6, .prefix = 64 }, OWN },
	{ { .family = 6, .prefix = 10, .address = { 0xfe, 0x80 } }, LINK_LOCAL },
	{ { .family = 6, .prefix = 8, .address = { 0xff } }, MULTICAST },
};

__u64 now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

__u64 unix_ms(void)
{
	return now_ns(CLOCK_REALTIME) / NS_PER_MS;
}

__s64 clock_offset_ms(void)
{
	return ((__s64)now_ns(CLOCK_REALTIME) - (__s64)now_ns(CLOCK_MONOTONIC)) / (__s64)NS_PER_MS;
}

__u64 unix_ms_of(__u64 monotonic_ns)
{
	return (now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC) + monotonic_ns) / NS_PER_MS;
}

/* 0 stays 0, no end, as what lies too far ahead to be counted in ns; a time gone by becomes 1, long over. */
static __u64 monotonic_ns_of(__u64 until_ms)
{
	__u64 now = unix_ms();

	if (!until_ms || until_ms > now + FAR_MS)
		return 0;
	return until_ms > now ? now_ns(CLOCK_MONOTONIC) + (until_ms - now) * NS_PER_MS : 1;
}

unsigned int list_key_size(enum filter_map map)
{
	return PLACES[map].key_size;
}

const char *listing_refused(const struct listing *listing)
{
	bool v4 = listing->net.family == 4;

	if (listing->list != LIST_BAN)
		return listing->net.prefix < ALLOW_PREFIX_MIN ?
			       "the network is too wide: it is everything, for which `detach` is the way" :
			       NULL;
	if (listing->net.prefix < (v4 ? BAN_PREFIX_MIN4 : BAN_PREFIX_MIN6))
		return v4 ? "the network is too wide for a ban, /8 is the widest" :
			    "the network is too wide for a ban, /19 is the widest";
	for (size_t i = 0; i < sizeof(SPECIAL) / sizeof(*SPECIAL); i++)
		if (net_overlap(&listing->net, &SPECIAL[i].net))
			return SPECIAL[i].why;
	return NULL;
}

enum filter_map list_map_of(const struct listing *listing)
{
	bool v4 = listing->net.family == 4;
	bool exact = listing->net.prefix == (v4 ? 32U : 64U);

	switch (listing->list) {
	case LIST_MANAGEMENT:
		return v4 ? MAP_management4 : MAP_management6;
	case LIST_ALLOW:
		if (exact)
			return v4 ? MAP_allow4 : MAP_allow6;
		return v4 ? MAP_allow_net4 : MAP_allow_net6;
	case LIST_BAN:
		break;
	}
	if (exact)
		return v4 ? MAP_ban4 : MAP_ban6;
	return v4 ? MAP_ban_net4 : MAP_ban_net6;
}

void list_key_of(enum filter_map map, const struct net *net, __u8 *key)
{
	const struct place *place = &PLACES[map];

	if (!place->net) {
		memcpy(key, net->address, place->key_size);
		return;
	}
	__u32 prefix = net->prefix;

	memcpy(key, &prefix, sizeof(prefix));
	memcpy(key + sizeof(prefix), net->address, place->key_size - sizeof(prefix));
}

struct net list_net_of(enum filter_map map, const __u8 *key)
{
	const struct place *place = &PLACES[map];
	struct net net = { .family = place->family, .prefix = place->key_size * 8 };

	if (!place->net) {
		memcpy(net.address, key, place->key_size);
		return net;
	}
	__u32 prefix;

	memcpy(&prefix, key, sizeof(prefix));
	net.prefix = prefix;
	memcpy(net.address, key + sizeof(prefix), place->key_size - sizeof(prefix));
	return net;
}

struct tidegate_entry list_entry_of(const struct listing *listing, __u32 generation)
{
	return (struct tidegate_entry){ .until_ns = monotonic_ns_of(listing->until_ms),
					.generation = generation,
					.severity = listing->severity,
					.prefix = listing->net.prefix };
}

int list_walk(const struct filter *filter, enum filter_map map, list_visit visit, void *context)
{
	struct batch *batch = malloc(sizeof(*batch));
	__u8 cursor[KEY_MAX] = {};
	bool first = true;
	int error = 0;

	if (!batch)
		return -ENOMEM;
	while (!error) {
		__u32 count = BATCH;

		error = bpf_map_lookup_batch(filter->maps[map], first ? NULL : cursor, cursor, batch->keys,
					     batch->values, &count, NULL);
		if (error && error != -ENOENT)
			break;
		first = false;
		for (__u32 i = 0; i < count; i++)
			visit(context, batch->keys + i * list_key_size(map), &batch->values[i]);
	}
	free(batch);
	/* The end of the map is reported as "no such entry". */
	return error == -ENOENT ? 0 : error;
}

__u32 list_bit_of(enum filter_map map)
{
	return 1U << (map - MAP_management4 + TIDEGATE_MANAGEMENT4);
}

/* Sets these bits, or clears them. */
int list_mark(const struct filter *filter, __u32 bits, bool used)
{
	struct tidegate_config config;
	int error = filter_config(filter, &config);
	__u32 lists = used ? config.lists | bits : config.lists & ~bits;

	if (error || lists == config.lists)
		return error;
	config.lists = lists;
	return filter_config_write(filter, &config);
}

struct sweep {
	__u32 generation;
	unsigned int key_size;
	__u8 *keys;
	size_t count;
	size_t room;
	int error;
};

static void find_stale(void *context, const __u8 *key, const struct tidegate_entry *entry)
{
	struct sweep *sweep = context;

	if (entry->generation == sweep->generation || sweep->error)
		return;
	if (sweep->count == sweep->room) {
		size_t room = sweep->room ? sweep->room * 2 : 1024;
		__u8 *more = realloc(sweep->keys, room * sweep->key_size);

		if (!more) {
			sweep->error = -ENOMEM;
			return;
		}
		sweep->keys = more;
		sweep->room = room;
	}
	memcpy(sweep->keys + sweep->count++ * sweep->key_size, key, sweep->key_size);
}

int list_sweep(const struct filter *filter, enum filter_map map, __u32 generation, size_t *swept)
{
	struct sweep sweep = { .generation = generation, .key_size = list_key_size(map) };
	int error = list_walk(filter, map, find_stale, &sweep);
	size_t done = 0;

	if (!error)
		error = sweep.error;
	while (!error && done < sweep.count) {
		__u32 count = sweep.count - done < BATCH ? sweep.count - done : BATCH;

		error = bpf_map_delete_batch(filter->maps[map], sweep.keys + done * sweep.key_size, &count, NULL);
		done += count;
		/* Gone already: as wanted, go on behind it. */
		if (error == -ENOENT) {
			error = 0;
			done++;
		}
	}
	*swept += sweep.count;
	free(sweep.keys);
	return error;
}

bool list_is_full(int error)
{
	return error == -E2BIG || error == -ENOSPC;
}
