/**
 * Certificate and key of a TLS listener: read together and tried together, so that what is handed to a server
 * is known to work. Files that are half-written, of another pair or unreadable are refused by name.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { Fault } from '../core/errors.js';
import type { ProxyConfig } from './config.js';

/** PEM texts. */
export type Credentials = Readonly<{ cert: string; key: string }>;
export type TlsProblem = Readonly<{ part: 'cert' | 'key'; why: string }>;

/** What is wrong with the pair, if anything. Never throws. */
export function tlsProblem({ cert, key }: Credentials): TlsProblem | undefined {
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(cert);
  } catch {
    return { part: 'cert', why: 'it does not begin with a PEM certificate' };
  }
  try {
    if (!leaf.checkPrivateKey(createPrivateKey(key)))
      return { part: 'key', why: 'it is not the key of the certificate' };
  } catch {
    return { part: 'key', why: 'it is not a PEM private key without a password' };
  }
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    return { part: 'cert', why: (error as Error).message };
  }
}

type Listeners = ProxyConfig['listen'];

/** In the order of the listeners; undefined for plain HTTP. Throws TLS_UNUSABLE. */
export function readCredentials(listen: Listeners, baseDir: string): (Credentials | undefined)[] {
  return listen.map(({ address, tls }) => {
    if (tls === undefined) return undefined;
    const at = { address, baseDir };
    const credentials = { cert: read(tls.cert, at), key: read(tls.key, at) };
    const problem = tlsProblem(credentials);
    if (problem === undefined) return credentials;
    throw new Fault('TLS_UNUSABLE', { address, file: tls[problem.part], why: problem.why });
  });
}

function read(file: string, { address, baseDir }: Readonly<{ address: string; baseDir: string }>): string {
  try {
    return readFileSync(path.resolve(baseDir, file), 'utf8');
  } catch (error) {
    throw new Fault('TLS_UNUSABLE', { address, file, why: (error as Error).message }, error);
  }
}
