/** A real nginx on a free port, with one of the shipped files; tells why where there is none. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ROOT } from './gate.js';

export type Nginx = Readonly<{ port: number; stop(): Promise<void> }>;
type Changes = readonly (readonly [text: string | RegExp, by: string])[];

const STREAM_MODULES = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules'].map((folder) =>
  join(folder, 'ngx_stream_module.so'),
);

/** Why tests with nginx cannot run; false where they can. */
export function withoutNginx(needs: 'http' | 'stream'): string | false {
  const known = spawnSync('nginx', ['-V'], { encoding: 'utf8' });
  if (known.error !== undefined || known.status !== 0) return 'nginx is not installed';
  if (needs === 'http' || /--with-stream(?:\s|$)/.test(known.stderr)) return false;
  return STREAM_MODULES.some((file) => existsSync(file)) ? false : 'nginx has no stream module';
}

/** `file` of deploy/nginx with `changes` made to it; each has to fit. `{port}` is the free one. */
export async function startNginx(file: string, changes: Changes): Promise<Nginx> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-nginx-'));
  let text = readFileSync(join(ROOT, 'deploy/nginx', file), 'utf8');
  for (const [from, to] of changes) {
    const changed = text.replace(from, to.replace('{port}', String(port)));
    if (changed === text) throw new Error(`${file} has no ${String(from)}`);
    text = changed;
  }
  writeFileSync(join(folder, 'part.conf'), text);
  writeFileSync(join(folder, 'nginx.conf'), frame(folder, text.includes('\nstream {')));
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (part: Buffer) => (said = (said + part.toString()).slice(-8192)));
  const gone = once(child, 'exit');
  const leave = (): void => void child.kill('SIGTERM');
  process.once('exit', leave);
  const deadline = Date.now() + 15_000;
  while (!(await listens(port))) {
    if (child.exitCode === null && Date.now() < deadline) await sleep(30);
    else {
      child.kill('SIGKILL');
      throw new Error(`nginx does not listen: ${said}`);
    }
  }
  return {
    port,
    async stop() {
      process.off('exit', leave);
      child.kill('SIGTERM');
      if ((await Promise.race([gone, sleep(5000, 'late', { ref: false })])) === 'late') child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function frame(folder: string, isStream: boolean): string {
  const module = STREAM_MODULES.find((file) => existsSync(file));
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join(' ');
  return [
    'daemon off;',
    'worker_processes 1;',
    ...(process.getuid?.() === 0 ? ['user root;'] : []),
    `pid ${folder}/nginx.pid;`,
    'error_log stderr warn;',
    ...(isStream && module !== undefined ? [`load_module ${module};`] : []),
    'events { worker_connections 2048; }',
    isStream
      ? `include ${folder}/part.conf;`
      : `http { access_log off; ${temporary} include ${folder}/part.conf; }`,
    '',
  ].join('\n');
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

function listens(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => (socket.destroy(), done(true))).once('error', () => done(false));
  });
}
