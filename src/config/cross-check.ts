/**
 * What no single key can tell: names and hosts claimed twice, origins that are the gate itself, files that
 * are not there, keys this version does not serve yet. It reads the values as written, so that it speaks even
 * when the schema has complaints of its own, and never throws on odd shapes.
 */
import { resolve } from 'node:path';
import { canonicalAddress } from '../core/address.js';
import { crossLimits, unknownSite } from './cross-limits.js';
import type { Path, Problem } from './problem.js';
import { at, list } from './raw.js';

/** `writable`: a file that will be written, whose folder must be there. */
export type FileKind = 'file' | 'folder' | 'writable';
export type FileCheck = (file: string, kind: FileKind) => string | undefined;
/** What is wrong with a certificate and its key, both readable files, if anything. */
export type PairCheck = (
  cert: string,
  key: string,
) => Readonly<{ part: 'cert' | 'key'; why: string }> | undefined;
/** How the files that a config names are looked at. */
export type Checks = Readonly<{ file: FileCheck; pair: PairCheck }>;

const FILES: readonly (readonly [path: Path, kind: FileKind])[] = [
  [['reputation', 'allowlist'], 'file'],
  [['reputation', 'blocklist'], 'file'],
  [['reputation', 'tor', 'file'], 'file'],
  [['reputation', 'asn', 'database'], 'file'],
  [['reputation', 'geo', 'database'], 'file'],
  [['rules', 'native'], 'folder'],
  [['redis', 'tls', 'ca'], 'file'],
  [['redis', 'tls', 'cert'], 'file'],
  [['redis', 'tls', 'key'], 'file'],
  [['kafka', 'tls', 'ca'], 'file'],
  [['kafka', 'tls', 'cert'], 'file'],
  [['kafka', 'tls', 'key'], 'file'],
  [['log', 'file'], 'writable'],
];

/** `baseDir` is where relative paths start; without `checks` no file is looked at. */
export function crossCheck(raw: unknown, baseDir: string, checks: Checks | undefined): Problem[] {
  const problems: Problem[] = [];
  const crs = at(raw, ['rules', 'crs']);
  if (crs !== undefined && crs !== null) {
    problems.push({
      path: ['rules', 'crs'],
      atKey: true,
      message: 'rules.crs is not supported yet in 0.1: remove the key',
    });
  }
  checkSites(raw, problems);
  checkExclusions(raw, problems);
  problems.push(...crossLimits(raw));
  const own = listenAddresses(raw, problems);
  checkLoops(raw, own, problems);
  if (checks !== undefined) checkFiles({ raw, baseDir, checks, problems });
  return problems;
}

function checkSites(raw: unknown, problems: Problem[]): void {
  const names = new Map<string, string>();
  const hosts = new Map<string, string>();
  list(at(raw, ['sites'])).forEach((site, index) => {
    const name = at(site, ['name']);
    claim(names, name, {
      path: ['sites', index, 'name'],
      owner: `sites[${index}]`,
      what: 'the site name',
      problems,
    });
    list(at(site, ['hosts'])).forEach((host, nth) => {
      const owner = typeof name === 'string' ? `site ${name}` : `sites[${index}]`;
      claim(hosts, host, { path: ['sites', index, 'hosts', nth], owner, what: 'the host', problems });
    });
  });
}

function checkExclusions(raw: unknown, problems: Problem[]): void {
  list(at(raw, ['rules', 'exclusions'])).forEach((exclusion, index) => {
    const wrong = unknownSite(raw, at(exclusion, ['site']));
    if (wrong !== undefined)
      problems.push({ path: ['rules', 'exclusions', index, 'site'], message: wrong });
  });
}

type Claim = Readonly<{ path: Path; owner: string; what: string; problems: Problem[] }>;

function claim(taken: Map<string, string>, value: unknown, { path, owner, what, problems }: Claim): void {
  if (typeof value !== 'string') return;
  const key = value.toLowerCase().replace(/\.$/, '');
  const holder = taken.get(key);
  if (holder !== undefined)
    problems.push({ path, message: `${what} "${value}" is taken by ${holder}; another fits` });
  else taken.set(key, owner);
}

type HostPort = Readonly<{ host: string; port: number }>;

function listenAddresses(raw: unknown, problems: Problem[]): HostPort[] {
  const listen = at(raw, ['listen']);
  const entries: [Path, unknown][] = Array.isArray(listen)
    ? listen.map((entry: unknown, index): [Path, unknown] =>
        typeof entry === 'string'
          ? [['listen', index], entry]
          : [['listen', index, 'address'], at(entry, ['address'])],
      )
    : [[['listen'], listen ?? '127.0.0.1:8080']];
  if (at(raw, ['admin', 'enabled']) !== false) {
    entries.push([['admin', 'listen'], at(raw, ['admin', 'listen']) ?? '127.0.0.1:9091']);
  }
  const own: HostPort[] = [];
  for (const [path, text] of entries) {
    if (typeof text !== 'string') continue;
    const address = hostPort(text);
    if (address === undefined) {
      problems.push({
        path,
        message: `found "${text}"; an address and port such as 0.0.0.0:8080 or [::]:8080 fits`,
      });
    } else if (own.some((other) => address.port !== 0 && same(other, address))) {
      problems.push({ path, message: `the address ${text} is listened on twice; another port fits` });
    } else own.push(address);
  }
  return own;
}

function hostPort(text: string): HostPort | undefined {
  const parts = /^(?:\[([0-9a-f:.]+)\]|([^:[\]\s/]*)):(\d{1,5})$/i.exec(text);
  const port = Number(parts?.[3]);
  if (parts === null || port > 65_535) return undefined;
  const host = (parts[1] ?? parts[2] ?? '').toLowerCase();
  return { host: canonicalAddress(host) ?? host, port };
}

function same(a: HostPort, b: HostPort): boolean {
  if (a.port !== b.port) return false;
  // The name stands for either loopback address, by the machine's own choice.
  const named = (a.host === 'localhost' && isLoopback(b.host)) || (b.host === 'localhost' && isLoopback(a.host));
  return a.host === b.host || isAny(a.host) || isAny(b.host) || named;
}

function isAny(host: string): boolean {
  return host === '' || host === '*' || host === '0.0.0.0' || host === '::';
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function checkLoops(raw: unknown, own: readonly HostPort[], problems: Problem[]): void {
  list(at(raw, ['sites'])).forEach((site, index) => {
    list(at(site, ['upstreams'])).forEach((upstream, nth) => {
      if (typeof upstream !== 'string' || !URL.canParse(upstream)) return;
      const url = new URL(upstream);
      const path = ['sites', index, 'upstreams', nth];
      if ((url.pathname !== '/' && url.pathname !== '') || url.search !== '' || url.hash !== '') {
        problems.push({
          path,
          message: `found "${upstream}"; a URL without a path such as ${url.origin} fits`,
        });
      }
      const host = url.hostname.replace(/^\[|\]$/g, '');
      const target = { host, port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80) };
      const loops = own.some(
        (address) =>
          address.port === target.port &&
          (address.host === host ||
            ((isAny(address.host) || isLoopback(address.host)) && (isLoopback(host) || isAny(host)))),
      );
      if (loops)
        problems.push({
          path,
          message: `found "${upstream}", which is the gate itself; the origin's address fits`,
        });
    });
  });
}

type FilesContext = Readonly<{ raw: unknown; baseDir: string; checks: Checks; problems: Problem[] }>;

function checkFiles(context: FilesContext): void {
  const { raw, baseDir, checks, problems } = context;
  const wanted = [...FILES];
  list(at(raw, ['listen'])).forEach((entry, index) => {
    if (at(entry, ['tls']) !== undefined) checkPair(context, ['listen', index, 'tls']);
  });
  list(at(raw, ['rules', 'custom'])).forEach((_, index) =>
    wanted.push([['rules', 'custom', index], 'folder']),
  );
  for (const [path, kind] of wanted) {
    const file = at(raw, path);
    if (typeof file !== 'string') continue;
    const wrong = checks.file(resolve(baseDir, file), kind);
    if (wrong !== undefined)
      problems.push({
        path,
        message: `found "${file}": ${wrong}; a ${kind === 'writable' ? 'file that can be written' : `readable ${kind}`} fits`,
      });
  }
}

/** Each file by itself, then whether the two belong together. */
function checkPair({ raw, baseDir, checks, problems }: FilesContext, path: Path): void {
  const parts = ['cert', 'key'] as const;
  const files = parts.map((part) => at(raw, [...path, part]));
  if (!files.every((file) => typeof file === 'string')) return;
  const [cert, key] = files.map((file) => resolve(baseDir, file)) as [string, string];
  const wrong = [checks.file(cert, 'file'), checks.file(key, 'file')];
  const pair = wrong.every((each) => each === undefined) ? checks.pair(cert, key) : undefined;
  if (pair !== undefined) wrong[pair.part === 'cert' ? 0 : 1] = pair.why;
  parts.forEach((part, index) => {
    if (wrong[index] === undefined) return;
    const fits = part === 'cert' ? 'a PEM certificate chain' : "the certificate's PEM private key";
    problems.push({ path: [...path, part], message: `found "${files[index]}": ${wrong[index]}; ${fits} fits` });
  });
}
