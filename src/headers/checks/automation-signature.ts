/**
 * HTTP libraries and headless browsers that say so. Honest integrations use them too: points, never a refusal
 * by itself.
 */
import { LRUCache } from 'lru-cache';
import type { HeaderCheck } from '../check.js';

const MEMO_MAX = 2000;
const AGENT_MAX = 512;

export const automationSignature: HeaderCheck = {
  id: 'UA-AUTOMATION',
  create(config) {
    const signatures = config.automationSignatures.map((text) => text.toLowerCase());
    const points = config.points.automation;
    const message = 'User-Agent of a program, not a person';
    const finding = { id: 'UA-AUTOMATION', kind: 'note', points, message } as const;
    const memo = new LRUCache<string, boolean>({ max: MEMO_MAX });
    return (facts) => {
      const agent = facts.headers.get('user-agent');
      if (agent === undefined || agent === '') return undefined;
      const text = agent.length > AGENT_MAX ? agent.slice(0, AGENT_MAX) : agent;
      let hit = memo.get(text);
      if (hit === undefined) {
        const lower = text.toLowerCase();
        hit = signatures.some((signature) => lower.includes(signature));
        memo.set(text, hit);
      }
      return hit ? finding : undefined;
    };
  },
};
