/**
 * Default gateways and resolvers of this machine, which a ban must never cut off: the kernel's tables of
 * routes and resolv.conf. What cannot be read names nobody.
 */
import { readFile } from 'node:fs/promises';
import { canonicalAddress, formatIpv4 } from '../core/address.js';
import type { Guarded } from '../xdp/agent.js';

const IPV4_ROUTES = '/proc/net/route';
const IPV6_ROUTES = '/proc/net/ipv6_route';
const RESOLVERS = '/etc/resolv.conf';

/** Never rejects. Resolvers are spared by the caps as well: their answers come in here. */
export async function readRouters(): Promise<Guarded> {
  const [ipv4, ipv6, resolvers] = await Promise.all([IPV4_ROUTES, IPV6_ROUTES, RESOLVERS].map(textOf));
  return [
    ...gatewaysIn(ipv4 ?? '', ipv6 ?? '').map((net) => ({ net, why: 'gateway', spared: false }) as const),
    ...resolversIn(resolvers ?? '').map(
      (net) => ({ net, why: 'resolver', spared: !net.startsWith('127.') && net !== '::1' }) as const,
    ),
  ];
}

const textOf = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

/** Each gateway of a default route once; columns as the kernel writes them. */
export function gatewaysIn(ipv4: string, ipv6: string): string[] {
  const found = [...ipv4.split('\n').map(gatewayIn4), ...ipv6.split('\n').map(gatewayIn6)];
  return [...new Set(found.filter((one) => one !== undefined))];
}

function gatewayIn4(line: string): string | undefined {
  const [, destination, gateway = '', , , , , mask] = line.trim().split(/\s+/);
  if (destination !== '00000000' || mask !== '00000000') return undefined;
  if (!/^[0-9A-F]{8}$/i.test(gateway) || gateway === '00000000') return undefined;
  return formatIpv4(Buffer.from(gateway, 'hex').readUInt32LE());
}

function gatewayIn6(line: string): string | undefined {
  const [destination = '', prefix, , , gateway = ''] = line.trim().split(/\s+/);
  if (!/^0{32}$/.test(destination) || prefix !== '00' || /^0*$/.test(gateway)) return undefined;
  return canonicalAddress(gateway.match(/.{4}/g)?.join(':') ?? '');
}

/** Addresses after `nameserver`; a zone (`%eth0`) is left out. */
export function resolversIn(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    const word = /^\s*nameserver\s+([^\s%#;]+)/.exec(line)?.[1];
    return word === undefined ? [] : (canonicalAddress(word) ?? []);
  });
}
