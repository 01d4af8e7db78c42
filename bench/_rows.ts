/** Rows that every load benchmark answers, and the arithmetic behind them. */
export interface Row {
  readonly name: string;
  readonly floor: number;
  readonly engine: number;
  /** How much of the floor's rate the engine reaches: the median over rounds. */
  readonly ratio: number;
  readonly unit: string;
  readonly [detail: string]: string | number;
}

/** Rates of one round, both measured within seconds of each other. */
export interface Pair {
  readonly floor: number;
  readonly engine: number;
}

export function rowOf(
  name: string,
  unit: string,
  pairs: readonly Pair[],
  details: Readonly<Record<string, string | number>> = {},
): Row {
  const ratios = pairs.map(({ floor, engine }) => engine / floor);
  return {
    name,
    floor: rounded(median(pairs.map(({ floor }) => floor))),
    engine: rounded(median(pairs.map(({ engine }) => engine))),
    ratio: rounded(median(ratios)),
    ratioMin: rounded(Math.min(...ratios)),
    ratioMax: rounded(Math.max(...ratios)),
    unit,
    ...details,
  };
}

/** Processor seconds of all threads of this process: what the machine cannot do meanwhile. */
export function cpuSeconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}

/** @param sorted - in ascending order. */
export function quantile(sorted: Float64Array, fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(fraction * sorted.length))]!;
}

/** To three significant digits. */
export function rounded(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
