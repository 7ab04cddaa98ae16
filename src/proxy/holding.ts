/**
 * How many body bytes a worker holds. Small bodies have a part of their own, so that large ones never shut
 * them out. When a part is full, it is not the last to come that goes, but a body of whoever holds most: the
 * one with most bytes for the longest time.
 */
import type { Client, Clients, HeldBody } from './clients.js';

/** Body bytes that all requests of this worker hold, and how many were cut or refused for want of room. */
export type HeldBytes = { small: number; large: number; refused: number; refusedAddress: number };

export function createHeldBytes(): HeldBytes {
  return { small: 0, large: 0, refused: 0, refusedAddress: 0 };
}

export type HoldingCaps = Readonly<{ heldTotal: number; heldPerAddress: number }>;

/** Whose cap was passed: that of all, or that of one address. */
export type Full = 'total' | 'address';

/** The body bytes held for one request. */
export type Holding = Readonly<{
  /** From now on `cut` may be called to make room for others; it must release. */
  begin(cut: (full: Full) => void): void;
  /** Counts further bytes, and makes room for them; where there is none, says whose cap is passed. */
  add(bytes: number, caps: HoldingCaps): Full | undefined;
  /** The body is whole and goes on: it stays counted, and is not cut any more. */
  settle(): void;
  /** Gives back all that it has counted. May be called again. */
  release(): void;
}>;

const SMALL_BYTES = 64 * 1024;
/**
 * The part of `heldTotal` that small bodies have to themselves (what else is free they may have as well),
 * half of it at most for those of one address.
 */
const SMALL_PART = 4;
/** So many of the largest small bodies fit there at least, however small it is. */
const SMALL_FIT = 4;

/** A body up to this size (bytes) is a small one. */
export function smallBody({ heldTotal }: Pick<HoldingCaps, 'heldTotal'>): number {
  return Math.min(SMALL_BYTES, Math.floor(heldTotal / SMALL_PART / SMALL_FIT));
}

export function createHolding(held: HeldBytes, client: Client, clients: Clients): Holding {
  return new CountedHolding(held, client, clients);
}

class CountedHolding implements Holding, HeldBody {
  bytes = 0;
  readonly sinceMs = performance.now();
  cut: (() => void) | undefined;
  private large = false;
  private whyCut: Full = 'total';

  constructor(
    private readonly held: HeldBytes,
    private readonly client: Client,
    private readonly clients: Clients,
  ) {}

  begin(cut: (full: Full) => void): void {
    this.cut = () => cut(this.whyCut);
    this.client.bodies.add(this);
  }

  add(bytes: number, caps: HoldingCaps): Full | undefined {
    const before = this.bytes;
    if (!this.large && before + bytes > smallBody(caps)) {
      this.count(-before);
      this.large = true;
      this.count(before);
    }
    this.count(bytes);
    const { held, client } = this;
    const part = Math.floor(caps.heldTotal / SMALL_PART);
    if (!this.large) {
      return (
        this.makeRoom('address', () => client.smallBytes > part / 2) ??
        this.makeRoom('total', () => held.small > part && held.small + held.large > caps.heldTotal)
      );
    }
    return (
      this.makeRoom('address', () => client.largeBytes > caps.heldPerAddress) ??
      this.makeRoom('total', () => held.large > caps.heldTotal - part)
    );
  }

  settle(): void {
    this.cut = undefined;
    this.client.bodies.delete(this);
  }

  release(): void {
    this.settle();
    this.count(-this.bytes);
  }

  private count(bytes: number): void {
    this.bytes += bytes;
    if (this.large) {
      this.held.large += bytes;
      this.client.largeBytes += bytes;
    } else {
      this.held.small += bytes;
      this.client.smallBytes += bytes;
    }
  }

  /** Cuts bodies of this one's size while `isFull`; answers `full` where it is this one's turn. */
  private makeRoom(full: Full, isFull: () => boolean): Full | undefined {
    while (isFull()) {
      if (full === 'total') this.held.refused++;
      else this.held.refusedAddress++;
      const body = full === 'address' ? this.worstOf(this.client) : this.worstOfAll();
      if (body === undefined || body === this) return full;
      const { bytes } = body;
      body.whyCut = full;
      body.cut?.();
      if (body.bytes === bytes) return full;
    }
    return undefined;
  }

  /** A body of the address that holds most of what can still be cut. */
  private worstOfAll(): CountedHolding | undefined {
    let most = 0;
    let worst: CountedHolding | undefined;
    for (const client of this.clients.all()) {
      const bytes = this.large ? client.largeBytes : client.smallBytes;
      if (bytes <= most) continue;
      const body = this.worstOf(client);
      if (body === undefined) continue;
      most = bytes;
      worst = body;
    }
    return worst;
  }

  private worstOf({ bodies }: Client): CountedHolding | undefined {
    const nowMs = performance.now();
    let most = -1;
    let worst: CountedHolding | undefined;
    for (const body of bodies as Set<CountedHolding>) {
      const weight = body.bytes * (nowMs - body.sinceMs);
      if (body.large !== this.large || weight <= most) continue;
      most = weight;
      worst = body;
    }
    return worst;
  }
}
