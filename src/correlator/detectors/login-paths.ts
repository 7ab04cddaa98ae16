/**
 * Which requests are logins, told by method and path in whatever spelling; and which answers mean that one
 * failed. Where it stops being right: a login that answers success and failure alike cannot be told.
 */
import { foldPath } from '../../core/fold-path.js';
import type { Observation } from '../../core/observation.js';
import { templateOf } from '../route.js';
import type { FailedLoginsConfig } from './login-config.js';

/** `named`: only attempts that name a user count, since tokens are renewed at such paths too. */
export type Login = Readonly<{
  template: string;
  methods: ReadonlySet<string>;
  failed: ReadonlySet<number>;
  named: boolean;
}>;

type Asked = Pick<Observation, 'method' | 'path'>;
/** Undefined for what is no login. */
export type Logins = (request: Asked) => Login | undefined;

type Words = Pick<FailedLoginsConfig, 'words' | 'tokenWords' | 'endpoints' | 'formWords' | 'statuses'>;
type Kind = Omit<Login, 'template'>;

const REMEMBERED_MAX = 2_048;
/** What a login's steps are called, in the part below its word. */
const STEPS = new Set(
  'submit check process post password attempt verify validate do in user basic local v1 v2'.split(' '),
);

export function createLogins(words: Words): Logins {
  const kindOf = kinds(words);
  const methods = new Set(['POST', 'PUT', ...words.endpoints.flatMap((endpoint) => endpoint.methods)]);
  let known = new Map<string, Login | null>();
  return ({ method, path }) => {
    if (!methods.has(method)) return undefined;
    let login = known.get(path);
    if (login === undefined) {
      const plain = spelled(path);
      const kind = kindOf(plain);
      login = kind === undefined ? null : { ...kind, template: templateOf(plain) };
      if (known.size >= REMEMBERED_MAX) known = new Map();
      known.set(path, login);
    }
    return login !== null && login.methods.has(method) ? login : undefined;
  };
}

/** `/lo%67in;x` as the origin takes it: `/login`. */
const spelled = (path: string): string =>
  foldPath(
    path.includes('%')
      ? path.replace(/%([2-7][\da-f])/gi, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
      : path,
  );

function kinds(words: Words): (path: string) => Kind | undefined {
  const methods = new Set(['POST', 'PUT']);
  const failed = new Set(words.statuses);
  const plain: Kind = { methods, failed, named: false };
  const form: Kind = { methods, failed: new Set([...words.statuses, 200]), named: false };
  const token: Kind = { methods, failed, named: true };
  const given = new Map(
    words.endpoints.map((endpoint) => [
      foldPath(endpoint.path),
      { methods: new Set(endpoint.methods), failed: new Set(endpoint.failed), named: false },
    ]),
  );
  const [all, forms, tokens] = [words.words, words.formWords, words.tokenWords].map((list) => new Set(list));
  const isWord = (text: string): boolean =>
    words.words.some((word) => text.startsWith(word) || text.endsWith(word));
  return (path) => {
    const exact = given.get(path);
    if (exact !== undefined) return exact;
    const parts = path.split('/').slice(-2);
    const last = withoutEnding(parts.at(-1) ?? '');
    if (forms!.has(last)) return form;
    if (isWord(last) || (STEPS.has(last) && all!.has(withoutEnding(parts[0] ?? '')))) return plain;
    return tokens!.has(last) ? token : undefined;
  };
}

function withoutEnding(segment: string): string {
  const dot = segment.lastIndexOf('.');
  return dot > 0 ? segment.slice(0, dot) : segment;
}
