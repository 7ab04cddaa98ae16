/*
 * The filter in the kernel: what must never be dropped, then the allow list, the ban list, the SYN cap, the
 * packet cap, in this order, before the TCP stack sees the packet. It knows sources only by address: it
 * cannot tell apart those behind one address, nor a forged address from a true one.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "shared.h"
#include "maps.bpf.h"
#include "parse.bpf.h"

#define TICKS_PER_SECOND_SHIFT 10
#define TICKS_PER_SECOND 954

enum taken { TAKEN_UNDER, TAKEN_CROSSED, TAKEN_OVER };

static __always_inline void count(__u32 id, __u64 bytes)
{
	struct tidegate_counter *counter = bpf_map_lookup_elem(&counters, &id);

	if (counter) {
		counter->packets++;
		counter->bytes += bytes;
	}
}

static __always_inline bool in_force(const struct tidegate_entry *entry, __u64 bytes)
{
	if (!entry->until_ns || bpf_ktime_get_coarse_ns() < entry->until_ns)
		return true;
	count(TIDEGATE_NOTE_EXPIRED, bytes);
	return false;
}

static __always_inline bool listed(void *list, const void *source, __u64 bytes)
{
	const struct tidegate_entry *entry = bpf_map_lookup_elem(list, source);

	return entry && in_force(entry, bytes);
}

/*
 * The longest prefix decides what is found, but it may have expired above a shorter one in force: the search
 * goes on below it. `key` starts with the number of bits to match.
 */
static __always_inline bool covered(void *list, __u32 *key, __u64 bytes)
{
	for (int i = 0; i < TIDEGATE_COVERS; i++) {
		const struct tidegate_entry *entry = bpf_map_lookup_elem(list, key);

		if (!entry)
			return false;
		if (in_force(entry, bytes))
			return true;
		if (!entry->prefix)
			return false;
		*key = entry->prefix - 1;
	}
	return false;
}

/*
 * One packet more in the window at `cell`. Exact whatever CPUs do at once: the decision follows from the
 * count that the atomic addition found. A window that is over its cap is only read, so a flood does not fight
 * over the cache line.
 */
static __always_inline enum taken take(__u64 *cell, __u64 tick, __u32 cap, __u32 ticks)
{
	__u64 seen = *(volatile __u64 *)cell;
	__s64 age = (__s64)(tick - (seen >> TIDEGATE_COUNT_BITS));

	/* A CPU that was held up finds a window begun after it read the clock (age below 0): it is its own too. */
	if (age >= (__s64)ticks) {
		__u64 fresh = tick << TIDEGATE_COUNT_BITS | 1;

		if (__sync_val_compare_and_swap(cell, seen, fresh) == seen)
			return TAKEN_UNDER;
	} else if ((seen & TIDEGATE_COUNT_MASK) > cap) {
		return TAKEN_OVER;
	}
	__u64 before = __sync_fetch_and_add(cell, 1) & TIDEGATE_COUNT_MASK;

	if (before < cap)
		return TAKEN_UNDER;
	return before == cap ? TAKEN_CROSSED : TAKEN_OVER;
}

/* Whether this CPU may send one more event in this second. */
static __always_inline bool may_tell(const struct tidegate_config *conf, __u64 tick)
{
	__u32 zero = 0;
	__u64 *budget = bpf_map_lookup_elem(&event_budget, &zero);

	if (!budget)
		return false;
	if (tick - (*budget >> TIDEGATE_COUNT_BITS) >= TICKS_PER_SECOND)
		*budget = tick << TIDEGATE_COUNT_BITS;
	if ((*budget & TIDEGATE_COUNT_MASK) >= conf->events_per_second)
		return false;
	*budget += 1;
	return true;
}

struct crossing {
	const struct facts *facts;
	__u64 tick;
	__u32 cap;
	__u8 kind;
	__u8 family;
};

static __always_inline void tell(const struct tidegate_config *conf, struct tidegate_source *source,
				 const struct crossing *crossing)
{
	__u32 second = crossing->tick >> TICKS_PER_SECOND_SHIFT;
	__u32 *told = &source->told[crossing->kind];

	if (*told && second - *told < conf->event_quiet_s)
		return;
	if (!may_tell(conf, crossing->tick)) {
		count(TIDEGATE_NOTE_EVENT_LIMITED, 0);
		return;
	}
	struct tidegate_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count(TIDEGATE_NOTE_EVENT_LOST, 0);
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->at_ns = crossing->tick << TIDEGATE_TICK_SHIFT;
	event->cap = crossing->cap;
	event->kind = crossing->kind;
	event->family = crossing->family;
	event->dry_run = conf->dry_run != 0;
	if (crossing->family == 4)
		__builtin_memcpy(event->source, &crossing->facts->v4, 4);
	else
		__builtin_memcpy(event->source, &crossing->facts->v6, 8);
	bpf_ringbuf_submit(event, 0);
	*told = second ?: 1;
	count(TIDEGATE_NOTE_EVENT, 0);
}

/* The source's windows; a source seen for the first time gets empty ones. */
static __always_inline struct tidegate_source *windows_of(void *sources, const void *key)
{
	struct tidegate_source *source = bpf_map_lookup_elem(sources, key);

	if (source)
		return source;
	struct tidegate_source fresh = {};

	/* Another CPU may have been first: whoever was, both go on with the same one. */
	bpf_map_update_elem(sources, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(sources, key);
}

static __always_inline __u32 over_cap(const struct tidegate_config *conf, struct tidegate_source *source,
				      const struct facts *facts, __u8 family)
{
	__u64 tick = bpf_ktime_get_coarse_ns() >> TIDEGATE_TICK_SHIFT;
	struct crossing crossing = { .facts = facts, .tick = tick, .family = family };
	enum taken taken;

	if (facts->syn && conf->syn_cap) {
		taken = take(&source->syns, tick, conf->syn_cap, conf->syn_ticks);
		if (taken == TAKEN_CROSSED) {
			crossing.kind = TIDEGATE_CAP_SYNS;
			crossing.cap = conf->syn_cap;
			tell(conf, source, &crossing);
		}
		if (taken != TAKEN_UNDER)
			return TIDEGATE_DROP_SYN_CAP;
	}
	if (conf->packet_cap) {
		taken = take(&source->packets, tick, conf->packet_cap, conf->packet_ticks);
		if (taken == TAKEN_CROSSED) {
			crossing.kind = TIDEGATE_CAP_PACKETS;
			crossing.cap = conf->packet_cap;
			tell(conf, source, &crossing);
		}
		if (taken != TAKEN_UNDER)
			return TIDEGATE_DROP_PACKET_CAP;
	}
	return TIDEGATE_PASS_JUDGED;
}

static __always_inline __u32 judge_caps(const struct tidegate_config *conf, const struct facts *facts,
					__u8 family, void *sources, const void *key)
{
	if (!conf->packet_cap && !(conf->syn_cap && facts->syn))
		return TIDEGATE_PASS_JUDGED;
	struct tidegate_source *source = windows_of(sources, key);

	if (!source) {
		count(TIDEGATE_NOTE_SOURCES_FAILED, 0);
		return TIDEGATE_PASS_JUDGED;
	}
	return over_cap(conf, source, facts, family);
}

static __always_inline bool used(const struct tidegate_config *conf, enum tidegate_list list)
{
	return conf->lists & (1U << list);
}

static __always_inline __u32 judge_v4(const struct tidegate_config *conf, const struct facts *facts,
				      __u64 bytes)
{
	struct tidegate_net4 net = { .prefix = 32 };

	__builtin_memcpy(net.address, &facts->v4, sizeof(net.address));
	if (used(conf, TIDEGATE_MANAGEMENT4) && covered(&management4, &net.prefix, bytes))
		return TIDEGATE_PASS_MANAGEMENT;
	if (used(conf, TIDEGATE_ALLOW4) && listed(&allow4, &facts->v4, bytes))
		return TIDEGATE_PASS_ALLOWED;
	net.prefix = 32;
	if (used(conf, TIDEGATE_ALLOW_NET4) && covered(&allow_net4, &net.prefix, bytes))
		return TIDEGATE_PASS_ALLOWED;
	if (used(conf, TIDEGATE_BAN4) && listed(&ban4, &facts->v4, bytes))
		return TIDEGATE_DROP_BANNED;
	net.prefix = 32;
	if (used(conf, TIDEGATE_BAN_NET4) && covered(&ban_net4, &net.prefix, bytes))
		return TIDEGATE_DROP_BANNED_NET;
	return judge_caps(conf, facts, 4, &sources4, &facts->v4);
}

/*
 * ::ffff:a.b.c.d and ::a.b.c.d never come from an honest host (RFC 4291 section 2.5.5, RFC 6890), and would
 * slip past what is listed as IPv4. The addresses :: and ::1 are others: detection of duplicates, this machine.
 */
static __always_inline bool embeds_v4(const struct in6_addr *source)
{
	const __u32 *words = source->s6_addr32;

	if (words[0] || words[1])
		return false;
	if (words[2] == bpf_htonl(0xffff))
		return true;
	return !words[2] && bpf_ntohl(words[3]) > 1;
}

static __always_inline __u32 judge_v6(const struct tidegate_config *conf, const struct facts *facts,
				      __u64 bytes)
{
	struct tidegate_net6 net = { .prefix = 128 };
	__u64 network;

	if (facts->neighbour)
		return TIDEGATE_PASS_NEIGHBOUR;
	if (embeds_v4(&facts->v6))
		return TIDEGATE_DROP_INVALID_SOURCE;
	if (facts->v6.s6_addr[0] == 0xfe && (facts->v6.s6_addr[1] & 0xc0) == 0x80)
		return TIDEGATE_PASS_LINK_LOCAL;
	__builtin_memcpy(net.address, &facts->v6, sizeof(net.address));
	__builtin_memcpy(&network, &facts->v6, sizeof(network));
	if (used(conf, TIDEGATE_MANAGEMENT6) && covered(&management6, &net.prefix, bytes))
		return TIDEGATE_PASS_MANAGEMENT;
	if (used(conf, TIDEGATE_ALLOW6) && listed(&allow6, &network, bytes))
		return TIDEGATE_PASS_ALLOWED;
	net.prefix = 128;
	if (used(conf, TIDEGATE_ALLOW_NET6) && covered(&allow_net6, &net.prefix, bytes))
		return TIDEGATE_PASS_ALLOWED;
	if (used(conf, TIDEGATE_BAN6) && listed(&ban6, &network, bytes))
		return TIDEGATE_DROP_BANNED;
	net.prefix = 128;
	if (used(conf, TIDEGATE_BAN_NET6) && covered(&ban_net6, &net.prefix, bytes))
		return TIDEGATE_DROP_BANNED_NET;
	return judge_caps(conf, facts, 6, &sources6, &network);
}

static __always_inline void note(const struct facts *facts, __u64 bytes)
{
	if (facts->fragment)
		count(TIDEGATE_NOTE_FRAGMENT, bytes);
	if (facts->deep_extensions)
		count(TIDEGATE_NOTE_DEEP_EXTENSIONS, bytes);
	if (facts->hidden)
		count(TIDEGATE_NOTE_HIDDEN_TRANSPORT, bytes);
}

static __always_inline __u32 judge(struct xdp_md *ctx, const struct tidegate_config *conf, __u64 bytes)
{
	struct facts facts = {};

	switch (read_frame(ctx, &facts)) {
	case SEEN_V4:
		note(&facts, bytes);
		return judge_v4(conf, &facts, bytes);
	case SEEN_V6:
		note(&facts, bytes);
		return judge_v6(conf, &facts, bytes);
	case SEEN_ARP:
		return TIDEGATE_PASS_ARP;
	case SEEN_DEEP_VLAN:
		return conf->deep_vlan_drop ? TIDEGATE_DROP_DEEP_VLAN : TIDEGATE_PASS_DEEP_VLAN;
	case SEEN_MALFORMED:
		/* The stack discards it, and there is no source to judge by. */
		return TIDEGATE_PASS_MALFORMED;
	case SEEN_OTHER:
		break;
	}
	return TIDEGATE_PASS_NOT_IP;
}

SEC("xdp.frags")
int tidegate(struct xdp_md *ctx)
{
	__u32 zero = 0;
	const struct tidegate_config *conf = bpf_map_lookup_elem(&config, &zero);

	if (!conf)
		return XDP_PASS;
	__u64 bytes = bpf_xdp_get_buff_len(ctx);
	__u32 outcome = judge(ctx, conf, bytes);

	if (outcome >= TIDEGATE_DROP_BANNED && conf->dry_run)
		outcome += TIDEGATE_WOULD;
	count(outcome, bytes);
	return outcome >= TIDEGATE_DROP_BANNED && outcome < TIDEGATE_WOULD_BANNED ? XDP_DROP : XDP_PASS;
}

/* No helper used here asks for the GPL. */
char _license[] SEC("license") = "Apache-2.0";
