/**
 * Crawlers that say who they are and can prove it, as their operators document: the names that their reverse
 * DNS ends in, or the addresses they publish. The `crawlers` section of the config adds others.
 */
import { z } from 'zod';
import { cidr } from '../core/schema.js';

const GOOGLE = ['googlebot.com', 'google.com'];

/** developers.google.com, bing.com/webmasters, support.apple.com, duckduckgo.com, yandex.com, baidu.com … */
export const KNOWN_CRAWLERS: CrawlersConfig = [
  { agent: 'Googlebot', domains: GOOGLE, networks: [] },
  { agent: 'Google-InspectionTool', domains: GOOGLE, networks: [] },
  { agent: 'GoogleOther', domains: GOOGLE, networks: [] },
  { agent: 'Storebot-Google', domains: GOOGLE, networks: [] },
  { agent: 'AdsBot-Google', domains: GOOGLE, networks: [] },
  { agent: 'Mediapartners-Google', domains: GOOGLE, networks: [] },
  { agent: 'bingbot', domains: ['search.msn.com'], networks: [] },
  { agent: 'adidxbot', domains: ['search.msn.com'], networks: [] },
  { agent: 'msnbot', domains: ['search.msn.com'], networks: [] },
  { agent: 'Applebot', domains: ['applebot.apple.com'], networks: [] },
  {
    agent: 'DuckDuckBot',
    domains: ['duckduckgo.com'],
    networks: [
      '20.185.79.15',
      '20.185.79.47',
      '20.191.45.212',
      '40.76.162.191',
      '40.76.162.208',
      '40.76.162.247',
      '40.76.163.7',
      '40.76.163.23',
      '40.76.173.151',
      '40.88.21.235',
      '52.142.24.149',
      '52.142.26.175',
    ],
  },
  { agent: 'Yandex', domains: ['yandex.ru', 'yandex.net', 'yandex.com'], networks: [] },
  { agent: 'Baiduspider', domains: ['baidu.com', 'baidu.jp'], networks: [] },
  { agent: 'Slurp', domains: ['crawl.yahoo.net'], networks: [] },
  { agent: 'SeznamBot', domains: ['seznam.cz'], networks: [] },
  { agent: 'PetalBot', domains: ['petalsearch.com', 'aspiegel.com'], networks: [] },
];

const crawlerSection = z
  .strictObject({
    agent: z
      .string()
      .min(3)
      .max(64)
      .describe('A word of its user agent, in any case, such as Googlebot; of a probe too.'),
    domains: z
      .array(z.string().regex(/^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/, 'a domain in lower case fits'))
      .max(16)
      .default([])
      .describe('What the name of its address ends in; the name must lead back to the address.'),
    networks: z.array(cidr()).max(1_000).default([]).describe('Where it comes from, whatever the name.'),
  })
  .refine(({ domains, networks }) => domains.length + networks.length > 0, {
    error: 'at least one of `domains` and `networks` fits',
  });

export const crawlersSection = z.array(crawlerSection).max(200).default([]);

export type CrawlersConfig = z.output<typeof crawlersSection>;
