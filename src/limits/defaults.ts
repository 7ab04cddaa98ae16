/**
 * The shipped policies. `ingress` counts addresses alone: replace it by name where many people share one
 * (offices, carriers).
 */
import { policySection, type PolicyConfig, type PolicyInput } from './config.js';

const shipped: readonly PolicyInput[] = [
  { name: 'ingress', by: ['ip'], limit: '60/10s', algorithm: 'fixed-window', burstAlarm: '30/5s' },
  { name: 'api', match: { path: '/api/**' }, by: ['apiKey', 'session', 'ip'], limit: '600/min' },
  {
    name: 'login',
    match: { method: 'POST', path: ['/api/login', '/login'] },
    by: ['ip'],
    limit: '5/min',
    algorithm: 'sliding-log',
    exact: true,
  },
  {
    name: 'passwordReset',
    match: { method: 'POST', path: ['/api/password-reset', '/password-reset', '/forgot-password'] },
    // Who names nobody is counted by address: one bucket for all of them would shut out the site.
    by: ['user', 'ip'],
    limit: '3/h',
    algorithm: 'sliding-log',
    exact: true,
  },
];

export const defaultPolicies: readonly PolicyConfig[] = shipped.map((policy) => policySection.parse(policy));

/**
 * Shipped policies with those of the config in their places, then the config's own; switched-off ones are
 * gone.
 */
export function effectivePolicies(configured: readonly PolicyConfig[]): readonly PolicyConfig[] {
  const replaced = new Map(configured.map((policy) => [policy.name, policy]));
  const base = defaultPolicies.map((policy) => replaced.get(policy.name) ?? policy);
  const own = configured.filter(({ name }) => !defaultPolicies.some((policy) => policy.name === name));
  return [...base, ...own].filter((policy) => policy.enabled);
}
