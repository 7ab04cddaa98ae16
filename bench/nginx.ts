/** Writes nginx configs for the origin and the plain proxy of a benchmark. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';

export function writeNginxConfig(
  folder: string,
  role: 'origin' | 'proxy',
  ports: { listen: number; upstream: number },
): string {
  const location =
    role === 'origin'
      ? `location / { default_type text/html; return 200 "${'x'.repeat(1024)}"; }`
      : `location / { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection "";
         proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr; }`;
  const upstream =
    role === 'origin' ? '' : `upstream origin { server 127.0.0.1:${ports.upstream}; keepalive 128; }`;
  const file = path.join(folder, `${role}.conf`);
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${role}-${name};`,
  );
  writeFileSync(
    file,
    `daemon off; worker_processes 1; pid ${folder}/${role}.pid; error_log stderr error;
events { worker_connections 2048; }
http { access_log off; keepalive_requests 100000000; ${temp.join(' ')} ${upstream}
  server { listen 127.0.0.1:${ports.listen} backlog=1024; ${location} } }
`,
  );
  return file;
}
