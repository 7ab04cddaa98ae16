/* What xdp-flood tells its program. */
#ifndef TIDEGATE_FLOOD_H
#define TIDEGATE_FLOOD_H

#include <linux/types.h>

struct flood {
	__u32 network; /* of the sources, the low 16 bits zero; host order */
	__u32 sources; /* 1 to 65536 */
	__u32 next;
	__u32 sum; /* of the IP header with checksum and low source bits zero */
};

#endif
