/* Single changes of the lists, the management list, and showing them. */
#include "lists.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "places.h"

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
	struct weakest weakest = { .key_size = list_key_size(map), .now = now_ns(CLOCK_MONOTONIC) };
	int error = list_walk(filter, map, find_weakest, &weakest);

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
	enum filter_map map = list_map_of(listing);
	struct tidegate_state state;
	struct tidegate_entry entry;
	__u8 key[KEY_MAX] = {};
	int error = filter_state(filter, &state);

	*replaced = false;
	if (error)
		return error;
	error = list_mark(filter, list_bit_of(map), true);
	if (error)
		return error;
	entry = list_entry_of(listing, state.generation);
	list_key_of(map, &listing->net, key);
	error = bpf_map_update_elem(filter->maps[map], key, &entry, BPF_ANY);
	if (!list_is_full(error))
		return error;
	error = make_room(filter, map, listing->severity);
	if (!error)
		error = bpf_map_update_elem(filter->maps[map], key, &entry, BPF_ANY);
	*replaced = !error;
	if (!error || list_is_full(error))
		count_in_state(filter, error ? 0 : 1, error ? 1 : 0);
	return error;
}

int list_remove(const struct filter *filter, const struct listing *listing)
{
	enum filter_map map = list_map_of(listing);
	__u8 key[KEY_MAX] = {};
	int error;

	list_key_of(map, &listing->net, key);
	error = bpf_map_delete_elem(filter->maps[map], key);
	if (error == -ENOENT)
		return 0;
	return error ? error : 1;
}

int management_replace(const struct filter *filter, const struct listing *listings, size_t count)
{
	static const enum filter_map MAPS[] = { MAP_management4, MAP_management6 };
	__u32 bits = 0, all = list_bit_of(MAP_management4) | list_bit_of(MAP_management6);
	struct tidegate_state state;
	size_t swept = 0;
	int error = filter_state(filter, &state);

	if (error)
		return error;
	state.management++;
	error = filter_state_write(filter, &state);
	for (size_t i = 0; i < count; i++)
		bits |= list_bit_of(list_map_of(&listings[i]));
	if (!error)
		error = list_mark(filter, bits, true);
	for (size_t i = 0; i < count && !error; i++) {
		struct tidegate_entry entry = list_entry_of(&listings[i], state.management);
		enum filter_map map = list_map_of(&listings[i]);
		__u8 key[KEY_MAX] = {};

		list_key_of(map, &listings[i].net, key);
		error = bpf_map_update_elem(filter->maps[map], key, &entry, BPF_ANY);
	}
	for (int i = 0; i < 2 && !error; i++)
		error = list_sweep(filter, MAPS[i], state.management, &swept);
	return error ? error : list_mark(filter, all & ~bits, false);
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

	list_walk(filter, map, count_one, &count);
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
	struct net net = list_net_of(printing->map, key);
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
		error = list_walk(filter, MAPS[i], print_entry, &printing);
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
	struct net net = list_net_of(naming->map, key);
	char text[NET_TEXT_MAX];

	(void)entry;
	printf("%s\"%s\"", naming->more ? "," : "", net_write(&net, text));
	naming->more = true;
}

void management_print(const struct filter *filter)
{
	struct naming naming = { .map = MAP_management4 };

	putchar('[');
	list_walk(filter, MAP_management4, print_name, &naming);
	naming.map = MAP_management6;
	list_walk(filter, MAP_management6, print_name, &naming);
	putchar(']');
}
