/**
 * The `xdp` section: what the kernel companion drops before the TCP stack sees it, and on which interface.
 */
import { z } from 'zod';
import { parseNetwork } from '../core/address.js';
import { cidr, duration } from '../core/schema.js';

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]):\d{1,5}$/i;

/** As the loader has it. */
const CAP_MAX = 16_000_000;

/** Everything spared would be no filter; the loader refuses it too. */
const isNarrow = (net: string): boolean => (parseNetwork(net)?.prefix ?? 0) > 0;

const capsSection = z
  .strictObject({
    packetsPerSecond: z
      .int()
      .min(0)
      .max(CAP_MAX)
      .default(10_000)
      .describe('Packets of one source (IPv4 address, IPv6 /64) that pass each second; 0: no cap.'),
    synPerSecond: z
      .int()
      .min(0)
      .max(CAP_MAX)
      .default(200)
      .describe('New TCP connections (SYN) of one source that pass each second; 0: no cap.'),
  })
  .prefault({})
  .describe('What one source may send; all behind one shared address count together.');

export const xdpSection = z
  .strictObject({
    interface: z
      .string()
      .regex(/^[^\s/:]{1,15}$/, 'a network interface such as eth0 fits')
      .describe('Network interface whose incoming packets are filtered.'),
    mode: z
      .enum(['driver', 'generic'])
      .describe(
        'driver: in the network driver, fast; generic: in the stack, on any interface. Never guessed.',
      ),
    pin: z
      .string()
      .startsWith('/')
      .max(200)
      .default('/sys/fs/bpf/tidegate')
      .describe('Folder on a bpf file system where filter and lists outlive the loader.'),
    loader: z
      .string()
      .min(1)
      .optional()
      .describe('The loader binary; default: bpf/build/tidegate-xdp of this installation.'),
    dryRun: z
      .boolean()
      .default(false)
      .describe('Count what would be dropped and drop nothing; always so where `mode` is observe.'),
    caps: capsSection,
    deepVlan: z
      .enum(['drop', 'pass'])
      .default('drop')
      .describe(
        'Frames with more than eight VLAN tags, which no ban or cap can judge; pass only where a trunk has them.',
      ),
    management: z
      .array(cidr().refine(isNarrow, 'it would spare everybody'))
      .max(64)
      .default([])
      .describe('Networks that are never dropped, whatever list they are on: where operators come from.'),
    neighbours: z
      .boolean()
      .default(true)
      .describe('Never drop the origins, Redis and Kafka of this config, whose answers come in here too.'),
    entries: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(200_000)
      .describe('Most bans in the kernel; beyond it the most severe stay.'),
    every: duration('30s', { min: 200, max: 3_600_000 }).describe(
      'How often the bans are read and handed over.',
    ),
    timeout: duration('20s', { min: 100, max: 300_000 }).describe(
      'Longest that one run of the loader takes.',
    ),
    bans: z
      .string()
      .min(1)
      .optional()
      .describe("The file of bans to follow instead of Redis or the gate's own book; its last line is {\"end\":N}."),
    listen: z
      .string()
      .regex(LOOPBACK, 'a loopback address and port such as 127.0.0.1:9092 fits')
      .default('127.0.0.1:9093')
      .describe('Where Prometheus asks the companion; loopback only, port 0 takes a free one.'),
  })
  .optional()
  .describe('The kernel companion, `tidegate xdp`; the gate itself does not read this.');

export type XdpConfig = NonNullable<z.output<typeof xdpSection>>;
