/** The `headers` section: what each signal in the head is worth. */
import { z } from 'zod';

const points = (fallback: number, what: string) =>
  z.number().min(0).max(100).default(fallback).describe(`Points for ${what}.`);

export const headersSection = z
  .strictObject({
    points: z
      .strictObject({
        emptyUserAgent: points(40, 'no User-Agent or an empty one'),
        automation: points(30, 'the signature of an HTTP library or headless browser'),
        noAccept: points(15, 'no Accept header from what is no browser'),
        noReferer: points(10, 'a form post without Referer and Origin'),
      })
      .prefault({})
      .describe('Points of each check.'),
    automationSignatures: z
      .array(z.string().min(2).max(60))
      .max(200)
      .default([
        'python-requests',
        'python-urllib',
        'python-httpx',
        'aiohttp',
        'curl/',
        'wget/',
        'go-http-client',
        'libwww',
        'lwp::',
        'java/',
        'apache-httpclient',
        'httpclient/',
        'node-fetch',
        'axios/',
        'got (',
        'undici',
        'scrapy',
        'phantomjs',
        'headlesschrome',
        'puppeteer',
        'playwright',
        'selenium',
        'mechanize',
        'ruby',
        'php/',
        'guzzlehttp',
        'postmanruntime',
        'insomnia/',
        'httpie/',
        'winhttp',
        'powershell',
        'sqlmap',
        'nikto',
        'nmap',
        'masscan',
        'zgrab',
        'nuclei',
        'wpscan',
        'dirbuster',
        'gobuster',
        'feroxbuster',
        'hydra',
        'acunetix',
        'nessus',
        'openvas',
        'netsparker',
      ])
      .describe('Lower-case parts of User-Agent that say: a program, not a person.'),
  })
  .prefault({});

export type HeadersConfig = z.output<typeof headersSection>;
