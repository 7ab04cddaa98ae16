/** Which statuses of an origin a policy counts, as one table that a request looks up. */
export const STATUS_CLASS = /^[1-5]xx$/i;

export type StatusSet = (status: number) => boolean;

/** `401`, `4xx` or a list of both; from 100 to 599. No answer (0) is in none. */
export function compileStatus(config: number | string | readonly (number | string)[]): StatusSet {
  const table = new Uint8Array(600);
  for (const one of [config].flat()) {
    if (typeof one === 'number') table[one] = 1;
    else table.fill(1, Number(one[0]) * 100, Number(one[0]) * 100 + 100);
  }
  return (status) => table[status] === 1;
}
