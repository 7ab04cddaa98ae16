/** Self-signed certificates for TLS listeners, made on the spot. */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type Certificate = { cert: string; key: string; fingerprint: string };

/** Why tests of TLS cannot run here; false where they can. */
export const noCertificates: string | false = hasOpenssl() ? false : 'openssl is not installed';

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

export function makeCertificate(name = 'app.test'): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-tls-'));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const about = ['-days', '2', '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`];
  try {
    execFileSync('openssl', ['req', '-x509', ...kind, ...about, '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    });
    const made = { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
    return { ...made, fingerprint: new X509Certificate(made.cert).fingerprint256 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
