/*
 * Whole lists. A commit first adds, then sweeps what carries an older generation, so that an entry on both
 * the old and the new list is in force all the time.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lists.h"
#include "places.h"

struct staged {
	enum filter_map map;
	__u8 key[KEY_MAX];
	struct tidegate_entry entry;
};

static const enum filter_map ALLOWS[] = { MAP_allow4, MAP_allow6, MAP_allow_net4, MAP_allow_net6 };
static const enum filter_map BANS[] = { MAP_ban4, MAP_ban6, MAP_ban_net4, MAP_ban_net6 };
#define LIST_MAPS 4

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
	staged->map = list_map_of(listing);
	list_key_of(staged->map, &listing->net, staged->key);
	staged->entry = list_entry_of(listing, 0);
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
	unsigned int key_size = list_key_size(map);
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
		if (!list_is_full(error))
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
			error = list_mark(filter, list_bit_of(maps[i]), true);
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
		error = list_sweep(filter, maps[i], generation, swept);
		if (!error)
			error = put_waiting(filter, &runs[i], maps[i]);
		/* All that is left is what this run has put in. */
		if (!error && !runs[i].count)
			error = list_mark(filter, list_bit_of(maps[i]), false);
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
		state.clock_offset_ms = clock_offset_ms();
		state.left_out += commit->left_out;
		error = filter_state_write(filter, &state);
	}
	commit->took_ms = (now_ns(CLOCK_MONOTONIC) - began) / 1e6;
	return error;
}
