/*
 * xdp-flood: load for bench/xdp.ts, nothing to install.
 *   send IFACE SECONDS SOURCES HEX   frames out of IFACE as fast as one CPU can, by live frames of test_run
 *   sink PORT SECONDS                counts UDP datagrams that arrive at a socket
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include "flood.h"

#define FRAME_MAX 1514
/* Each run sets up buffers of its own, which takes a moment. */
#define REPEAT 524288
#define BATCH 64
#define MESSAGES 64

__asm__(".section .rodata\n"
	".balign 8\n"
	"flood_object: .incbin \"" FLOOD_OBJECT "\"\n"
	"flood_object_end:\n"
	".previous\n");
extern const char flood_object[];
extern const char flood_object_end[];

static double read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static double now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* What the kernel does with a frame at the other end of a veth is done in the sender's time. */
static void report(unsigned long long packets, double began)
{
	printf("{\"packets\":%llu,\"seconds\":%.4f,\"cpuSeconds\":%.4f}\n", packets, now() - began,
	       read_clock(CLOCK_PROCESS_CPUTIME_ID));
}

static int failed(const char *what, int error)
{
	fprintf(stderr, "xdp-flood: cannot %s: %s\n", what, strerror(error < 0 ? -error : error));
	return 1;
}

static size_t read_hex(const char *hex, unsigned char *frame)
{
	size_t length = strlen(hex) / 2;
	unsigned int byte;

	for (size_t i = 0; i < length && i < FRAME_MAX; i++) {
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return 0;
		frame[i] = byte;
	}
	return length > FRAME_MAX ? 0 : length;
}

static struct flood settings_of(unsigned char *frame, unsigned int sources)
{
	unsigned char *ip = frame + ETH_HLEN;
	struct flood flood = { .sources = sources };

	flood.network = (unsigned int)ip[12] << 24 | ip[13] << 16;
	ip[10] = ip[11] = ip[14] = ip[15] = 0;
	for (int i = 0; i < 20; i += 2)
		flood.sum += ip[i] << 8 | ip[i + 1];
	flood.sum = (flood.sum & 0xffff) + (flood.sum >> 16);
	return flood;
}

static int send_for(int program, unsigned int ifindex, double seconds, const unsigned char *frame,
		    size_t length)
{
	struct xdp_md context = { .data_end = length, .ingress_ifindex = ifindex };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = length, .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .repeat = REPEAT, .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
		    .batch_size = BATCH);
	unsigned long long sent = 0;
	double began = now();
	int error;

	while (now() - began < seconds) {
		error = bpf_prog_test_run_opts(program, &options);
		if (error)
			return failed("send", error);
		sent += REPEAT;
	}
	report(sent, began);
	return 0;
}

static int send_frames(char **words)
{
	unsigned int ifindex = if_nametoindex(words[0]), zero = 0;
	unsigned char frame[FRAME_MAX];
	size_t length = read_hex(words[3], frame);
	struct bpf_object *object = bpf_object__open_mem(flood_object, flood_object_end - flood_object, NULL);
	int sources = atoi(words[2]);
	struct flood flood;
	int error;

	if (!ifindex || length < ETH_HLEN + sizeof(struct iphdr) || sources < 1 || sources > 65536)
		return failed("read the arguments", EINVAL);
	error = object ? bpf_object__load(object) : -errno;
	if (error)
		return failed("load", error);
	flood = settings_of(frame, sources);
	error = bpf_map_update_elem(bpf_map__fd(bpf_object__find_map_by_name(object, "settings")), &zero, &flood, 0);
	if (error)
		return failed("set up", error);
	return send_for(bpf_program__fd(bpf_object__find_program_by_name(object, "flood")), ifindex, atof(words[1]),
			frame, length);
}

static int sink(char **words)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(words[0])) };
	struct timeval wait = { .tv_usec = 100000 };
	static char bytes[MESSAGES][2048];
	struct iovec parts[MESSAGES];
	struct mmsghdr messages[MESSAGES] = {};
	unsigned long long received = 0;
	double began, seconds = atof(words[1]);
	int socket_fd = socket(AF_INET, SOCK_DGRAM, 0), count, room = 1 << 30;

	/* So much that a reader who has to wait for a CPU loses little. */
	setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (socket_fd < 0 || bind(socket_fd, (struct sockaddr *)&at, sizeof(at)))
		return failed("open the socket", errno);
	for (int i = 0; i < MESSAGES; i++) {
		parts[i] = (struct iovec){ bytes[i], sizeof(bytes[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	}
	puts("ready");
	fflush(stdout);
	for (began = now(); now() - began < seconds;) {
		count = recvmmsg(socket_fd, messages, MESSAGES, MSG_WAITFORONE, NULL);
		received += count > 0 ? count : 0;
	}
	report(received, began);
	return 0;
}

int main(int count, char **words)
{
	if (count == 6 && !strcmp(words[1], "send"))
		return send_frames(words + 2);
	if (count == 4 && !strcmp(words[1], "sink"))
		return sink(words + 2);
	fputs("xdp-flood send IFACE SECONDS SOURCES HEX | sink PORT SECONDS\n", stderr);
	return 2;
}
