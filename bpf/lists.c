/*
 * Lists in the kernel. A commit first adds, then sweeps what carries an older generation, so that an entry on
 * both the old and the new list is in force all the time.
 */
#include "lists.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 4096
#define KEY_MAX 20
#define NS_PER_MS 1000000ULL

/* Shortest prefixes: a ban must not take a whole registry's space, an entry never everything. */
#define BAN_PREFIX_MIN4 8
#define BAN_PREFIX_MIN6 19
#define ALLOW_PREFIX_MIN4 8
#define ALLOW_PREFIX_MIN6 7

struct staged {
	enum filter_map map;
	__u8 key[KEY_MAX];
	struct tidegate_entry entry;
};

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

static const enum filter_map ALLOWS[] = { MAP_allow4, MAP_allow6, MAP_allow_net4, MAP_allow_net6 };
static const enum filter_map BANS[] = { MAP_ban4, MAP_ban6, MAP_ban_net4, MAP_ban_net6 };
#define LIST_MAPS 4

static __u64 now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

__u64 unix_ms(void)
{
	return now_ns(CLOCK_REALTIME) / NS_PER_MS;
}

__u64 unix_ms_of(__u64 monotonic_ns)
{
	return (now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC) + monotonic_ns) / NS_PER_MS;
}

/* 0 stays 0, no end; a time gone by becomes 1, long over. */
static __u64 monotonic_ns_of(__u64 until_ms)
{
	__u64 now = unix_ms();

	if (!until_ms)
		return 0;
	return until_ms > now ? now_ns(CLOCK_MONOTONIC) + (until_ms - now) * NS_PER_MS : 1;
}

const char *listing_refused(const struct listing *listing)
{
	bool v4 = listing->net.family == 4;
	unsigned int least = v4 ? ALLOW_PREFIX_MIN4 : ALLOW_PREFIX_MIN6;
	struct net local = { .family = 6, .prefix = 10, .address = { 0xfe, 0x80 } };

	if (listing->list == LIST_BAN)
		least = v4 ? BAN_PREFIX_MIN4 : BAN_PREFIX_MIN6;
	if (listing->net.prefix < least)
		return "the network is too wide";
	if (listing->list != LIST_BAN)
		return NULL;
	if (net_overlap(&listing->net, &local))
		return "link-local addresses cannot be banned";
	if (v4 && (listing->net.address[0] == 127 || listing->net.address[0] == 0))
		return "this machine's own addresses cannot be banned";
	return NULL;
}

static enum filter_map map_of(const struct listing *listing)
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

static void key_of(enum filter_map map, const struct net *net, __u8 *key)
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

static struct net net_of(enum filter_map map, const __u8 *key)
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

static struct tidegate_entry entry_of(const struct listing *listing, __u32 generation)
{
	return (struct tidegate_entry){ .until_ns = monotonic_ns_of(listing->until_ms),
					.generation = generation,
					.severity = listing->severity,
					.prefix = listing->net.prefix };
}

/* --- walking a map --- */

typedef void (*visit)(void *context, const __u8 *key, const struct tidegate_entry *entry);

struct batch {
	__u8 keys[BATCH * KEY_MAX];
	struct tidegate_entry values[BATCH];
};

static int walk(const struct filter *filter, enum filter_map map, visit visit, void *context)
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
			visit(context, batch->keys + i * PLACES[map].key_size, &batch->values[i]);
	}
	free(batch);
	/* The end of the map is reported as "no such entry". */
	return error == -ENOENT ? 0 : error;
}

/* --- which lists the filter looks at --- */

static __u32 bit_of(enum filter_map map)
{
	return 1U << (map - MAP_management4 + TIDEGATE_MANAGEMENT4);
}

/* Sets these bits, or clears them. */
static int mark(const struct filter *filter, __u32 bits, bool used)
{
	struct tidegate_config config;
	int error = filter_config(filter, &config);
	__u32 lists = used ? config.lists | bits : config.lists & ~bits;

	if (error || lists == config.lists)
		return error;
	config.lists = lists;
	return filter_config_write(filter, &config);
}

/* --- single changes --- */

static bool is_full(int error)
{
	return error == -E2BIG || error == -ENOSPC;
}

struct weakest {
	bool found;
	__u64 rank;
	__u64 until;
	__u8 key[KEY_MAX];
	unsigned int key_size;
	__u64 now;
};

/* Expired ones first, then the least severe, among them the one that ends first. */
static void find_weakest(void *context, const __u8 *key, const struct tidegate_entry *entry)
{
	struct weakest *weakest = context;
	__u64 until = entry->until_ns ? entry->until_ns : ~0ULL;
	__u64 rank = until <= weakest->now ? 0 : entry->severity + 1;

	if (weakest->found && (rank > weakest->rank || (rank == weakest->rank && until >= weakest->until)))
		return;
	weakest->found = true;
	weakest->rank = rank;
	weakest->until = until;
	memcpy(weakest->key, key, weakest->key_size);
}

static int make_room(const struct filter *filter, enum filter_map map, __u8 severity)
{
	struct weakest weakest = { .key_size = PLACES[map].key_size, .now = now_ns(CLOCK_MONOTONIC) };
	int error = walk(filter, map, find_weakest, &weakest);

	if (error)
		return error;
	if (!weakest.found || weakest.rank > severity + 1U)
		return -ENOSPC;
	return bpf_map_delete_elem(filter->maps[map], weakest.key);
}

static int count_in_state(const struct filter *filter, __u64 replaced, __u64 left_out)
{
	struct tidegate_state state;
	int error = filter_state(filter, &state);

	if (error)
		return error;
	state.replaced += replaced;
	state.left_out += left_out;
	return filter_state_write(filter, &state);
}

int list_add(const struct filter *filter, const struct listing *listing, bool *replaced)
{
	enum filter_map map = map_of(listing);
	struct tidegate_state state;
	struct tidegate_entry entry;
	__u8 key[KEY_MAX] = {};
	int error = filter_state(filter, &state);

	*replaced = false;
	if (error)
		return error;
	error = mark(filter, bit_of(map), true);
	if (error)
		return error;
	entry = entry_of(listing, state.generation);
	key_of(map, &listing->net, key);
	error = bpf_map_update_elem(filter->maps[map], key, &entry, BPF_ANY);
	if (!is_full(error))
		return error;
	error = make_room(filter, map, listing->severity);
	if (!error)
		error = bpf_map_update_elem(filter->maps[map], key, &entry, BPF_ANY);
	*replaced = !error;
	if (!error || is_full(error))
		count_in_state(filter, error ? 0 : 1, error ? 1 : 0);
	return error;
}

int list_remove(const struct filter *filter, const struct listing *listing)
{
	enum filter_map map = map_of(listing);
	__u8 key[KEY_MAX] = {};
	int error;

	key_of(map, &listing->net, key);
	error = bpf_map_delete_elem(filter->maps[map], key);
	if (error == -ENOENT)
		return 0;
	return error ? error : 1;
}

/* --- whole lists --- */

int stage_add(struct stage *stage, const struct listing *listing)
{
	struct staged *staged;

	if (listing->until_ms && listing->until_ms <= unix_ms()) {
		stage->expired++;
		return 0;
	}
	if (stage->count == STAGED_MAX) {
		stage->dropped++;
		return 0;
	}
	if (stage->count == stage->room) {
		size_t room = stage->room ? stage->room * 2 : 1024;
		struct staged *more = realloc(stage->entries, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		stage->entries = more;
		stage->room = room;
	}
	staged = &stage->entries[stage->count++];
	memset(staged, 0, sizeof(*staged));
	staged->map = map_of(listing);
	key_of(staged->map, &listing->net, staged->key);
	staged->entry = entry_of(listing, 0);
	return 0;
}

void stage_clear(struct stage *stage)
{
	free(stage->entries);
	memset(stage, 0, sizeof(*stage));
}

/* By map, then by key; of equal ones the longest in force comes first. */
static int by_key(const void *left, const void *right)
{
	const struct staged *one = left, *other = right;
	int order = (int)one->map - (int)other->map;
	__u64 one_until = one->entry.until_ns - 1, other_until = other->entry.until_ns - 1;

	if (!order)
		order = memcmp(one->key, other->key, KEY_MAX);
	if (order)
		return order;
	return one_until < other_until ? 1 : one_until > other_until ? -1 : 0;
}

/* The most severe first, among them those that last longest (0 - 1 is the longest of all). */
static int by_severity(const void *left, const void *right)
{
	const struct staged *one = left, *other = right;
	__u64 one_until = one->entry.until_ns - 1, other_until = other->entry.until_ns - 1;

	if (one->entry.severity != other->entry.severity)
		return (int)other->entry.severity - (int)one->entry.severity;
	return one_until < other_until ? 1 : one_until > other_until ? -1 : 0;
}

static __u32 capacity(const struct filter *filter, enum filter_map map)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);

	return bpf_obj_get_info_by_fd(filter->maps[map], &info, &length) ? 0 : info.max_entries;
}

struct run {
	struct staged *entries;
	size_t count;
	/* Those that found the map full of entries that the sweep is going to take out. */
	size_t *waiting;
	size_t waiting_count;
};

/* The staged entries of this map: sorted by key, each once, no more than fit. */
static struct run run_of(const struct filter *filter, struct stage *stage, enum filter_map map,
			 struct commit *commit)
{
	struct run run = {};
	size_t from = 0, to, kept = 0;
	__u32 most = capacity(filter, map);

	while (from < stage->count && stage->entries[from].map != map)
		from++;
	for (to = from; to < stage->count && stage->entries[to].map == map; to++) {
		struct staged *staged = &stage->entries[to];

		if (kept && !memcmp(stage->entries[from + kept - 1].key, staged->key, KEY_MAX))
			continue;
		stage->entries[from + kept++] = *staged;
	}
	/* What moved up leaves copies behind; they must not be taken for entries of another map. */
	run.entries = stage->entries + from;
	run.count = kept;
	if (kept > most) {
		qsort(run.entries, kept, sizeof(*run.entries), by_severity);
		commit->left_out += kept - most;
		run.count = most;
	}
	return run;
}

static int put_batch(const struct filter *filter, struct run *run, enum filter_map map, struct batch *batch,
		     size_t from)
{
	unsigned int key_size = PLACES[map].key_size;
	size_t total = run->count - from < BATCH ? run->count - from : BATCH;
	size_t done = 0;

	for (size_t i = 0; i < total; i++) {
		memcpy(batch->keys + i * key_size, run->entries[from + i].key, key_size);
		batch->values[i] = run->entries[from + i].entry;
	}
	while (done < total) {
		__u32 count = total - done;
		int error = bpf_map_update_batch(filter->maps[map], batch->keys + done * key_size,
						 batch->values + done, &count, NULL);

		if (!error)
			return 0;
		done += count;
		if (!is_full(error))
			return error;
		run->waiting[run->waiting_count++] = from + done++;
	}
	return 0;
}

static int put_run(const struct filter *filter, struct run *run, enum filter_map map, __u32 generation)
{
	struct batch *batch = malloc(sizeof(*batch));
	int error = 0;

	run->waiting = calloc(run->count + 1, sizeof(*run->waiting));
	if (!batch || !run->waiting)
		error = -ENOMEM;
	for (size_t i = 0; i < run->count; i++)
		run->entries[i].entry.generation = generation;
	for (size_t from = 0; !error && from < run->count; from += BATCH)
		error = put_batch(filter, run, map, batch, from);
	free(batch);
	return error;
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

static int sweep_map(const struct filter *filter, enum filter_map map, __u32 generation, size_t *swept)
{
	struct sweep sweep = { .generation = generation, .key_size = PLACES[map].key_size };
	int error = walk(filter, map, find_stale, &sweep);
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

static int put_waiting(const struct filter *filter, struct run *run, enum filter_map map)
{
	for (size_t i = 0; i < run->waiting_count; i++) {
		struct staged *staged = &run->entries[run->waiting[i]];
		int error = bpf_map_update_elem(filter->maps[map], staged->key, &staged->entry, BPF_ANY);

		if (error)
			return error;
	}
	return 0;
}

static int put_list(const struct filter *filter, struct stage *stage, const enum filter_map *maps,
		    struct run *runs, struct commit *commit, __u32 generation)
{
	int error = 0;

	for (int i = 0; i < LIST_MAPS && !error; i++) {
		runs[i] = run_of(filter, stage, maps[i], commit);
		if (runs[i].count)
			error = mark(filter, bit_of(maps[i]), true);
		if (!error)
			error = put_run(filter, &runs[i], maps[i], generation);
	}
	return error;
}

static int settle_list(const struct filter *filter, const enum filter_map *maps, struct run *runs,
		       __u32 generation, size_t *swept)
{
	int error = 0;

	for (int i = 0; i < LIST_MAPS && !error; i++) {
		error = sweep_map(filter, maps[i], generation, swept);
		if (!error)
			error = put_waiting(filter, &runs[i], maps[i]);
		/* All that is left is what this run has put in. */
		if (!error && !runs[i].count)
			error = mark(filter, bit_of(maps[i]), false);
	}
	return error;
}

static size_t entries_in(const struct run *runs)
{
	size_t entries = 0;

	for (int i = 0; i < LIST_MAPS; i++)
		entries += runs[i].count;
	return entries;
}

/*
 * New allows before new bans, old bans out before old allows: nobody on the allow list is shut out on the
 * way from one state to the next.
 */
static int apply(const struct filter *filter, struct stage *stage, __u32 generation, struct commit *commit)
{
	struct run allows[LIST_MAPS] = {}, bans[LIST_MAPS] = {};
	int error;

	if (stage->count)
		qsort(stage->entries, stage->count, sizeof(*stage->entries), by_key);
	error = put_list(filter, stage, ALLOWS, allows, commit, generation);
	if (!error)
		error = put_list(filter, stage, BANS, bans, commit, generation);
	if (!error)
		error = settle_list(filter, BANS, bans, generation, &commit->swept);
	if (!error)
		error = settle_list(filter, ALLOWS, allows, generation, &commit->swept);
	commit->allows = entries_in(allows);
	commit->bans = entries_in(bans);
	for (int i = 0; i < LIST_MAPS; i++) {
		free(allows[i].waiting);
		free(bans[i].waiting);
	}
	return error;
}

int stage_commit(const struct filter *filter, struct stage *stage, __u64 version, struct commit *commit)
{
	__u64 began = now_ns(CLOCK_MONOTONIC);
	struct tidegate_state state;
	int error = filter_state(filter, &state);

	memset(commit, 0, sizeof(*commit));
	commit->left_out = stage->dropped;
	commit->expired = stage->expired;
	if (error)
		return error;
	/* Written first: should this run die half way, the next one has a generation of its own. */
	state.generation++;
	error = filter_state_write(filter, &state);
	if (!error)
		error = apply(filter, stage, state.generation, commit);
	if (!error) {
		state.version = version;
		state.committed_ms = unix_ms();
		state.left_out += commit->left_out;
		error = filter_state_write(filter, &state);
	}
	commit->took_ms = (now_ns(CLOCK_MONOTONIC) - began) / 1e6;
	return error;
}

int management_replace(const struct filter *filter, const struct listing *listings, size_t count)
{
	static const enum filter_map MAPS[] = { MAP_management4, MAP_management6 };
	__u32 bits = 0, all = bit_of(MAP_management4) | bit_of(MAP_management6);
	struct tidegate_state state;
	size_t swept = 0;
	int error = filter_state(filter, &state);

	if (error)
		return error;
	state.management++;
	error = filter_state_write(filter, &state);
	for (size_t i = 0; i < count; i++)
		bits |= bit_of(map_of(&listings[i]));
	if (!error)
		error = mark(filter, bits, true);
	for (size_t i = 0; i < count && !error; i++) {
		struct tidegate_entry entry = entry_of(&listings[i], state.management);
		enum filter_map map = map_of(&listings[i]);
		__u8 key[KEY_MAX] = {};

		key_of(map, &listings[i].net, key);
		error = bpf_map_update_elem(filter->maps[map], key, &entry, BPF_ANY);
	}
	for (int i = 0; i < 2 && !error; i++)
		error = sweep_map(filter, MAPS[i], state.management, &swept);
	return error ? error : mark(filter, all & ~bits, false);
}

static void count_one(void *context, const __u8 *key, const struct tidegate_entry *entry)
{
	(void)key;
	(void)entry;
	++*(size_t *)context;
}

size_t list_size(const struct filter *filter, enum filter_map map)
{
	size_t count = 0;

	walk(filter, map, count_one, &count);
	return count;
}

struct printing {
	enum filter_map map;
	const char *list;
	__u64 now;
};

static void print_entry(void *context, const __u8 *key, const struct tidegate_entry *entry)
{
	const struct printing *printing = context;
	struct net net = net_of(printing->map, key);
	char text[NET_TEXT_MAX];

	printf("{\"list\":\"%s\",\"net\":\"%s\",\"until\":", printing->list, net_write(&net, text));
	if (entry->until_ns)
		printf("%llu", unix_ms_of(entry->until_ns));
	else
		printf("null");
	printf(",\"severity\":%u,\"generation\":%u,\"inForce\":%s}\n", entry->severity, entry->generation,
	       !entry->until_ns || entry->until_ns > printing->now ? "true" : "false");
}

int list_print(const struct filter *filter)
{
	static const enum filter_map MAPS[] = { MAP_management4, MAP_management6, MAP_allow4, MAP_allow6,
						MAP_allow_net4,  MAP_allow_net6,  MAP_ban4,   MAP_ban6,
						MAP_ban_net4,	 MAP_ban_net6 };
	struct printing printing = { .now = now_ns(CLOCK_MONOTONIC) };
	int error = 0;

	for (size_t i = 0; i < sizeof(MAPS) / sizeof(*MAPS) && !error; i++) {
		printing.map = MAPS[i];
		printing.list = i < 2 ? "management" : i < 6 ? "allow" : "ban";
		error = walk(filter, MAPS[i], print_entry, &printing);
	}
	return error;
}

struct naming {
	enum filter_map map;
	bool more;
};

static void print_name(void *context, const __u8 *key, const struct tidegate_entry *entry)
{
	struct naming *naming = context;
	struct net net = net_of(naming->map, key);
	char text[NET_TEXT_MAX];

	(void)entry;
	printf("%s\"%s\"", naming->more ? "," : "", net_write(&net, text));
	naming->more = true;
}

void management_print(const struct filter *filter)
{
	struct naming naming = { .map = MAP_management4 };

	putchar('[');
	walk(filter, MAP_management4, print_name, &naming);
	naming.map = MAP_management6;
	walk(filter, MAP_management6, print_name, &naming);
	putchar(']');
}
