/*
 * What the filter in the kernel and the loader share: map layouts, configuration, counters, events. A change
 * to any of it is a new TIDEGATE_LAYOUT; pins live in a directory of that version, so that a program never
 * meets maps of another shape.
 */
#ifndef TIDEGATE_SHARED_H
#define TIDEGATE_SHARED_H

#include <linux/types.h>

#ifndef TIDEGATE_LAYOUT
#define TIDEGATE_LAYOUT 2
#endif

/* VLAN tags and IPv6 extension headers the parser walks through; deeper ones are counted. */
#define TIDEGATE_VLAN_TAGS 8
#define TIDEGATE_EXTENSIONS 8
/* Expired prefixes that may hide a shorter one in force before the search ends. */
#define TIDEGATE_COVERS 32

/*
 * A window is one word: the tick at which it began above, the packets seen in it below, so that one atomic
 * operation changes both. A tick is 2^20 ns (1.05 ms); 40 bits of them last 36 years.
 */
#define TIDEGATE_TICK_SHIFT 20
#define TIDEGATE_COUNT_BITS 24
#define TIDEGATE_COUNT_MASK ((1ULL << TIDEGATE_COUNT_BITS) - 1)
#define TIDEGATE_CAP_MAX 16000000

/* One entry of the ban or allow list. */
struct tidegate_entry {
	__u64 until_ns;   /* CLOCK_MONOTONIC; not in force from here on; 0: no end */
	__u32 generation; /* of the commit that last asked for it; older ones are swept */
	__u8 severity;    /* 0 to 255; when a list is full the least severe gives way */
	__u8 prefix;      /* bits; a search goes on below it when this entry has expired */
	__u16 unused;
};

/* Keys of prefix lists; addresses in network order. */
struct tidegate_net4 {
	__u32 prefix;
	__u8 address[4];
};

struct tidegate_net6 {
	__u32 prefix;
	__u8 address[16];
};

/* What is remembered of one source: an IPv4 address or the /64 of an IPv6 one. */
struct tidegate_source {
	__u64 packets;      /* window of all packets */
	__u64 syns;         /* window of TCP SYNs */
	__u32 told[2];      /* seconds (in ticks >> 10) of the last event, by enum tidegate_cap */
};

enum tidegate_cap { TIDEGATE_CAP_PACKETS, TIDEGATE_CAP_SYNS };

/* Written by the loader, read for every packet; each field stands for itself. */
struct tidegate_config {
	__u32 layout;
	__u32 dry_run;        /* 1: judge and count, drop nothing */
	__u32 deep_vlan_drop; /* 1: drop frames with more than TIDEGATE_VLAN_TAGS tags */
	__u32 packet_cap;     /* packets per source and window; 0: no cap */
	__u32 packet_ticks;   /* length of the window */
	__u32 syn_cap;
	__u32 syn_ticks;
	__u32 packet_window_ms; /* as asked for; the ticks are derived from them */
	__u32 syn_window_ms;
	__u32 events_per_second; /* per CPU */
	__u32 event_quiet_s;     /* after an event, none of this source and cap for so long */
	/*
	 * Bit (1 << enum tidegate_list): the list may have entries. Set before the first goes in, cleared by a
	 * commit that leaves it empty; lists without the bit cost nothing.
	 */
	__u32 lists;
};

enum tidegate_list {
	TIDEGATE_MANAGEMENT4,
	TIDEGATE_MANAGEMENT6,
	TIDEGATE_ALLOW4,
	TIDEGATE_ALLOW6,
	TIDEGATE_ALLOW_NET4,
	TIDEGATE_ALLOW_NET6,
	TIDEGATE_BAN4,
	TIDEGATE_BAN6,
	TIDEGATE_BAN_NET4,
	TIDEGATE_BAN_NET6,
};

/* What the loader remembers between runs; the filter does not read it. */
struct tidegate_state {
	__u32 mode;       /* enum tidegate_mode */
	__u32 ifindex;
	__u32 generation; /* that entries carry; grows by one with each commit */
	__u32 management; /* the same for the management list */
	__u64 version;    /* the number that the caller gave its last commit */
	__u64 committed_ms; /* Unix time of the last commit; 0: none yet */
	__u64 replaced;   /* entries that gave way to more severe ones in a full list */
	__u64 left_out;   /* entries that found a full list of more severe ones */
	__u64 refused;    /* entries refused: too wide, unreadable */
	__u64 namespace;  /* inode of the network namespace of the interface */
	__s64 clock_offset_ms; /* Unix time less CLOCK_MONOTONIC at the last commit */
};

enum tidegate_mode { TIDEGATE_DRIVER = 1, TIDEGATE_GENERIC = 2 };

/* Sent when a source crosses a cap. */
struct tidegate_event {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u32 cap;
	__u8 kind;   /* enum tidegate_cap */
	__u8 family; /* 4 or 6 */
	__u8 dry_run;
	__u8 unused;
	__u8 source[16]; /* 4 bytes, or 8 of a /64 and zeros */
};

struct tidegate_counter {
	__u64 packets;
	__u64 bytes;
};

/*
 * Every packet is counted under exactly one of passed, dropped and would_drop (dry run); "noted" counts are
 * on top. X(constant, group, name)
 */
#define TIDEGATE_COUNTERS(X)                              \
	X(PASS_NOT_IP, passed, notIp)                     \
	X(PASS_ARP, passed, arp)                          \
	X(PASS_NEIGHBOUR, passed, neighbourDiscovery)     \
	X(PASS_LINK_LOCAL, passed, linkLocal)             \
	X(PASS_MANAGEMENT, passed, management)            \
	X(PASS_ALLOWED, passed, allowed)                  \
	X(PASS_JUDGED, passed, judged)                    \
	X(PASS_DEEP_VLAN, passed, deepVlan)               \
	X(PASS_MALFORMED, passed, malformed)              \
	X(DROP_BANNED, dropped, banned)                   \
	X(DROP_BANNED_NET, dropped, bannedNet)            \
	X(DROP_SYN_CAP, dropped, synCap)                  \
	X(DROP_PACKET_CAP, dropped, packetCap)            \
	X(DROP_DEEP_VLAN, dropped, deepVlan)              \
	X(DROP_INVALID_SOURCE, dropped, invalidSource)    \
	X(WOULD_BANNED, wouldDrop, banned)                \
	X(WOULD_BANNED_NET, wouldDrop, bannedNet)         \
	X(WOULD_SYN_CAP, wouldDrop, synCap)               \
	X(WOULD_PACKET_CAP, wouldDrop, packetCap)         \
	X(WOULD_DEEP_VLAN, wouldDrop, deepVlan)           \
	X(WOULD_INVALID_SOURCE, wouldDrop, invalidSource) \
	X(NOTE_EXPIRED, noted, expired)                   \
	X(NOTE_FRAGMENT, noted, fragment)                 \
	X(NOTE_DEEP_EXTENSIONS, noted, deepExtensions)    \
	X(NOTE_HIDDEN_TRANSPORT, noted, hiddenTransport)  \
	X(NOTE_SOURCES_FAILED, noted, sourcesFailed)      \
	X(NOTE_EVENT, noted, event)                       \
	X(NOTE_EVENT_LIMITED, noted, eventLimited)        \
	X(NOTE_EVENT_LOST, noted, eventLost)

#define TIDEGATE_COUNTER_ID(id, group, name) TIDEGATE_##id,
enum tidegate_counter_id { TIDEGATE_COUNTERS(TIDEGATE_COUNTER_ID) TIDEGATE_COUNTER_TOTAL };
#undef TIDEGATE_COUNTER_ID

#define TIDEGATE_WOULD (TIDEGATE_WOULD_BANNED - TIDEGATE_DROP_BANNED)

#endif
