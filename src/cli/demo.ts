/** `tidegate demo`: the gate with embedded defaults in front of a small origin, to try from the shell. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvalidArgumentError, type Command } from 'commander';
import type { Config } from '../config/schema.js';
import { startDemoOrigin } from '../roles/demo-origin.js';
import { createSupervisor, type Started } from '../roles/supervisor.js';
import type { CliCommand } from './command.js';
import { serve } from './serve.js';

type Ports = Readonly<{ port: number; adminPort: number; originPort: number }>;

export const demoCommand: CliCommand = {
  name: 'demo',
  register(program: Command) {
    program
      .command('demo')
      .description('serve a demo origin behind the gate with embedded defaults (no Redis, no Kafka)')
      .option('-p, --port <port>', 'where the gate listens on 127.0.0.1; 0 takes any', portOf, 8080)
      .option('--admin-port <port>', 'where its admin listener is; 0 takes any', portOf, 9091)
      .option('--origin-port <port>', 'where the demo origin is; 0 takes any', portOf, 0)
      .action(async (ports: Ports) => {
        const origin = await startDemoOrigin(ports.originPort);
        const file = path.join(packageRoot(), 'deploy/demo/gate.yaml');
        const supervisor = createSupervisor(file, (config) => placed(config, ports, origin.url));
        try {
          await serve(supervisor, (started) => process.stdout.write(hints(started)));
        } catch (error) {
          origin.close();
          throw error;
        }
      });
  },
};

function portOf(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535)
    throw new InvalidArgumentError('A port from 0 to 65535 fits.');
  return port;
}

/** The demo's config with the ports of the command line. */
function placed(config: Config, { port, adminPort }: Ports, upstream: string): Config {
  return {
    ...config,
    listen: config.listen.map((listener) => ({ ...listener, address: `127.0.0.1:${port}` })),
    admin: { ...config.admin, listen: `127.0.0.1:${adminPort}` },
    sites: config.sites.map((site) => ({ ...site, upstreams: [upstream] })),
  };
}

function packageRoot(): string {
  const here = fileURLToPath(import.meta.url);
  return path.resolve(path.dirname(here), here.includes(`${path.sep}dist${path.sep}`) ? '../../..' : '../..');
}

function hints({ listen, admin }: Started): string {
  const gate = listen[0] ?? '';
  return `
Tidegate stands at ${gate} in front of a demo origin. Try, in another shell:

  an ordinary request   curl -i -A 'Mozilla/5.0' '${gate}/?q=select+a+union+option'
  an attack             curl -i '${gate}/?q=1%27%20or%201=1%20--'
  a Tor exit's attack   curl -i -A python-requests/2.28.0 -H 'Accept:' -H 'X-Forwarded-For: 185.220.101.45' \\
                          -H 'Content-Type: application/json' ${gate}/api/login \\
                          -d '{"username":"admin'"'"' OR '"'"'1'"'"'='"'"'1'"'"' --","password":"anything"}'
  a flood               for i in $(seq 8); do \\
                          curl -s -o /dev/null -w '%{http_code}\\n' -d 'u=a' ${gate}/api/login; done
  58 failing addresses  for n in $(seq 58); do for i in 1 2 3 4 5; do curl -s -o /dev/null -A Mozilla/5.0 \\
                          -H "X-Forwarded-For: 198.51.100.$n" -d "username=u$n&password=wrong" \\
                          ${gate}/api/login; done; done
  who is banned         curl -s ${admin}/bans
  what was refused      curl -s ${admin}/decisions
  the metrics           curl -s ${admin}/metrics

Each request's decision is a JSON line below; \`--event -\` reads one from standard input:

  npx tidegate explain --config deploy/demo/gate.yaml --event FILE

Ctrl-C ends the demo.

`;
}
