/** Fails every task and goes on living. */
export default function fail(): never {
  throw new Error('no checksum today');
}
