/*
 * The maps of the filter. Sizes are defaults; the loader sets others before the program is loaded. Exact bans
 * and sources take their memory beforehand: their entries lie side by side, which saves a third of the time
 * of a look-up in a long list. The other lists grow.
 */
#ifndef TIDEGATE_MAPS_BPF_H
#define TIDEGATE_MAPS_BPF_H

#define LIST(name, kind, flags, keys, entries)            \
	struct {                                          \
		__uint(type, kind);                       \
		__uint(map_flags, flags);                 \
		__uint(max_entries, entries);             \
		__type(key, keys);                        \
		__type(value, struct tidegate_entry);     \
	} name SEC(".maps")

#define SINGLE(name, kind, values, entries)               \
	struct {                                          \
		__uint(type, kind);                       \
		__uint(max_entries, entries);             \
		__type(key, __u32);                       \
		__type(value, values);                    \
	} name SEC(".maps")

#define SOURCES(name, keys, entries)                      \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);      \
		__uint(max_entries, entries);             \
		__type(key, keys);                        \
		__type(value, struct tidegate_source);    \
	} name SEC(".maps")

SINGLE(config, BPF_MAP_TYPE_ARRAY, struct tidegate_config, 1);
SINGLE(state, BPF_MAP_TYPE_ARRAY, struct tidegate_state, 1);
SINGLE(counters, BPF_MAP_TYPE_PERCPU_ARRAY, struct tidegate_counter, TIDEGATE_COUNTER_TOTAL);
/* One window per CPU: how many events it has sent. */
SINGLE(event_budget, BPF_MAP_TYPE_PERCPU_ARRAY, __u64, 1);

LIST(management4, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct tidegate_net4, 256);
LIST(management6, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct tidegate_net6, 256);
LIST(allow4, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, __u32, 65536);
LIST(allow6, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, __u64, 65536);
LIST(allow_net4, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct tidegate_net4, 16384);
LIST(allow_net6, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct tidegate_net6, 16384);
LIST(ban4, BPF_MAP_TYPE_HASH, 0, __u32, 131072);
LIST(ban6, BPF_MAP_TYPE_HASH, 0, __u64, 131072);
LIST(ban_net4, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct tidegate_net4, 65536);
LIST(ban_net6, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct tidegate_net6, 65536);

SOURCES(sources4, __u32, 262144);
SOURCES(sources6, __u64, 131072);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

#endif
