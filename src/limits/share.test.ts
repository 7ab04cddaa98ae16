import t from 'tap';
import { portionOf, shareOf } from './share.js';

t.test('parts of an exact limit add up to it over all workers of all gates; others are rounded up', (t) => {
  for (const limit of [1, 2, 5, 7, 40, 601])
    for (const [nodes, workers] of [
      [1, 1],
      [1, 4],
      [2, 4],
      [3, 5],
    ] as const) {
      let exact = 0;
      let unknown = 0;
      for (let rank = 0; rank < nodes; rank++)
        for (let worker = 0; worker < workers; worker++) {
          exact += portionOf(limit, true, { nodes, rank, workers, worker });
          unknown += portionOf(limit, true, { nodes, rank: Infinity, workers, worker });
          t.ok(portionOf(limit, false, { nodes, rank, workers, worker }) * nodes * workers >= limit);
        }
      t.equal(exact, limit, `${limit} over ${nodes} × ${workers}`);
      t.ok(unknown <= limit, 'never more where the rank is not known');
    }
  t.end();
});

t.test('a part too small for one request is none, where the policy is exact', (t) => {
  const check = { key: 'a', algorithm: 'fixed-window', limit: 3, windowMs: 1, burst: 3, cost: 1 } as const;
  const last = { nodes: 1, rank: 0, workers: 4, worker: 3 };
  t.equal(shareOf(check, true, last), undefined);
  t.equal(shareOf(check, false, last)?.limit, 1);
  t.end();
});
