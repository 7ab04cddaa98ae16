/**
 * What events are spread over partitions by: one caller's events stay in order. The session before the API
 * key before the address, as detectors follow them.
 */

type Caller = Readonly<{ session?: string | undefined; apiKey?: string | undefined; key: string }>;

export const keyOf = ({ session, apiKey, key }: Caller): string => session ?? apiKey ?? key;
