/* The line protocol on standard input, see README.md. */
#ifndef TIDEGATE_SYNC_H
#define TIDEGATE_SYNC_H

#include "filter.h"

/*
 * Reads lines until the end of input, answers on standard output. With `trying`, packets may be sent through
 * the program. The exit code tells whether all lines were accepted.
 */
int sync_run(struct filter *filter, bool trying);

#endif
