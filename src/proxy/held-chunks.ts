/**
 * The pieces of a held body. Small ones are copied together: a body sent a byte at a time would otherwise
 * cost a hundred times its size in memory.
 */

const SMALL_BYTES = 2048;
const SLAB_BYTES = 16 * 1024;

export class HeldChunks {
  private readonly chunks: Buffer[] = [];
  private slab: Buffer | undefined;
  private used = 0;

  add(chunk: Buffer): void {
    // A body of one piece is kept as it came.
    if (chunk.length >= SMALL_BYTES || (this.chunks.length === 0 && this.slab === undefined)) {
      this.seal();
      this.chunks.push(chunk);
      return;
    }
    if (this.slab === undefined || this.used + chunk.length > this.slab.length) {
      this.seal();
      this.slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
    }
    this.used += chunk.copy(this.slab, this.used);
  }

  /** All pieces in their order, which are then no longer kept here. */
  take(): Buffer[] {
    this.seal();
    return this.chunks.splice(0);
  }

  /** The same as one. */
  takeWhole(): Buffer {
    const chunks = this.take();
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  }

  private seal(): void {
    const { slab, used } = this;
    if (slab === undefined) return;
    // What is nearly empty is not worth its slab.
    this.chunks.push(used < SLAB_BYTES / 2 ? Buffer.from(slab.subarray(0, used)) : slab.subarray(0, used));
    this.slab = undefined;
    this.used = 0;
  }
}
