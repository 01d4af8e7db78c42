/**
 * Assertions stay on in production. Messages are constants: a template literal costs about
 * fifteen times the check itself, so build details only after a failure.
 */
export class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/** Throws when `condition` does not hold; narrows types when it does. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}

/** Ends every `switch` over a union: a new member becomes a compile error here. */
export function assertNever(value: never, message = 'unexpected value'): never {
  throw new AssertionError(`${message} value=${describe(value)}`);
}

/** Marks a line that no correct program reaches. */
export function unreachable(message: string): never {
  throw new AssertionError(message);
}

function describe(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  // The discriminant is what tells a reader which case was forgotten; the rest may be huge.
  const { kind, type } = value as { kind?: unknown; type?: unknown };
  const name = kind ?? type;
  return typeof name === 'string' ? name : 'object';
}
