/* Networks in text form, see net.h. */
#include "net.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const __u8 MAPPED[12] = { [10] = 0xff, [11] = 0xff };

static void clear_host_bits(struct net *net)
{
	for (unsigned int bit = net->prefix; bit < 128; bit++)
		net->address[bit / 8] &= ~(0x80 >> bit % 8);
}

const char *net_read(struct net *net, const char *text)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	unsigned int bits;

	memset(net, 0, sizeof(*net));
	if (length == 0 || length >= sizeof(address))
		return "not an address or network";
	memcpy(address, text, length);
	address[length] = '\0';
	net->family = strchr(address, ':') ? 6 : 4;
	if (inet_pton(net->family == 6 ? AF_INET6 : AF_INET, address, net->address) != 1)
		return "not an address or network";
	bits = net->family == 6 ? 128 : 32;
	net->prefix = bits;
	if (slash) {
		size_t digits = strspn(slash + 1, "0123456789");

		if (digits == 0 || digits > 3 || slash[1 + digits] || atoi(slash + 1) > (int)bits)
			return "the prefix length is out of range";
		net->prefix = atoi(slash + 1);
	}
	clear_host_bits(net);
	if (net->family == 6 && net->prefix >= 96 && !memcmp(net->address, MAPPED, sizeof(MAPPED))) {
		memmove(net->address, net->address + 12, 4);
		memset(net->address + 4, 0, 12);
		net->family = 4;
		net->prefix -= 96;
	}
	return NULL;
}

const char *net_write(const struct net *net, char *text)
{
	inet_ntop(net->family == 6 ? AF_INET6 : AF_INET, net->address, text, INET6_ADDRSTRLEN);
	snprintf(text + strlen(text), NET_TEXT_MAX - strlen(text), "/%u", net->prefix);
	return text;
}

int net_overlap(const struct net *one, const struct net *other)
{
	unsigned int bits = one->prefix < other->prefix ? one->prefix : other->prefix;

	if (one->family != other->family)
		return 0;
	for (unsigned int bit = 0; bit < bits; bit++)
		if ((one->address[bit / 8] ^ other->address[bit / 8]) & 0x80 >> bit % 8)
			return 0;
	return 1;
}
