/** Numbers as people read them. Units are decimal: 1 MB is 1,000,000 bytes. */

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/** `1234567` as `1,234,567`. */
export function formatCount(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** Three digits that matter: `1.23 MB`, `45.6 kB`, `789 B`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value.toFixed(0) : digits(value)} ${BYTE_UNITS[unit]!}`;
}

export function formatRate(bytesPerSecond: number): string {
  return `${formatBytes(bytesPerSecond)}/s`;
}

/** `0.42 ms`, `12.3 ms`, `1.20 s`, `2 min 05 s`. */
export function formatMillis(millis: number): string {
  if (millis < 999.5) return `${digits(millis)} ms`;
  if (millis < 119_500) return `${digits(millis / 1000)} s`;
  const seconds = Math.round(millis / 1000);
  const rest = (seconds % 60).toString().padStart(2, '0');
  return `${formatCount(Math.floor(seconds / 60))} min ${rest} s`;
}

/** Milliseconds since 1970 as ISO 8601; as the number itself where no calendar reaches that far. */
export function formatInstant(millis: number): string {
  const date = new Date(millis);
  return Number.isNaN(date.getTime()) ? `${millis.toString()} ms` : date.toISOString();
}

/** Rounds to `places` decimals; results of measurements do not need sixteen digits. */
export function rounded(value: number, places = 3): number {
  const scale = 10 ** places;
  return Math.round(value * scale) / scale;
}

function digits(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** The value below which `fraction` of the sorted values lie; 0 when there are none. */
export function quantileOf(sorted: ArrayLike<number>, fraction: number): number {
  if (sorted.length === 0) return 0;
  const rank = Math.ceil(fraction * sorted.length) - 1;
  return sorted[Math.min(Math.max(rank, 0), sorted.length - 1)]!;
}
