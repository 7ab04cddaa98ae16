/** What a queued publisher needs of a broker; `kafka-link.ts` is the real one. */

/** One event as it goes to the broker. */
export type Message = Readonly<{ key: string; id: string; value: Buffer }>;

/** A connection that takes batches one after the other. */
export type Link = Readonly<{
  /**
   * Rejects with `RecordsRefused` where the broker has an opinion about the records, with anything else where
   * it cannot take any. After a rejection the link is not used again.
   */
  send(batch: readonly Message[]): Promise<void>;
  /** Cuts it. Never throws. */
  close(): void;
}>;

export class RecordsRefused extends Error {
  constructor(
    readonly tooLarge: boolean,
    cause: unknown,
  ) {
    super('the broker refuses these records', { cause });
  }
}
