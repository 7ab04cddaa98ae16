/*
 * Attaching, finding again, upgrading and removing the filter of one interface. Link, program and maps are
 * pinned: the filter stays when the loader ends, however it ends.
 */
#include "filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "json.h"
#include "lists.h"

#define MAP_NAME(name) #name,
const char *const filter_map_names[MAP_TOTAL] = { FILTER_MAPS(MAP_NAME) };
#undef MAP_NAME

/* The program, compiled for the kernel, inside this binary. */
__asm__(".section .rodata\n"
	".balign 8\n"
	".global program_object\n"
	"program_object: .incbin \"" PROGRAM_OBJECT "\"\n"
	".global program_object_end\n"
	"program_object_end:\n"
	".previous\n");
extern const char program_object[];
extern const char program_object_end[];

#define RIGHTS_REMEDY "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
#define TEXT_MAX 512

int fail(enum exit_code code, const char *remedy, const char *format, ...)
{
	static const char *const names[] = { "DONE", "KERNEL", "INPUT", "NOT_ATTACHED",
					     "BUSY", "NO_DRIVER_MODE", "RIGHTS", "LAYOUT" };
	char text[TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "tidegate-xdp: %s; %s\n", text, remedy);
	printf("{\"ok\":false,\"error\":\"%s\",\"message\":", names[code]);
	json_print(text, strlen(text));
	printf(",\"remedy\":");
	json_print(remedy, strlen(remedy));
	printf("}\n");
	fflush(stdout);
	return code;
}

int fail_kernel(int error, const char *what)
{
	if (error == -EPERM || error == -EACCES)
		return fail(EXIT_RIGHTS, RIGHTS_REMEDY, "not permitted to %s", what);
	return fail(EXIT_KERNEL, "see the kernel log (dmesg) and `tidegate-xdp status`", "cannot %s: %s", what,
		    strerror(-error));
}

const char *mode_name(unsigned int mode)
{
	return mode == TIDEGATE_DRIVER ? "driver" : mode == TIDEGATE_GENERIC ? "generic" : "unknown";
}

unsigned int window_ticks(unsigned int window_ms)
{
	__u64 tick_ns = 1ULL << TIDEGATE_TICK_SHIFT;

	return (window_ms * 1000000ULL + tick_ns - 1) / tick_ns;
}

/* --- pins --- */

static int pin_path(const struct filter *filter, const char *name, char *path)
{
	int length = snprintf(path, PATH_TEXT_MAX, "%s/%s", filter->dir, name);

	return length < PATH_TEXT_MAX ? 0 : -ENAMETOOLONG;
}

int filter_place(struct filter *filter, const char *root, const char *interface)
{
	memset(filter, 0, sizeof(*filter));
	filter->lock = filter->program = filter->link = -1;
	for (int i = 0; i < MAP_TOTAL; i++)
		filter->maps[i] = -1;
	if (!interface || !*interface || strlen(interface) >= IFNAMSIZ || strpbrk(interface, "/ ") ||
	    !strcmp(interface, ".") || !strcmp(interface, ".."))
		return fail(EXIT_INPUT, "name one with --iface", "no usable interface name");
	filter->interface = interface;
	if (snprintf(filter->root, sizeof(filter->root), "%s", root) >= (int)sizeof(filter->root) - 64)
		return fail(EXIT_INPUT, "give a shorter --pin", "the pin directory's name is too long");
	snprintf(filter->dir, sizeof(filter->dir), "%.400s/v%d/%.16s", root, TIDEGATE_LAYOUT, interface);
	return EXIT_DONE;
}

static int make_directories(const char *path)
{
	char part[PATH_TEXT_MAX];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0700) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(part, 0700) ? -errno : 0;
}

/* Removes the pins and their directory; then the directories above as far as they are empty. */
static int remove_pins(const struct filter *filter, const char *dir)
{
	char path[PATH_TEXT_MAX * 2];
	struct dirent *entry;
	DIR *open = opendir(dir);
	int error = 0;

	if (!open)
		return -errno;
	while ((entry = readdir(open))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (unlink(path))
			error = -errno;
	}
	closedir(open);
	if (rmdir(dir))
		error = error ? error : -errno;
	snprintf(path, sizeof(path), "%s", dir);
	*strrchr(path, '/') = '\0';
	if (!rmdir(path))
		rmdir(filter->root);
	return error;
}

/* A layout version other than this one under which the interface is pinned, or -1. */
static int other_layout(const struct filter *filter, char *dir)
{
	struct dirent *entry;
	DIR *open = opendir(filter->root);
	int layout, found = -1;

	if (!open)
		return -1;
	while (found < 0 && (entry = readdir(open))) {
		if (sscanf(entry->d_name, "v%d", &layout) != 1 || layout == TIDEGATE_LAYOUT)
			continue;
		snprintf(dir, PATH_TEXT_MAX, "%.400s/v%d/%.16s", filter->root, layout, filter->interface);
		if (!access(dir, F_OK))
			found = layout;
	}
	closedir(open);
	return found;
}

static int not_attached(const struct filter *filter)
{
	char dir[PATH_TEXT_MAX];
	int layout = other_layout(filter, dir);

	if (layout >= 0)
		return fail(EXIT_LAYOUT, "detach, then attach with this binary, or keep the binary that goes with it",
			    "the filter on %s has map layout %d, this binary has %d", filter->interface, layout,
			    TIDEGATE_LAYOUT);
	return fail(EXIT_NOT_ATTACHED, "attach it first: tidegate-xdp attach --iface IFACE --mode driver|generic",
		    "no filter is pinned for %s in %s", filter->interface, filter->root);
}

int filter_share(struct filter *filter)
{
	filter->lock = open(filter->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return filter->lock < 0 ? -errno : 0;
}

static int lock_pins(struct filter *filter)
{
	int error = filter_share(filter);

	if (!error && flock(filter->lock, LOCK_EX))
		error = -errno;
	return error;
}

static int open_pin(const struct filter *filter, const char *name)
{
	char path[PATH_TEXT_MAX];

	if (pin_path(filter, name, path))
		return -ENAMETOOLONG;
	return bpf_obj_get(path);
}

int filter_open(struct filter *filter, bool exclusive)
{
	struct tidegate_config config;

	if (access(filter->dir, F_OK))
		return errno == EACCES ? fail_kernel(-EACCES, "read the pins") : not_attached(filter);
	if (exclusive && lock_pins(filter))
		return fail_kernel(-errno, "lock the pins");
	filter->link = open_pin(filter, "link");
	filter->program = open_pin(filter, "program");
	if (filter->link < 0 || filter->program < 0) {
		if (filter->link == -EPERM || filter->link == -EACCES)
			return fail_kernel(filter->link, "open the pins");
		return fail(EXIT_NOT_ATTACHED, "clear away with `tidegate-xdp detach`, then attach",
			    "the pins of %s are not complete", filter->interface);
	}
	for (int i = 0; i < MAP_TOTAL; i++) {
		filter->maps[i] = open_pin(filter, filter_map_names[i]);
		if (filter->maps[i] < 0)
			return fail(EXIT_NOT_ATTACHED, "detach, then attach", "the pin of map %s is missing",
				    filter_map_names[i]);
	}
	if (filter_config(filter, &config))
		return fail_kernel(-errno, "read the configuration");
	if (config.layout != TIDEGATE_LAYOUT)
		return fail(EXIT_LAYOUT, "detach, then attach with this binary",
			    "the filter on %s has map layout %u, this binary has %d", filter->interface,
			    config.layout, TIDEGATE_LAYOUT);
	return EXIT_DONE;
}

void filter_close(struct filter *filter)
{
	for (int i = 0; i < MAP_TOTAL; i++)
		if (filter->maps[i] >= 0)
			close(filter->maps[i]);
	if (filter->program >= 0)
		close(filter->program);
	if (filter->link >= 0)
		close(filter->link);
	if (filter->lock >= 0)
		close(filter->lock);
}

/* --- small maps --- */

static int read_single(const struct filter *filter, enum filter_map map, void *value)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(filter->maps[map], &zero, value);
}

static int write_single(const struct filter *filter, enum filter_map map, const void *value)
{
	__u32 zero = 0;

	return bpf_map_update_elem(filter->maps[map], &zero, value, BPF_ANY);
}

int filter_config(const struct filter *filter, struct tidegate_config *config)
{
	return read_single(filter, MAP_config, config);
}

int filter_config_write(const struct filter *filter, const struct tidegate_config *config)
{
	return write_single(filter, MAP_config, config);
}

int filter_state(const struct filter *filter, struct tidegate_state *state)
{
	return read_single(filter, MAP_state, state);
}

int filter_state_write(const struct filter *filter, const struct tidegate_state *state)
{
	return write_single(filter, MAP_state, state);
}

int filter_counters(const struct filter *filter, struct tidegate_counter *sums)
{
	int cpus = libbpf_num_possible_cpus();
	struct tidegate_counter *each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;
	int error = each ? 0 : -ENOMEM;

	memset(sums, 0, sizeof(*sums) * TIDEGATE_COUNTER_TOTAL);
	for (__u32 id = 0; id < TIDEGATE_COUNTER_TOTAL && !error; id++) {
		error = bpf_map_lookup_elem(filter->maps[MAP_counters], &id, each);
		for (int cpu = 0; cpu < cpus && !error; cpu++) {
			sums[id].packets += each[cpu].packets;
			sums[id].bytes += each[cpu].bytes;
		}
	}
	free(each);
	return error;
}

/* --- loading --- */

static char warnings[4096];

/* libbpf's words are kept for the case that loading fails. */
static int keep_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	size_t used = strlen(warnings);

	if (level == LIBBPF_WARN)
		vsnprintf(warnings + used, sizeof(warnings) - used, format, arguments);
	return 0;
}

static struct bpf_object *open_object(void)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "tidegate");

	libbpf_set_print(keep_warning);
	warnings[0] = '\0';
	return bpf_object__open_mem(program_object, program_object_end - program_object, &options);
}

static void set_size(struct bpf_object *object, enum filter_map map, unsigned int entries)
{
	if (entries)
		bpf_map__set_max_entries(bpf_object__find_map_by_name(object, filter_map_names[map]), entries);
}

static int load_failed(struct bpf_object *object, int error)
{
	bpf_object__close(object);
	if (error == -EPERM || error == -EACCES)
		return fail_kernel(error, "load the program");
	fputs(warnings, stderr);
	return fail(EXIT_KERNEL, "the verifier's words are above; Linux 5.18 or later is needed",
		    "the kernel refused the program: %s", strerror(-error));
}

/* Takes duplicates of the object's descriptors, so that the object can go. */
static int take_over(struct filter *filter, struct bpf_object *object)
{
	struct bpf_program *program = bpf_object__find_program_by_name(object, "tidegate");

	filter->program = fcntl(bpf_program__fd(program), F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < MAP_TOTAL; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, filter_map_names[i]);

		filter->maps[i] = map ? fcntl(bpf_map__fd(map), F_DUPFD_CLOEXEC, 3) : -1;
		if (filter->maps[i] < 0)
			return -ENOENT;
	}
	return filter->program < 0 ? -errno : 0;
}

int filter_load(struct filter *filter, const struct filter_sizes *sizes, const struct tidegate_config *config)
{
	struct tidegate_state state = {};
	struct bpf_object *object = open_object();
	int error;

	if (!object)
		return load_failed(NULL, -errno);
	set_size(object, MAP_sources4, sizes->sources);
	set_size(object, MAP_sources6, sizes->sources);
	set_size(object, MAP_ban4, sizes->bans);
	set_size(object, MAP_ban6, sizes->bans);
	set_size(object, MAP_ban_net4, sizes->bans);
	set_size(object, MAP_ban_net6, sizes->bans);
	error = bpf_object__load(object);
	if (error)
		return load_failed(object, error);
	error = take_over(filter, object);
	bpf_object__close(object);
	if (!error)
		error = filter_config_write(filter, config);
	if (!error)
		error = filter_state_write(filter, &state);
	return error ? fail_kernel(error, "set up the maps") : EXIT_DONE;
}

/* --- attach --- */

static int check_bpffs(const struct filter *filter)
{
	char path[PATH_TEXT_MAX];
	struct statfs place;

	snprintf(path, sizeof(path), "%s", filter->root);
	while (statfs(path, &place)) {
		char *slash = strrchr(path, '/');

		if (errno != ENOENT || !slash || slash == path)
			return fail_kernel(-errno, "find the pin directory");
		*slash = '\0';
	}
	if (place.f_type == BPF_FS_MAGIC)
		return EXIT_DONE;
	return fail(EXIT_KERNEL, "mount one: mount -t bpf bpf /sys/fs/bpf, or name one with --pin",
		    "%s is not in a BPF file system", filter->root);
}

static int pin_all(const struct filter *filter)
{
	char path[PATH_TEXT_MAX];
	int error = 0;

	for (int i = 0; i < MAP_TOTAL && !error; i++) {
		error = pin_path(filter, filter_map_names[i], path);
		if (!error)
			error = bpf_obj_pin(filter->maps[i], path);
	}
	if (!error)
		error = pin_path(filter, "program", path);
	if (!error)
		error = bpf_obj_pin(filter->program, path);
	if (!error)
		error = pin_path(filter, "link", path);
	return error ? error : bpf_obj_pin(filter->link, path);
}

static int link_failed(const struct filter *filter, enum tidegate_mode mode, int error)
{
	if (error == -EPERM)
		return fail_kernel(error, "attach the program");
	if (error == -EBUSY || error == -EEXIST)
		return fail(EXIT_BUSY, "look with `ip link show` and `bpftool net`; one program per interface",
			    "another XDP program is on %s", filter->interface);
	if (mode == TIDEGATE_DRIVER)
		return fail(EXIT_NO_DRIVER_MODE,
			    "see dmesg (MTU, LRO, queues); `--mode generic` works everywhere and is slower",
			    "%s cannot run XDP in driver mode: %s; nothing was attached", filter->interface,
			    strerror(-error));
	return fail(EXIT_KERNEL, "see dmesg", "cannot attach to %s: %s", filter->interface, strerror(-error));
}

static int link_up(struct filter *filter, enum tidegate_mode mode, unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_link_create_opts, options,
		    .flags = mode == TIDEGATE_DRIVER ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
	struct tidegate_state state;
	int error = filter_state(filter, &state);

	state.mode = mode;
	state.ifindex = ifindex;
	if (!error)
		error = filter_state_write(filter, &state);
	if (error)
		return fail_kernel(error, "write the state");
	filter->link = bpf_link_create(filter->program, ifindex, BPF_XDP, &options);
	if (filter->link < 0)
		return link_failed(filter, mode, filter->link);
	/* Not pinned, the link goes with this process: a failure here leaves nothing attached. */
	error = pin_all(filter);
	return error ? fail_kernel(error, "pin the filter") : EXIT_DONE;
}

static int claim_directory(struct filter *filter)
{
	char dir[PATH_TEXT_MAX];
	int code = check_bpffs(filter), layout, error;

	if (code)
		return code;
	layout = other_layout(filter, dir);
	if (layout >= 0)
		return fail(EXIT_LAYOUT, "detach it first", "%s has a filter of map layout %d", filter->interface,
			    layout);
	error = make_directories(filter->dir);
	if (error == -EEXIST)
		return fail(EXIT_BUSY, "use `tidegate-xdp upgrade` for a new program, `config` for other caps",
			    "%s has a filter", filter->interface);
	if (error)
		return fail_kernel(error, "make the pin directory");
	return lock_pins(filter) ? fail_kernel(-errno, "lock the pins") : EXIT_DONE;
}

int filter_prepare(struct filter *filter, const struct filter_sizes *sizes,
		   const struct tidegate_config *config)
{
	int code;

	if (!if_nametoindex(filter->interface))
		return fail(EXIT_INPUT, "see `ip link`", "there is no interface %s", filter->interface);
	code = claim_directory(filter);
	if (code)
		return code;
	code = filter_load(filter, sizes, config);
	if (code)
		filter_abandon(filter);
	return code;
}

void filter_abandon(struct filter *filter)
{
	remove_pins(filter, filter->dir);
}

int filter_link(struct filter *filter, enum tidegate_mode mode)
{
	struct tidegate_config config = {};
	int code = link_up(filter, mode, if_nametoindex(filter->interface));

	if (code)
		return code;
	filter_config(filter, &config);
	fprintf(stderr, "tidegate-xdp: filter attached to %s in %s mode%s%s\n", filter->interface,
		mode == TIDEGATE_DRIVER ? "DRIVER" : "GENERIC",
		mode == TIDEGATE_GENERIC ? " (slower: the kernel has built its packet buffers by then)" : "",
		config.dry_run ? ", DRY RUN: nothing is dropped" : "");
	return EXIT_DONE;
}

/* Pins of any layout, complete or not, go; so does the program. */
int filter_detach(struct filter *filter)
{
	char dir[PATH_TEXT_MAX];
	int error = 0;

	if (access(filter->dir, F_OK)) {
		if (other_layout(filter, dir) < 0)
			return not_attached(filter);
		snprintf(filter->dir, sizeof(filter->dir), "%s", dir);
	}
	if (lock_pins(filter))
		return fail_kernel(-errno, "lock the pins");
	filter->link = open_pin(filter, "link");
	if (filter->link == -EPERM || filter->link == -EACCES)
		return fail_kernel(filter->link, "open the pins");
	if (filter->link >= 0)
		error = bpf_link_detach(filter->link);
	/* The interface may be gone, and the link with it. */
	if (error && error != -EOPNOTSUPP && error != -EINVAL && error != -ENOLINK && error != -ENODEV)
		return fail_kernel(error, "detach the link");
	error = remove_pins(filter, filter->dir);
	if (error)
		return fail_kernel(error, "remove the pins");
	printf("{\"ok\":true,\"op\":\"detach\",\"interface\":\"%s\"}\n", filter->interface);
	return EXIT_DONE;
}

/* --- upgrade --- */

static bool same_shape(const struct bpf_map *map, int pinned)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);

	return !bpf_obj_get_info_by_fd(pinned, &info, &length) && info.type == bpf_map__type(map) &&
	       info.key_size == bpf_map__key_size(map) && info.value_size == bpf_map__value_size(map);
}

static int keep_maps(const struct filter *filter, struct bpf_object *object)
{
	for (int i = 0; i < MAP_TOTAL; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, filter_map_names[i]);
		int error;

		if (!map || !same_shape(map, filter->maps[i]))
			return fail(EXIT_LAYOUT, "detach, then attach with this binary",
				    "map %s has another shape; the old program stays", filter_map_names[i]);
		error = bpf_map__reuse_fd(map, filter->maps[i]);
		if (error)
			return fail_kernel(error, "keep the maps");
	}
	return EXIT_DONE;
}

static int swap_program(struct filter *filter, int program)
{
	char path[PATH_TEXT_MAX];
	int error = bpf_link_update(filter->link, program, NULL);

	if (!error)
		error = pin_path(filter, "program", path);
	if (error)
		return fail_kernel(error, "put the new program into the link");
	/* The link holds the program; the pin is for looking at it. */
	unlink(path);
	error = bpf_obj_pin(program, path);
	return error ? fail_kernel(error, "pin the new program") : EXIT_DONE;
}

int filter_upgrade(struct filter *filter)
{
	struct bpf_object *object = open_object();
	int code, error;

	if (!object)
		return load_failed(NULL, -errno);
	code = keep_maps(filter, object);
	if (code) {
		bpf_object__close(object);
		return code;
	}
	error = bpf_object__load(object);
	if (error)
		return load_failed(object, error);
	code = swap_program(filter, bpf_program__fd(bpf_object__find_program_by_name(object, "tidegate")));
	bpf_object__close(object);
	if (!code)
		printf("{\"ok\":true,\"op\":\"upgrade\",\"interface\":\"%s\",\"layout\":%d}\n", filter->interface,
		       TIDEGATE_LAYOUT);
	return code;
}

/* --- status --- */

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

bool filter_attached(const struct filter *filter)
{
	struct bpf_link_info link = {};
	__u32 length = sizeof(link);

	if (filter->link < 0)
		return true;
	return !bpf_obj_get_info_by_fd(filter->link, &link, &length) && link.xdp.ifindex;
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
	struct bpf_link_info link = {};
	struct bpf_prog_info program = {};
	__u32 length = sizeof(link);

	bpf_obj_get_info_by_fd(filter->link, &link, &length);
	length = sizeof(program);
	bpf_obj_get_info_by_fd(filter->program, &program, &length);
	printf("\"attached\":%s,\"interface\":\"%s\",\"ifindex\":%u,\"mode\":\"%s\"",
	       link.xdp.ifindex ? "true" : "false", filter->interface, state->ifindex, mode_name(state->mode));
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
	       "\"refused\":%llu}",
	       state.version, state.committed_ms, state.replaced, state.left_out, state.refused);
	printf(",\"counters\":");
	print_counters(sums, false);
	printf(",\"maps\":");
	memory = print_maps(filter);
	printf(",\"memoryBytes\":%llu}\n", memory);
	return EXIT_DONE;
}
