/**
 * Secrets from the environment: `${NAME}` inside string values, and keys that end in `Env` and name a
 * variable.
 * `$${` stands for a literal `${`. Values put in are remembered, so that no message shows them.
 */
import type { Path, Problem } from './problem.js';

export type Environment = Readonly<Record<string, string | undefined>>;

export type Filled = Readonly<{
  value: unknown;
  problems: readonly Problem[];
  /** Replaces every value that came from the environment by its name. */
  mask(text: string): string;
}>;

const GAP = /\$(\$\{|\{([^}]*)\})/g;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/**
 * Without its token the gate starts and refuses the commands that need it; that is no reason not to start.
 */
const MAY_BE_MISSING = 'admin.tokenEnv';

/** A copy of `value` with the gaps filled. */
export function fillFromEnvironment(value: unknown, environment: Environment): Filled {
  const problems: Problem[] = [];
  const secrets = new Map<string, string>();

  const fillText = (text: string, path: Path): string =>
    text.replace(GAP, (whole, _inner: string, name: string | undefined) => {
      if (name === undefined) return '${';
      const secret = NAME.test(name) ? environment[name] : undefined;
      if (secret === undefined) {
        problems.push({ path, message: missing(name) });
        return whole;
      }
      if (secret.length > 3) secrets.set(secret, `\${${name}}`);
      return secret;
    });

  const walk = (at: unknown, path: Path): unknown => {
    if (typeof at === 'string') {
      const key = path[path.length - 1];
      if (typeof key === 'string' && /[a-z]Env$/.test(key) && path.join('.') !== MAY_BE_MISSING) {
        if (environment[at] === undefined) problems.push({ path, message: missing(at) });
      }
      return at.includes('${') ? fillText(at, path) : at;
    }
    if (Array.isArray(at)) return at.map((item: unknown, index) => walk(item, [...path, index]));
    if (typeof at !== 'object' || at === null) return at;
    return Object.fromEntries(Object.entries(at).map(([key, item]) => [key, walk(item, [...path, key])]));
  };

  const filled = walk(value, []);
  return {
    value: filled,
    problems,
    mask: (text) => [...secrets].reduce((masked, [secret, name]) => masked.replaceAll(secret, name), text),
  };
}

function missing(name: string): string {
  if (!NAME.test(name)) return `found "\${${name}}"; a variable name such as \${TIDEGATE_SECRET} fits`;
  return `the environment variable ${name} is not set; set it before starting`;
}
