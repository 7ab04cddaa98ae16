/* Where the pins of an interface are: root/v<layout>/<interface>/, in a BPF file system. See pins.h. */
#include "pins.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Each time somebody else has made progress. */
#define TRIES 100

int pins_path(const struct filter *filter, const char *name, char *path)
{
	int length = snprintf(path, PATH_TEXT_MAX, "%s/%s", filter->dir, name);

	return length < PATH_TEXT_MAX ? 0 : -ENAMETOOLONG;
}

/* What JSON and paths can carry; the kernel itself refuses only slashes, colons and white space. */
static bool plain(const char *interface)
{
	for (const char *at = interface; *at; at++)
		if (*at <= ' ' || *at > '~' || *at == '/' || *at == ':')
			return false;
	return true;
}

int filter_place(struct filter *filter, const char *root, const char *interface)
{
	memset(filter, 0, sizeof(*filter));
	filter->lock = filter->program = filter->link = -1;
	for (int i = 0; i < MAP_TOTAL; i++)
		filter->maps[i] = -1;
	if (!interface || !*interface || strlen(interface) >= IFNAMSIZ || !plain(interface) ||
	    !strcmp(interface, ".") || !strcmp(interface, ".."))
		return fail(EXIT_INPUT, "name one with --iface", "no usable interface name");
	filter->interface = interface;
	if (snprintf(filter->root, sizeof(filter->root), "%s", root) >= (int)sizeof(filter->root) - 64)
		return fail(EXIT_INPUT, "give a shorter --pin", "the pin directory's name is too long");
	/* That file system knows no dots (eth0.100), interfaces know no colons. */
	for (size_t i = 0; interface[i]; i++)
		filter->folder[i] = interface[i] == '.' ? ':' : interface[i];
	snprintf(filter->dir, sizeof(filter->dir), "%.400s/v%d/%s", root, TIDEGATE_LAYOUT, filter->folder);
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

int pins_clear(const char *dir)
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
	return error;
}

int pins_remove(const struct filter *filter, const char *dir)
{
	char path[PATH_TEXT_MAX];
	int error = pins_clear(dir);

	if (rmdir(dir))
		error = error ? error : -errno;
	snprintf(path, sizeof(path), "%s", dir);
	*strrchr(path, '/') = '\0';
	if (!rmdir(path))
		rmdir(filter->root);
	return error;
}

/* A layout version other than this one under which the interface is pinned, or -1. */
int pins_other_layout(const struct filter *filter, char *dir)
{
	struct dirent *entry;
	DIR *open = opendir(filter->root);
	int layout, found = -1;

	if (!open)
		return -1;
	while (found < 0 && (entry = readdir(open))) {
		if (sscanf(entry->d_name, "v%d", &layout) != 1 || layout == TIDEGATE_LAYOUT)
			continue;
		snprintf(dir, PATH_TEXT_MAX, "%.400s/v%d/%s", filter->root, layout, filter->folder);
		if (!access(dir, F_OK))
			found = layout;
	}
	closedir(open);
	return found;
}

int filter_share(struct filter *filter)
{
	filter->lock = open(filter->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return filter->lock < 0 ? -errno : 0;
}

/* A directory that was removed, or replaced, while this waited for it is of no use. */
static int lock_present(struct filter *filter, bool *present)
{
	struct stat held, named;
	int error = filter_share(filter);

	if (error)
		return error;
	if (flock(filter->lock, LOCK_EX) || fstat(filter->lock, &held))
		return -errno;
	*present = !stat(filter->dir, &named) && named.st_ino == held.st_ino && named.st_dev == held.st_dev;
	if (!*present) {
		close(filter->lock);
		filter->lock = -1;
	}
	return 0;
}

int pins_lock(struct filter *filter)
{
	bool present = false;
	int error = 0;

	for (int i = 0; i < TRIES && !present && !error; i++)
		error = lock_present(filter, &present);
	return error ? error : present ? 0 : -EBUSY;
}

int pins_open(const struct filter *filter, const char *name)
{
	char path[PATH_TEXT_MAX];

	if (pins_path(filter, name, path))
		return -ENAMETOOLONG;
	return bpf_obj_get(path);
}

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

int pins_make(const struct filter *filter)
{
	char path[PATH_TEXT_MAX];
	int error = 0;

	for (int i = 0; i < MAP_TOTAL && !error; i++) {
		error = pins_path(filter, filter_map_names[i], path);
		if (!error)
			error = bpf_obj_pin(filter->maps[i], path);
	}
	if (!error)
		error = pins_path(filter, "program", path);
	if (!error)
		error = bpf_obj_pin(filter->program, path);
	if (!error)
		error = pins_path(filter, "link", path);
	return error ? error : bpf_obj_pin(filter->link, path);
}

int pins_claim(struct filter *filter)
{
	char dir[PATH_TEXT_MAX];
	int code = check_bpffs(filter), layout, error = -ENOENT;

	if (code)
		return code;
	layout = pins_other_layout(filter, dir);
	if (layout >= 0)
		return fail(EXIT_LAYOUT, "detach it first", "%s has a filter of map layout %d", filter->interface,
			    layout);
	/* Whoever detaches meanwhile removes directories that were just found or made. */
	for (int i = 0; i < TRIES && error == -ENOENT; i++) {
		error = make_directories(filter->dir);
		if (!error || error == -EEXIST)
			error = pins_lock(filter);
	}
	return error ? fail_kernel(error, "make and lock the pin directory") : EXIT_DONE;
}
