/* Packets put through the program by the kernel's test run, see trial.h. */
#include "trial.h"

#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#define FRAME_MAX 4096

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static int read_hex(const char *hex, __u8 *bytes)
{
	size_t length = strlen(hex);

	if (length % 2 || length / 2 > FRAME_MAX)
		return -1;
	for (size_t i = 0; i < length; i += 2) {
		int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);

		if (high < 0 || low < 0)
			return -1;
		bytes[i / 2] = high << 4 | low;
	}
	return length / 2;
}

const char *try_packet(const struct filter *filter, const char *hex, double repeat)
{
	struct tidegate_counter before[TIDEGATE_COUNTER_TOTAL], after[TIDEGATE_COUNTER_TOTAL];
	__u8 frame[FRAME_MAX];
	int length = hex ? read_hex(hex, frame) : -1;
	int error;

	if (length < 0 || repeat < 1)
		return "\"hex\" or \"repeat\" is wrong";
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = length, .repeat = repeat);
	error = filter_counters(filter, before);
	if (!error)
		error = bpf_prog_test_run_opts(filter->program, &options);
	if (!error)
		error = filter_counters(filter, after);
	if (error)
		return strerror(-error);
	for (int id = 0; id < TIDEGATE_COUNTER_TOTAL; id++) {
		after[id].packets -= before[id].packets;
		after[id].bytes -= before[id].bytes;
	}
	printf("{\"ok\":true,\"op\":\"packet\",\"verdict\":\"%s\",\"ns\":%u,\"counters\":",
	       options.retval == 1 ? "drop" : options.retval == 2 ? "pass" : "other", options.duration);
	print_counters(after, true);
	printf("}\n");
	return NULL;
}
