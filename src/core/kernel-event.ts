/**
 * What the kernel companion says of a source: once when it first crosses a cap in a window. It goes to the
 * same topic as decisions, where readers tell it by `kind`.
 */

/** Which cap was crossed: all packets of the source, or its TCP SYNs. */
export type KernelCap = 'packets' | 'syn';

export type KernelEvent = Readonly<{
  v: 1;
  kind: 'kernel';
  /** ISO 8601. */
  time: string;
  node: string;
  interface: string;
  mode: 'driver' | 'generic';
  /** The source that is counted: an IPv4 address, or an IPv6 network of /64. It may be forged. */
  source: string;
  what: KernelCap;
  /** How many pass in a second. */
  cap: number;
  /** Whether what is over the cap is dropped, or only counted. */
  dropped: boolean;
}>;

/** True for what `JSON.parse` made of a kernel event, also one of a later version. */
export function isKernelEvent(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'kernel';
}
