/** Where an address is, as far as a database knows. */

/** Degrees; `radiusKm` is how far off it may be. */
export type Place = Readonly<{ latitude: number; longitude: number; radiusKm: number }>;

/** Undefined where the address has no known place. Never throws; the same answer for the same database. */
export type PlaceOf = (ip: string) => Place | undefined;

const EARTH_KM = 6371;
const RADIANS = Math.PI / 180;

/** Great-circle distance between the centres (haversine formula, a sphere: at most 0.6 % off). */
export function distanceKm(from: Place, to: Place): number {
  const north = Math.sin(((to.latitude - from.latitude) * RADIANS) / 2);
  const east = Math.sin(((to.longitude - from.longitude) * RADIANS) / 2);
  const cosines = Math.cos(from.latitude * RADIANS) * Math.cos(to.latitude * RADIANS);
  return 2 * EARTH_KM * Math.asin(Math.min(1, Math.sqrt(north * north + cosines * east * east)));
}

/** The least distance that two such places can have. */
export function surelyApartKm(from: Place, to: Place): number {
  return Math.max(0, distanceKm(from, to) - from.radiusKm - to.radiusKm);
}
