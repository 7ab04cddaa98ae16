/* The program inside this binary: into the kernel, or into the link of the one before. */
#include "filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "json.h"
#include "pins.h"

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

/*
 * The link holds the program; the pin is for looking at it. It is made under a name of its own and takes the
 * other's place at once, so that whoever is killed on the way leaves a pin.
 */
static int swap_program(struct filter *filter, int program)
{
	char path[PATH_TEXT_MAX], draft[PATH_TEXT_MAX];
	int error = pins_path(filter, "program", path);

	if (!error)
		error = pins_path(filter, "program_next", draft);
	if (error)
		return fail_kernel(error, "name the pins");
	if (unlink(draft) && errno != ENOENT)
		return fail_kernel(-errno, "clear an old draft away");
	error = bpf_obj_pin(program, draft);
	if (error)
		return fail_kernel(error, "pin the new program");
	error = bpf_link_update(filter->link, program, NULL);
	if (error) {
		unlink(draft);
		return fail_kernel(error, "put the new program into the link");
	}
	return rename(draft, path) ? fail_kernel(-errno, "rename the new program's pin") : EXIT_DONE;
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
	if (code)
		return code;
	printf("{\"ok\":true,\"op\":\"upgrade\",\"interface\":");
	json_print(filter->interface, strlen(filter->interface));
	printf(",\"layout\":%d}\n", TIDEGATE_LAYOUT);
	return EXIT_DONE;
}
