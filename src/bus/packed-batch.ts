/** A batch on its way to the publisher's thread: one block of bytes that is handed over, not copied. */
import type { Message } from './link.js';

export type PackedBatch = Readonly<{
  keys: readonly string[];
  ids: readonly string[];
  /** Of each value, bytes. */
  lengths: readonly number[];
  data: Uint8Array<ArrayBuffer>;
}>;

export function packBatch(batch: readonly Message[]): PackedBatch {
  const lengths = batch.map(({ value }) => value.length);
  const data = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const { value } of batch) {
    data.set(value, at);
    at += value.length;
  }
  return { keys: batch.map(({ key }) => key), ids: batch.map(({ id }) => id), lengths, data };
}

export function unpackBatch({ keys, ids, lengths, data }: PackedBatch): Message[] {
  const whole = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  return lengths.map((length, index) => {
    const value = whole.subarray(at, (at += length));
    return { key: keys[index]!, id: ids[index]!, value };
  });
}
