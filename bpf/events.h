/* First crossings of caps as lines of JSON. */
#ifndef TIDEGATE_EVENTS_H
#define TIDEGATE_EVENTS_H

#include "filter.h"

/* Prints events until a signal, until nobody reads them any more or the filter has gone. One reader each. */
int events_run(const struct filter *filter);

#endif
