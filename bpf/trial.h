/* Packets put through the program without a wire, for tests and measurements. */
#ifndef TIDEGATE_TRIAL_H
#define TIDEGATE_TRIAL_H

#include "filter.h"

/*
 * Runs the frame `repeat` times and prints verdict, nanoseconds and what was counted; answers what was wrong,
 * or NULL.
 */
const char *try_packet(const struct filter *filter, const char *hex, double repeat);

#endif
