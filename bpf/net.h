/* Addresses and networks as text and as keys of the lists. */
#ifndef TIDEGATE_NET_H
#define TIDEGATE_NET_H

#include <linux/types.h>
#include <stddef.h>

#define NET_TEXT_MAX 64

struct net {
	int family; /* 4 or 6 */
	unsigned int prefix;
	__u8 address[16]; /* host bits are zero */
};

/* NULL, or what is wrong with the text. Host bits are cleared; IPv4-mapped IPv6 becomes IPv4. */
const char *net_read(struct net *net, const char *text);

/* Writes `net` as address/prefix and returns `text` (NET_TEXT_MAX long). */
const char *net_write(const struct net *net, char *text);

/* Whether the two have an address in common. */
int net_overlap(const struct net *one, const struct net *other);

#endif
