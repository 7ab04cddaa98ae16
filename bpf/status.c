/* What the filter is and has done, as JSON. */
#include "filter.h"

#include <bpf/bpf.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include "json.h"
#include "lists.h"

struct counter_name {
	const char *group;
	const char *name;
};

#define COUNTER_NAME(id, group, name) { #group, #name },
static const struct counter_name COUNTERS[] = { TIDEGATE_COUNTERS(COUNTER_NAME) };
#undef COUNTER_NAME

void print_counters(const struct tidegate_counter *sums, bool moved)
{
	const char *group = NULL;
	bool more = false;

	putchar('{');
	for (int id = 0; id < TIDEGATE_COUNTER_TOTAL; id++) {
		const struct counter_name *name = &COUNTERS[id];

		if (moved && !sums[id].packets)
			continue;
		if (!group || strcmp(group, name->group)) {
			printf("%s\"%s\":{", group ? "}," : "", name->group);
			group = name->group;
			more = false;
		}
		printf("%s\"%s\":{\"packets\":%llu,\"bytes\":%llu}", more ? "," : "", name->name, sums[id].packets,
		       sums[id].bytes);
		more = true;
	}
	printf(group ? "}}" : "}");
}

void print_config(const struct filter *filter, const struct tidegate_config *config)
{
	printf("{\"packetCap\":%u,\"packetWindowMs\":%u,\"synCap\":%u,\"synWindowMs\":%u", config->packet_cap,
	       config->packet_window_ms, config->syn_cap, config->syn_window_ms);
	printf(",\"dryRun\":%s,\"deepVlan\":\"%s\"", config->dry_run ? "true" : "false",
	       config->deep_vlan_drop ? "drop" : "pass");
	printf(",\"eventsPerSecond\":%u,\"eventQuietSeconds\":%u,\"management\":", config->events_per_second,
	       config->event_quiet_s);
	management_print(filter);
	putchar('}');
}

static unsigned long long map_memory(int map)
{
	unsigned long long bytes = 0;
	char line[256], path[64];
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", map);
	info = fopen(path, "r");
	if (!info)
		return 0;
	while (fgets(line, sizeof(line), info))
		if (sscanf(line, "memlock: %llu", &bytes) == 1)
			break;
	fclose(info);
	return bytes;
}

static unsigned long long print_maps(const struct filter *filter)
{
	unsigned long long total = 0;

	printf("{");
	for (int i = 0; i < MAP_TOTAL; i++) {
		struct bpf_map_info info = {};
		__u32 length = sizeof(info);
		unsigned long long bytes = map_memory(filter->maps[i]);

		total += bytes;
		bpf_obj_get_info_by_fd(filter->maps[i], &info, &length);
		printf("%s\"%s\":{\"max\":%u,\"bytes\":%llu", i ? "," : "", filter_map_names[i], info.max_entries,
		       bytes);
		if (i >= MAP_management4 && i <= MAP_ban_net6)
			printf(",\"entries\":%zu", list_size(filter, i));
		printf("}");
	}
	printf("}");
	return total;
}

static void print_link(const struct filter *filter, const struct tidegate_state *state)
{
	static const char *const WHERE[] = { "here", "gone", "renamed", "moved", "elsewhere" };
	struct bpf_link_info link = {};
	struct bpf_prog_info program = {};
	__u32 length = sizeof(link);
	char name[IF_NAMESIZE];
	enum filter_where where = filter_where(filter, name);

	bpf_obj_get_info_by_fd(filter->link, &link, &length);
	length = sizeof(program);
	if (filter->program >= 0)
		bpf_obj_get_info_by_fd(filter->program, &program, &length);
	printf("\"attached\":%s,\"interface\":",
	       where == FILTER_HERE || where == FILTER_ELSEWHERE ? "true" : "false");
	json_print(filter->interface, strlen(filter->interface));
	printf(",\"place\":\"%s\",\"presentName\":", WHERE[where]);
	if (name[0])
		json_print(name, strlen(name));
	else
		printf("null");
	printf(",\"ifindex\":%u,\"mode\":\"%s\"", state->ifindex, mode_name(state->mode));
	printf(",\"programId\":%u,\"linkId\":%u,\"tag\":\"", link.prog_id, link.id);
	for (size_t i = 0; i < sizeof(program.tag); i++)
		printf("%02x", program.tag[i]);
	printf("\",\"layout\":%d,\"pins\":", TIDEGATE_LAYOUT);
	json_print(filter->dir, strlen(filter->dir));
}

int filter_status(struct filter *filter)
{
	struct tidegate_counter sums[TIDEGATE_COUNTER_TOTAL];
	struct tidegate_config config;
	struct tidegate_state state;
	unsigned long long memory;

	if (filter_config(filter, &config) || filter_state(filter, &state) || filter_counters(filter, sums))
		return fail_kernel(-errno, "read the maps");
	printf("{\"ok\":true,");
	print_link(filter, &state);
	printf(",\"config\":");
	print_config(filter, &config);
	printf(",\"lists\":{\"generation\":%llu,\"committedMs\":%llu,\"replaced\":%llu,\"leftOut\":%llu,"
	       "\"refused\":%llu,\"clockStepMs\":%lld}",
	       state.version, state.committed_ms, state.replaced, state.left_out, state.refused,
	       state.committed_ms ? clock_offset_ms() - state.clock_offset_ms : 0);
	printf(",\"counters\":");
	print_counters(sums, false);
	printf(",\"maps\":");
	memory = print_maps(filter);
	printf(",\"memoryBytes\":%llu}\n", memory);
	return EXIT_DONE;
}
