/** Where `make bpf` puts the loader, whether the code runs from src or from dist/src. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PLACES = ['../../bpf/build/tidegate-xdp', '../../../bpf/build/tidegate-xdp'].map((place) =>
  fileURLToPath(new URL(place, import.meta.url)),
);

export const LOADER_FILE = PLACES.find((place) => existsSync(place)) ?? PLACES.at(-1)!;
