import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { distanceKm, surelyApartKm } from '../core/place.js';
import { reputationSection } from './config.js';
import { COUNTRY_CENTRES } from './country-centres.generated.js';
import { createPlaces } from './places.js';
import { DEMO, handClock, memoryLog, tempFolder, until } from './testing.js';

async function started(folder: string, section: object) {
  const memory = memoryLog();
  const config = reputationSection.parse({ poll: '50ms', ...section });
  const places = createPlaces(config, { baseDir: folder, clock: handClock(), log: memory.log });
  await places.start();
  return { places, memory };
}

const LONDON = { latitude: 51.5074, longitude: -0.1278, radiusKm: 50 };

t.test('coordinates are read, else the centre of the country with its size', async (test) => {
  const { places } = await started(DEMO, { geo: { database: 'geo-sample.mmdb' } });
  test.same(places.place('192.0.2.1'), LONDON);
  test.same(places.place('2001:db8:1::7'), LONDON);
  test.equal(places.place('198.51.100.130')?.radiusKm, 200, 'a city without a radius');
  test.match(places.place('203.0.113.1'), { latitude: 46.6, longitude: 2.6 }, 'country_code alone');
  test.match(places.place('2001:db8:2::1'), { radiusKm: 1340 }, 'country.iso_code alone');
  test.match(places.place('203.0.113.129'), { latitude: 48.8566, longitude: 2.3522 }, 'text');
  for (const ip of ['203.0.113.200', '8.8.8.8', '', 'x', '1.2.3.4.5', '::']) {
    test.equal(places.place(ip), undefined, ip);
  }
  await places.close();
});

t.test('without a database, with another one or a broken one no place is known', async (test) => {
  const folder = await tempFolder(test);
  const none = await started(folder, {});
  test.equal(none.places.place('192.0.2.1'), undefined);
  const other = await started(DEMO, { geo: { database: 'asn-sample.mmdb' } });
  test.equal(other.places.place('192.0.2.1'), undefined);
  test.match(other.memory.text(), /no field location, country\.iso_code or country_code/);
  const bytes = await readFile(join(DEMO, 'geo-sample.mmdb'));
  await writeFile(join(folder, 'cut.mmdb'), bytes.subarray(0, 900));
  const cut = await started(folder, { geo: { database: 'cut.mmdb' } });
  test.equal(cut.places.place('192.0.2.1'), undefined);
  test.ok(cut.memory.lines.length > 0);
  for (const { places } of [none, other, cut]) await places.close();
});

t.test('a database that is put in place later is taken up', async (test) => {
  const folder = await tempFolder(test);
  const { places } = await started(folder, { geo: { database: 'geo.mmdb' } });
  test.equal(places.place('192.0.2.1'), undefined);
  await copyFile(join(DEMO, 'geo-sample.mmdb'), join(folder, 'geo.mmdb'));
  test.ok(await until(() => places.place('192.0.2.1') !== undefined));
  await places.close();
});

t.test('countries are where they are, and as large', async (test) => {
  const at = (code: string) => {
    const [latitude, longitude, radiusKm] = COUNTRY_CENTRES[code] ?? [0, 0, 0];
    return { latitude, longitude, radiusKm };
  };
  test.ok(distanceKm(at('FR'), { latitude: 46.5, longitude: 2.5, radiusKm: 0 }) < 50);
  test.ok(surelyApartKm(at('GB'), at('NZ')) > 15_000);
  test.equal(surelyApartKm(at('FR'), at('DE')), 0, 'neighbours are never surely apart');
  test.equal(surelyApartKm(at('US'), at('CA')), 0);
  for (const [code, [latitude, longitude, radiusKm]] of Object.entries(COUNTRY_CENTRES)) {
    const isSane =
      Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180 && radiusKm >= 20 && radiusKm < 5_000;
    if (!isSane) test.fail(code);
  }
  test.ok(Object.keys(COUNTRY_CENTRES).length > 230);
});
