/**
 * What starting needs besides engines: an admin listener that is safe, certificates that fit, addresses that
 * can be listened on. The supervisor and `tidegate check` share it, so that the two never disagree.
 */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { exposure } from '../admin/config.js';
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import { splitAddress } from '../proxy/gate.js';

/** The token that changes need; undefined where the environment has none. Throws ADMIN_EXPOSED. */
export function adminToken(config: Config, environment: NodeJS.ProcessEnv): string | undefined {
  const token = environment[config.admin.tokenEnv];
  const exposed = exposure(config.admin, token);
  if (exposed !== undefined) throw exposed;
  return token;
}

/**
 * Opens every listener for a moment. Throws LISTEN_FAILED where that can never work: two of them clash, the
 * address is not of this machine, the port needs rights, the certificate does not fit. An address held by
 * somebody else is a warning only, since that is the running gate where a new config is checked beside it.
 */
export async function tryListeners(config: Config): Promise<string[]> {
  for (const { address, tls } of config.listen) if (tls !== undefined) tryCertificate(config, address, tls);
  const addresses = config.listen.map(({ address }) => address);
  if (config.admin.enabled) addresses.push(config.admin.listen);
  const warnings: string[] = [];
  const opened: { server: Server; address: string; port: number }[] = [];
  try {
    for (const address of addresses) {
      const { host, port } = splitAddress(address);
      const problem = await tryAddress(host, port, (server) => opened.push({ server, address, port }));
      if (problem === undefined) continue;
      const rival = opened.find((other) => port !== 0 && other.port === port);
      const isTaken = problem.code === 'EADDRINUSE';
      if (isTaken && rival === undefined) {
        warnings.push(`${address} is held by another process; where that is the running gate, all is well`);
        continue;
      }
      const why = isTaken ? `${rival?.address} holds it already` : problem.message;
      throw new Fault('LISTEN_FAILED', { address, why }, problem);
    }
  } finally {
    await Promise.all(opened.map(({ server }) => new Promise((resolve) => server.close(resolve))));
  }
  return warnings;
}

type Tls = NonNullable<Config['listen'][number]['tls']>;

function tryCertificate({ baseDir }: Config, address: string, { cert, key }: Tls): void {
  const read = (file: string): Buffer => readFileSync(path.resolve(baseDir, file));
  try {
    createSecureContext({ cert: read(cert), key: read(key) });
  } catch (error) {
    const why = `${cert} with ${key} cannot be used: ${(error as Error).message}`;
    throw new Fault('LISTEN_FAILED', { address, why }, error);
  }
}

function tryAddress(
  host: string,
  port: number,
  onOpen: (server: Server) => void,
): Promise<NodeJS.ErrnoException | undefined> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve) => {
    server.once('error', resolve);
    server.listen({ host, port, exclusive: true }, () => {
      onOpen(server);
      resolve(undefined);
    });
  });
}
