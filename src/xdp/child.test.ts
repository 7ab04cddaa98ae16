import t from 'tap';
import { Fault } from '../core/errors.js';
import { runLoader, type Answered } from './child.js';

const node = (
  script: string,
  change: { timeoutMs?: number; input?: Iterable<string> } = {},
): Promise<Answered> =>
  runLoader({ file: process.execPath, args: ['-e', script], timeoutMs: 20_000, ...change });

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'none';
  } catch (error) {
    return error instanceof Fault ? error.code : String(error);
  }
};

t.test('output, error text and exit code come back, whatever the code', async (t) => {
  const answer = await node('console.log("out"); console.error(" words "); process.exitCode = 3');
  t.same(answer, { code: 3, stdout: 'out\n', stderr: 'words' });
});

t.test('a large input is handed over whole', async (t) => {
  const count = 'let n = 0; process.stdin.on("data", (d) => (n += d.length)).on("end", () => console.log(n))';
  const piece = 'x'.repeat(10_000);
  const { stdout } = await node(count, { input: Array.from({ length: 500 }, () => piece) });
  t.equal(stdout, '5000000\n');
});

t.test('a loader that does not read its input to the end is no trouble', async (t) => {
  const piece = 'x'.repeat(100_000);
  const input = Array.from({ length: 100 }, () => piece);
  t.match(await node('process.exit(2)', { input }), { code: 2 });
});

t.test('one that hangs, that is killed, that is not there: each has its fault', async (t) => {
  t.equal(await codeOf(node('setInterval(() => 0, 1000)', { timeoutMs: 300 })), 'XDP_LOADER_TIMEOUT');
  t.equal(await codeOf(node('process.kill(process.pid, "SIGKILL")')), 'XDP_LOADER_FAILED');
  const missing = runLoader({ file: '/nowhere/loader', args: ['status'], timeoutMs: 1000 });
  t.equal(await codeOf(missing), 'XDP_LOADER_MISSING');
});

t.test('endless output is bounded by the time, endless error text cut', async (t) => {
  const script = 'const s = "y".repeat(1000); for (let i = 0; i < 1000; i++) process.stderr.write(s)';
  const { stderr } = await node(script);
  t.ok(stderr.length <= 128 * 1024, `${stderr.length} characters`);
});
