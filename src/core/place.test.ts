import t from 'tap';
import { distanceKm, surelyApartKm } from './place.js';

const LONDON = { latitude: 51.5074, longitude: -0.1278, radiusKm: 50 };
const NEW_YORK = { latitude: 40.7128, longitude: -74.006, radiusKm: 20 };
const FIJI_WEST = { latitude: -17, longitude: 179.9, radiusKm: 0 };
const FIJI_EAST = { latitude: -17, longitude: -179.9, radiusKm: 0 };

t.test('distances follow the great circle, over the date line too', async (test) => {
  test.ok(Math.abs(distanceKm(LONDON, NEW_YORK) - 5570) < 10);
  test.ok(distanceKm(FIJI_WEST, FIJI_EAST) < 25);
  test.equal(distanceKm(LONDON, LONDON), 0);
});

t.test('what two places may be off is taken from their distance', async (test) => {
  test.ok(Math.abs(surelyApartKm(LONDON, NEW_YORK) - 5500) < 10);
  test.equal(surelyApartKm(FIJI_WEST, { ...FIJI_EAST, radiusKm: 100 }), 0);
});
