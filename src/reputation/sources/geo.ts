/**
 * Places of addresses from a MaxMind-format database: coordinates where it has them, else the centre of the
 * country with the country's size as its error. Databases differ in their names; only the fields are read.
 */
import type { Reader } from 'maxmind';
import type { Place, PlaceOf } from '../../core/place.js';
import { COUNTRY_CENTRES } from '../country-centres.generated.js';
import { openMmdb } from '../mmdb.js';
import type { FeedFile, Source, Version } from '../source.js';

type Row = {
  location?: { latitude?: unknown; longitude?: unknown; accuracy_radius?: unknown };
  latitude?: unknown;
  longitude?: unknown;
  country?: { iso_code?: unknown } | string;
  country_code?: unknown;
};

/** City databases without a radius of their own are right about the region. */
const CITY_KM = 200;
const RADIUS_MAX_KM = 5_000;

export function geo(file: string): Source<PlaceOf> {
  return { feed: 'geo', from: { file }, read };
}

async function read(file: FeedFile): Promise<Version<PlaceOf>> {
  const hasPlace = (row: Row): boolean => placeIn(row) !== undefined;
  const { reader } = await openMmdb(file, hasPlace, 'location, country.iso_code or country_code');
  return { value: createLookup(reader), entries: reader.metadata.nodeCount };
}

function createLookup(reader: Reader<never>): PlaceOf {
  return (ip) => {
    try {
      const row = reader.get(ip) as Row | null;
      return row === null ? undefined : placeIn(row);
    } catch {
      // An IPv6 address in an IPv4 database, or a damaged record.
      return undefined;
    }
  };
}

function placeIn(row: Row): Place | undefined {
  const latitude = degrees(row.location?.latitude ?? row.latitude, 90);
  const longitude = degrees(row.location?.longitude ?? row.longitude, 180);
  if (latitude === undefined || longitude === undefined) return centreOf(codeIn(row));
  const radius = row.location?.accuracy_radius;
  const radiusKm = typeof radius === 'number' && radius >= 0 ? Math.min(radius, RADIUS_MAX_KM) : CITY_KM;
  return { latitude, longitude, radiusKm };
}

function degrees(value: unknown, most: number): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Math.abs(number) <= most ? number : undefined;
}

function codeIn({ country, country_code: code }: Row): unknown {
  return typeof country === 'object' && country !== null ? (country.iso_code ?? code) : (code ?? country);
}

function centreOf(code: unknown): Place | undefined {
  const known = typeof code === 'string' && /^[A-Z]{2}$/.test(code) ? COUNTRY_CENTRES[code] : undefined;
  return known === undefined ? undefined : { latitude: known[0], longitude: known[1], radiusKm: known[2] };
}
