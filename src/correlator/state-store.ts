/**
 * The state of partitions in Redis: one hash for each, written only forward, deflated, with a time to live.
 * All keys of one group share a hash tag. A state that is too large loses its largest detector part (that
 * detector starts anew for whoever takes over), and says so.
 */
import { promisify } from 'node:util';
import { constants, deflateRaw, inflateRaw } from 'node:zlib';
import type { Saved } from './detector.js';
import type { Position, StateStore, StoredState } from './state-contract.js';

const pack = promisify(deflateRaw);
const unpack = promisify(inflateRaw);

/** Runs a script. Rejects with a Fault where Redis does not answer. */
export type Evaluate = (
  source: string,
  call: Readonly<{ keys: readonly string[]; args: readonly (string | number)[] }>,
) => Promise<unknown>;

export type StateStoreOptions = Readonly<{
  evaluate: Evaluate;
  /** Names the group of correlators that share it. */
  group: string;
  /** What went wrong with one partition and was helped by starting anew. */
  onTrouble: (text: string) => void;
  /** Characters of one value at most. */
  valueMax?: number;
}>;

const TTL_MS = 86_400_000;
const VALUE_MAX = 16 * 1024 * 1024;
const INFLATED_MAX = 256 * 1024 * 1024;

/** KEYS state, list of partitions; ARGV epoch, offset, value, partition, time to live. 1: it was kept. */
const SAVE = `
local epoch, offset = tonumber(ARGV[1]), tonumber(ARGV[2])
local at = redis.call('HMGET', KEYS[1], 'e', 'o')
local e, o = tonumber(at[1] or ''), tonumber(at[2] or '')
if e and o and (e > epoch or (e == epoch and o > offset)) then return 0 end
redis.call('HSET', KEYS[1], 'e', ARGV[1], 'o', ARGV[2], 'd', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('SADD', KEYS[2], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 1
`;

/** KEYS state; ARGV what is known of it. Epoch, offset and, where they are others, the value. */
const READ = `
local at = redis.call('HMGET', KEYS[1], 'e', 'o')
if not at[1] or not at[2] then return {} end
if at[1] == ARGV[1] and at[2] == ARGV[2] then return { at[1], at[2] } end
return { at[1], at[2], redis.call('HGET', KEYS[1], 'd') }
`;

const LIST = `return redis.call('SMEMBERS', KEYS[1])`;

export function createStateStore(options: StateStoreOptions): StateStore {
  const { evaluate, group, onTrouble, valueMax = VALUE_MAX } = options;
  const keyOf = (partition: number): string => `cor:{${group}}:state:${partition}`;
  const list = `cor:{${group}}:partitions`;

  async function read(partition: number, known?: Position): Promise<StoredState | 'same' | undefined> {
    const args = [known?.epoch ?? '', known?.nextOffset ?? ''];
    const reply = await evaluate(READ, { keys: [keyOf(partition)], args });
    const [epoch, nextOffset, value] = Array.isArray(reply) ? (reply as unknown[]) : [];
    if (epoch === undefined) return undefined;
    if (value === undefined) return 'same';
    try {
      const position = { epoch: Number(epoch), nextOffset: Number(nextOffset) };
      return { partition, position, state: await decoded(String(value)) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      onTrouble(`the saved state of partition ${partition} cannot be read (${why}); it starts anew`);
      return undefined;
    }
  }

  return {
    async load(partition) {
      const found = await read(partition);
      return found === 'same' ? undefined : found;
    },
    async save({ partition, position: { epoch, nextOffset }, state }) {
      let value = await encoded(state);
      for (let rest = state; value.length > valueMax; value = await encoded(rest)) {
        const cut = withoutLargest(rest);
        onTrouble(`the state of partition ${partition} is too large to save; ${cut.name} is left out`);
        rest = cut.state;
      }
      const keys = [keyOf(partition), list];
      return (await evaluate(SAVE, { keys, args: [epoch, nextOffset, value, partition, TTL_MS] })) === 1;
    },
    async others(own, known) {
      const members = await evaluate(LIST, { keys: [list], args: [] });
      const numbers = (Array.isArray(members) ? members : []).map(Number).filter(Number.isSafeInteger);
      const wanted = numbers.filter((number) => !own.includes(number));
      const found = await Promise.all(wanted.map((number) => read(number, known.get(number))));
      return {
        moved: found.filter((one): one is StoredState => typeof one === 'object'),
        all: [...own, ...wanted.filter((_, at) => found[at] !== undefined)],
      };
    },
  };
}

async function encoded(state: Saved): Promise<string> {
  const packed = await pack(JSON.stringify(state), { level: constants.Z_BEST_SPEED });
  return packed.toString('base64');
}

async function decoded(text: string): Promise<Saved> {
  const plain = await unpack(Buffer.from(text, 'base64'), { maxOutputLength: INFLATED_MAX });
  return JSON.parse(plain.toString('utf8')) as Saved;
}

type Cut = Readonly<{ name: string; state: Saved }>;

/** Without the detector whose part is the largest; where there is none, with the position alone. */
function withoutLargest(state: Saved): Cut {
  const whole = state as Readonly<Record<string, Saved>>;
  const parts = Object.entries((whole['parts'] ?? {}) as Readonly<Record<string, Saved>>);
  const [largest] = parts
    .map(([name, part]): [string, number] => [name, JSON.stringify(part).length])
    .sort(([, a], [, b]) => b - a);
  if (largest === undefined) {
    const { v, epoch, nextOffset, maxTimeMs } = whole;
    return { name: 'the rest', state: { v, epoch, nextOffset, maxTimeMs } as Saved };
  }
  const left = Object.fromEntries(parts.filter(([name]) => name !== largest[0]));
  return { name: largest[0], state: { ...whole, parts: left } };
}
