/** What the config of every detector has, beside its own thresholds. */
import { z } from 'zod';

export const detectorShape = (banAt: number, mode: 'enforce' | 'observe' = 'enforce') => ({
  mode: z
    .enum(['enforce', 'observe', 'off'])
    .default(mode)
    .describe('What its bans do: refuse, or only write down that they would; `off`: it does not look.'),
  banAt: z
    .number()
    .min(0)
    .max(1)
    .default(banAt)
    .describe('Confidence from which its suspects are banned; below, their observed score rises.'),
});

export type DetectorSettings = Readonly<{ mode: 'enforce' | 'observe' | 'off'; banAt: number }>;

/** A confidence as it is shown: two digits, so that what reads `0.80` is 0.8 where it is compared. */
export const rounded = (confidence: number): number => Math.round(confidence * 100) / 100;
