/* The pins of one interface: what keeps the filter when the loader ends. Errors are -errno unless said. */
#ifndef TIDEGATE_PINS_H
#define TIDEGATE_PINS_H

#include "filter.h"

/* The path of one pin; `path` is PATH_TEXT_MAX long. */
int pins_path(const struct filter *filter, const char *name, char *path);

/* A descriptor of what is pinned under this name. */
int pins_open(const struct filter *filter, const char *name);

/* Waits until no other loader changes the pins; -ENOENT if there are none (any more). */
int pins_lock(struct filter *filter);

/* Makes the directory, or takes the one that is there, and locks it. An exit code, with words. */
int pins_claim(struct filter *filter);

/* Pins program, maps and link. */
int pins_make(const struct filter *filter);

/* Removes the pins; their directory, and with it the lock, stays. */
int pins_clear(const char *dir);

/* Removes the pins and their directory; then the directories above as far as they are empty. */
int pins_remove(const struct filter *filter, const char *dir);

/* A layout version other than this one under which the interface is pinned, and where; or -1. */
int pins_other_layout(const struct filter *filter, char *dir);

#endif
