/** Walks the example configs: good ones load, each bad one names the problem that its first line expects. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { Fault } from '../core/errors.js';
import { loadConfig, parseConfig } from './load.js';

const DATA = join(import.meta.dirname, 'testdata');
const SECRET = 'hunter2-hunter2';
Object.assign(process.env, {
  TIDEGATE_TEST_PORT: '8088',
  TIDEGATE_TEST_NAME: 'named',
  TIDEGATE_TEST_SECRET: SECRET,
});
delete process.env['TIDEGATE_TEST_UNSET'];

const files = (folder: string) => readdirSync(join(DATA, folder)).map((name) => join(DATA, folder, name));

async function faultOf(file: string): Promise<Fault> {
  try {
    await loadConfig(file);
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error(`${file} loads`);
}

for (const file of files('good')) {
  const config = await loadConfig(file);
  t.equal(config.baseDir, join(DATA, 'good'), `${file.slice(DATA.length)} loads`);
  t.ok(Object.isFrozen(config) && Object.isFrozen(config.sites[0]), 'and is frozen to the bottom');
}

const root = join(import.meta.dirname, '../..');
await t.resolves(loadConfig(join(root, 'deploy/examples/gate.yaml')), 'the shipped example loads');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
/** A block that shows one section only gets the one key that has to be there, with the sites it names. */
const whole = (block: string) => {
  if (/^sites:/m.test(block)) return block;
  const names = new Set([...block.matchAll(/\bsite: ([a-z]+)/g)].map((found) => found[1]!)).add('a');
  const sites = [...names].map(
    (name) => `{ name: ${name}, hosts: [${name}], upstreams: ["http://10.0.0.1"] }`,
  );
  return `${block}sites: [${sites.join(', ')}]\n`;
};
const blocks = [...readme.matchAll(/^```yaml\n([^]*?)^```/gm)].map((found) => found[1]!);
t.ok(blocks.length > 0, 'the README shows a config');
for (const block of blocks)
  t.doesNotThrow(() => parseConfig(whole(block), 'README.md'), 'the config of the README fits');

for (const file of files('bad')) {
  const text = readFileSync(file, 'utf8');
  const expected = /^# expect: (?:(\S+): )?(.*)$/m.exec(text)!;
  const name = file.slice(DATA.length);
  const fault = await faultOf(file);
  t.equal(fault.code, 'CONFIG_INVALID', `${name} is refused`);
  const hits = fault.message
    .split('\n')
    .slice(1)
    .filter(
      (line) =>
        line.includes(expected[2]!) && line.includes(expected[1] === undefined ? '' : `${expected[1]}`),
    );
  t.equal(hits.length, 1, `${name} says once: ${expected[2]}`, { message: fault.message });
  t.match(hits[0] ?? '', /\.yaml:\d+: /, 'with its line');
  t.notMatch(fault.message, SECRET, 'no secret is shown');
}

const SITE = 'sites: [{ name: a, hosts: [h], upstreams: ["http://10.0.0.1"] }]';
const linesOf = (text: string): string[] => {
  try {
    parseConfig(text, 'gate.yaml', { environment: { SET: 'x' } });
    return [];
  } catch (error) {
    return (error as Fault).message
      .split('\n')
      .slice(1)
      .map((line) => line.trim());
  }
};

t.strictSame(
  linesOf(
    `wrokers: 2\nmode: loud\ncaps:\n  headers: 3\ntimeouts:\n  connect: x\n${SITE}\nredis: { url: nope }\n`,
  ).map((line) => /^gate\.yaml:(\d+): ([^:]+):/.exec(line)?.slice(1).join(' ')),
  ['1 wrokers', '2 mode', '4 caps.headers', '6 timeouts.connect', '8 redis.url'],
  'all problems are told at once, each with its line',
);

const filled = parseConfig(SITE.replace('name: a', "name: '${SET}'"), 'gate.yaml', {
  environment: { SET: 'x' },
});
t.equal(filled.sites[0]!.name, 'x', '${NAME} takes the environment variable');
t.match(
  linesOf(SITE.replace('name: a', () => "name: '$${SET}'"))[0] ?? '',
  /found "\$\{SET\}"/,
  '$${ is a literal ${',
);
t.strictSame(
  parseConfig(`${SITE}\nlisten: 127.0.0.1:0`, 'x/gate.yaml').listen,
  [{ address: '127.0.0.1:0', proxyProtocol: false, tls: undefined }],
  'one address is a list of one',
);

await t.rejects(
  loadConfig(join(DATA, 'none.yaml')),
  { code: 'CONFIG_UNREADABLE' },
  'a file that is not there is told',
);
for (const text of [
  `${'['.repeat(50_000)}`,
  `${'{a: '.repeat(20_000)}`,
  'x'.repeat(5_000_000),
  '\u0000',
  '? [a]\n: b',
]) {
  t.ok(linesOf(text).length > 0, `odd text (${text.length} characters) is refused, nothing breaks`);
}
