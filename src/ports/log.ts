/** Structured logging in the shape of pino; silent unless the caller passes one. */
export interface Log {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void;
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

const ignore = (): void => undefined;

export const SILENT_LOG: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
