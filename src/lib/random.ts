/** Randomness as the engine sees it: seeded in the simulator, the system's source otherwise. */
export interface Random {
  /** `count` random bytes as lower-case hex. */
  hex(byteCount: number): string;
  /** A number in `[0, 1)`, for jitter. */
  fraction(): number;
}
