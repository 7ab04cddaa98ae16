/*
 * Reads one frame: Ethernet, VLAN tags (802.1Q, 802.1ad), IPv4 with options and fragments, IPv6 with a
 * bounded chain of extension headers (RFC 8200 section 4), TCP. Whatever lies past the end of the frame is unread.
 */
#ifndef TIDEGATE_PARSE_BPF_H
#define TIDEGATE_PARSE_BPF_H

#define TAG_8021Q 0x8100
#define TAG_8021AD 0x88a8
#define V4_FRAGMENT_OFFSET 0x1fff
#define V4_MORE_FRAGMENTS 0x2000
#define TCP_SYN 0x02
#define TCP_ACK 0x10
#define TCP_FLAGS_AT 13
#define HOP_LIMIT_ON_LINK 255

enum seen { SEEN_OTHER, SEEN_ARP, SEEN_V4, SEEN_V6, SEEN_DEEP_VLAN, SEEN_MALFORMED };

struct facts {
	__u32 v4;             /* source, network order */
	struct in6_addr v6;   /* source */
	__u8 syn;             /* counts against the SYN cap */
	__u8 neighbour;       /* neighbour discovery from the same link */
	__u8 fragment;
	__u8 deep_extensions;
	__u8 hidden;          /* TCP, but its flags are not in this frame */
};

struct vlan {
	__be16 tag;
	__be16 type;
};

struct extension {
	__u8 next;
	__u8 length;
};

/*
 * A SYN opens a connection. When the flags are out of sight (a tiny first fragment, a chain too long) the
 * packet counts as one, so that hiding them does not lift the cap.
 */
static __always_inline void read_tcp(struct facts *facts, const __u8 *tcp, const void *end)
{
	if ((const void *)(tcp + TCP_FLAGS_AT + 1) > end) {
		facts->hidden = 1;
		facts->syn = 1;
		return;
	}
	facts->syn = (tcp[TCP_FLAGS_AT] & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

static __always_inline enum seen read_v4(struct facts *facts, const void *at, const void *end)
{
	const struct iphdr *ip = at;

	if ((const void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
		return SEEN_MALFORMED;
	facts->v4 = ip->saddr;
	__u16 fragment = bpf_ntohs(ip->frag_off);

	facts->fragment = (fragment & (V4_MORE_FRAGMENTS | V4_FRAGMENT_OFFSET)) != 0;
	/* Only the first fragment has a transport header. */
	if (ip->protocol == IPPROTO_TCP && !(fragment & V4_FRAGMENT_OFFSET))
		read_tcp(facts, at + ip->ihl * 4, end);
	return SEEN_V4;
}

/* The transport protocol at `*at`, -1 if there is none to read in this packet. */
static __always_inline int skip_extensions(struct facts *facts, __u8 next, const void **at, const void *end)
{
	const struct extension *header;

#pragma unroll
	for (int i = 0; i <= TIDEGATE_EXTENSIONS; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT && next != IPPROTO_AH)
			return next;
		header = *at;
		if (i == TIDEGATE_EXTENSIONS) {
			facts->deep_extensions = 1;
			facts->syn = 1;
			return -1;
		}
		if ((const void *)header + 8 > end) {
			facts->hidden = 1;
			facts->syn = 1;
			return -1;
		}
		if (next == IPPROTO_FRAGMENT) {
			__u16 place = bpf_ntohs(*(const __be16 *)(*at + 2));

			facts->fragment = 1;
			if (place & 0xfff8)
				return -1;
			*at += 8;
		} else if (next == IPPROTO_AH) {
			*at += (header->length + 2) * 4;
		} else {
			*at += (header->length + 1) * 8;
		}
		next = header->next;
	}
	return -1;
}

static __always_inline enum seen read_v6(struct facts *facts, const void *at, const void *end)
{
	const struct ipv6hdr *ip = at;

	if ((const void *)(ip + 1) > end || ip->version != 6)
		return SEEN_MALFORMED;
	facts->v6 = ip->saddr;
	at += sizeof(*ip);
	int transport = skip_extensions(facts, ip->nexthdr, &at, end);

	if (transport == IPPROTO_TCP)
		read_tcp(facts, at, end);
	/*
	 * RFC 4861: a hop limit of 255 proves that no router has passed it on, so nobody off the link can borrow
	 * this exemption; RFC 6980: never in fragments.
	 */
	if (transport == IPPROTO_ICMPV6 && ip->hop_limit == HOP_LIMIT_ON_LINK && !facts->fragment &&
	    at + 1 <= end) {
		__u8 type = *(const __u8 *)at;

		facts->neighbour = type >= 133 && type <= 137;
	}
	return SEEN_V6;
}

static __always_inline bool is_tag(__u16 type)
{
	return type == TAG_8021Q || type == TAG_8021AD;
}

static __always_inline enum seen read_network(struct facts *facts, __u16 type, const void *at, const void *end)
{
	switch (type) {
	case ETH_P_IP:
		return read_v4(facts, at, end);
	case ETH_P_IPV6:
		return read_v6(facts, at, end);
	case ETH_P_ARP:
		return SEEN_ARP;
	}
	return is_tag(type) ? SEEN_DEEP_VLAN : SEEN_OTHER;
}

/*
 * A function of its own, which the verifier looks at once: inline, it would go through all headers again for
 * each number of VLAN tags before them. An enum seen.
 */
__noinline int read_behind_tags(struct xdp_md *ctx, struct facts *facts, __u32 offset, __u32 type)
{
	const void *at = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (!facts || offset > sizeof(struct ethhdr) + TIDEGATE_VLAN_TAGS * sizeof(struct vlan))
		return SEEN_MALFORMED;
	return read_network(facts, type, at + offset, end);
}

static __always_inline int read_tagged(struct xdp_md *ctx, struct facts *facts, __u16 type)
{
	const void *at = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 offset = sizeof(struct ethhdr);

	at += sizeof(struct ethhdr);
#pragma unroll
	for (int i = 0; i < TIDEGATE_VLAN_TAGS && is_tag(type); i++) {
		const struct vlan *vlan = at;

		if ((const void *)(vlan + 1) > end)
			return SEEN_MALFORMED;
		type = bpf_ntohs(vlan->type);
		at += sizeof(*vlan);
		offset += sizeof(*vlan);
	}
	return read_behind_tags(ctx, facts, offset, type);
}

static __always_inline int read_frame(struct xdp_md *ctx, struct facts *facts)
{
	const void *end = (void *)(long)ctx->data_end;
	const struct ethhdr *ethernet = (void *)(long)ctx->data;

	if ((const void *)(ethernet + 1) > end)
		return SEEN_MALFORMED;
	__u16 type = bpf_ntohs(ethernet->h_proto);

	return is_tag(type) ? read_tagged(ctx, facts, type) : read_network(facts, type, ethernet + 1, end);
}

#endif
