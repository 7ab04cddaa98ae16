/** The page in deploy/ is what the schema says now. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { configReference } from './reference.js';
import { configSchema } from './schema.js';

const page = configReference();
const kept = readFileSync(join(import.meta.dirname, '../../deploy/config-reference.md'), 'utf8');
t.equal(kept === page, true, 'deploy/config-reference.md is current (else: make docs)');

const rows = page.split('\n').filter((line) => line.startsWith('| `'));
for (const key of Object.keys(configSchema.shape)) {
  t.ok(
    page.includes(`\n## ${key}\n`) || rows.some((row) => row.startsWith(`| \`${key}\``)),
    `${key} is there`,
  );
}
const sentences = new Map(rows.map((row) => [/`([^`]+)`/.exec(row)![1]!, !/ \|  \|$/.test(row)]));
const nameless = [...sentences.keys()].filter((key) => {
  const parent = key.replace(/(?:\[\])?\.[^.]+$/, '');
  return sentences.get(key) !== true && sentences.get(parent) !== true;
});
t.strictSame(nameless, [], 'every key has its sentence, or the key above it has');
const wanted: [string, RegExp][] = [
  ['a duration', /\| `timeouts\.connect` \| duration \| `5s` \| 10–864000000 ms \| \S/],
  ['a size with its range', /\| `caps\.headerBytes` \| size \| `32KB` \| 1024–1048576 bytes \| \S/],
  ['a whole number', /\| `ipv6Prefix` \| whole number \| `64` \| 32–128 \| \S/],
  ['a choice', /\| `mode` \| `enforce`, `observe` \| `enforce` \|/],
  ['a key inside a list', /\| `sites\[\]\.hosts` \| list of text \| required \|/],
  ['a key of one alternative', /\| `listen\[\]\.proxyProtocol` \| true\/false \| `false` \|/],
];
for (const [name, row] of wanted) t.match(page, row, `${name} reads well`);
