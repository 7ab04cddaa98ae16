/*
 * Load for bench/xdp.ts: sends the frame it is run with back out of the interface, each time from the next of
 * some 65 536 sources at most. Only ever run by `xdp-flood`.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "flood.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flood);
} settings SEC(".maps");

SEC("xdp")
int flood(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__u32 zero = 0;
	struct flood *settings_now = bpf_map_lookup_elem(&settings, &zero);

	if (!settings_now || (void *)(ip + 1) > end)
		return XDP_DROP;
	__u32 low = settings_now->next++;

	if (settings_now->next >= settings_now->sources)
		settings_now->next = 0;
	__u32 sum = settings_now->sum + low;

	ip->saddr = bpf_htonl(settings_now->network | low);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = bpf_htons(~sum);
	return XDP_TX;
}

char _license[] SEC("license") = "Apache-2.0";
