/** `tidegate demo`: the gate with embedded defaults in front of a small origin, to try from the shell. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { startDemoOrigin } from '../roles/demo-origin.js';
import type { CliCommand } from './command.js';
import { serve } from './serve.js';

const ORIGIN_PORT = 9080;

export const demoCommand: CliCommand = {
  name: 'demo',
  register(program: Command) {
    program
      .command('demo')
      .description('serve a demo origin behind the gate with embedded defaults (no Redis, no Kafka)')
      .action(async () => {
        await startDemoOrigin(ORIGIN_PORT);
        await serve(path.join(packageRoot(), 'deploy/demo/gate.yaml'), (listen) => {
          process.stdout.write(hints(listen[0] ?? 'http://127.0.0.1:8080'));
        });
      });
  },
};

function packageRoot(): string {
  const here = fileURLToPath(import.meta.url);
  return path.resolve(path.dirname(here), here.includes(`${path.sep}dist${path.sep}`) ? '../../..' : '../..');
}

function hints(gate: string): string {
  return `
Tidegate stands at ${gate} in front of a demo origin. Try, in another shell:

  an ordinary request   curl -i -A 'Mozilla/5.0' '${gate}/?q=select+a+union+option'
  an attack             curl -i '${gate}/?q=1%27%20or%201=1%20--'
  a Tor exit's attack   curl -i -A python-requests/2.28.0 -H 'Accept:' -H 'X-Forwarded-For: 185.220.101.45' \\
                          --json '{"username":"admin'"'"' OR '"'"'1'"'"'='"'"'1'"'"' --","password":"x"}' ${gate}/api/login
  a flood               for i in $(seq 8); do curl -s -o /dev/null -w '%{http_code}\\n' -X POST -d 'u=a' ${gate}/api/login; done
  what was refused      curl -s http://127.0.0.1:9091/decisions
  the metrics           curl -s http://127.0.0.1:9091/metrics

Each request's decision is a JSON line below; \`npx tidegate explain --config deploy/demo/gate.yaml --event -\` reads one.
Ctrl-C ends it.

`;
}
