/**
 * Where the command line writes for people. A stream that is not a terminal gets plain lines: no
 * colours, no cursor movement, ASCII drawings, no progress.
 */
import type { Charset, Paint } from './drawing.ts';
import { NO_PAINT } from './drawing.ts';

/** The part of a Node stream that is used; tests pass a recorder. */
export interface TextSink {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

export interface Terminal {
  readonly interactive: boolean;
  readonly charset: Charset;
  readonly paint: Paint;
  /** Columns of a line; 80 when unknown. */
  readonly width: () => number;
  write(text: string): void;
  line(text?: string): void;
}

type Environment = Readonly<Record<string, string | undefined>>;

const ESCAPE = '\u001b[';
const SGR = { good: 32, warn: 33, bad: 31, dim: 2, strong: 1 } as const;

export function createTerminal(sink: TextSink, env: Environment): Terminal {
  const interactive = sink.isTTY === true && env['TERM'] !== 'dumb';
  const colours = interactive && (env['NO_COLOR'] ?? '') === '';
  const utf8 = /utf-?8/i.test(env['LC_ALL'] ?? env['LC_CTYPE'] ?? env['LANG'] ?? '');
  return {
    interactive,
    charset: interactive && utf8 ? 'unicode' : 'ascii',
    paint: colours ? COLOURS : NO_PAINT,
    width: () => Math.max(20, sink.columns ?? 80),
    write: (text) => void sink.write(text),
    line: (text = '') => void sink.write(`${text}\n`),
  };
}

const colour =
  (code: number) =>
  (text: string): string =>
    `${ESCAPE}${code}m${text}${ESCAPE}0m`;

const COLOURS: Paint = {
  good: colour(SGR.good),
  warn: colour(SGR.warn),
  bad: colour(SGR.bad),
  dim: colour(SGR.dim),
  strong: colour(SGR.strong),
};

/**
 * A block of lines that is drawn again in place. Off a terminal nothing is drawn until `end`, which
 * leaves the last state behind as plain lines.
 */
export class LiveBlock {
  readonly #terminal: Terminal;
  readonly #minMillis: number;
  readonly #now: () => number;
  #drawn = 0;
  #lastMillis = Number.NEGATIVE_INFINITY;

  constructor(terminal: Terminal, options: { minMillis?: number; now?: () => number } = {}) {
    this.#terminal = terminal;
    this.#minMillis = options.minMillis ?? 80;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Draws unless the last drawing is too recent; the lines are built only when they are drawn. */
  update(build: () => readonly string[]): void {
    if (!this.#terminal.interactive) return;
    const now = this.#now();
    if (now - this.#lastMillis < this.#minMillis) return;
    this.#lastMillis = now;
    this.#draw(build());
  }

  /** Leaves these lines and goes on below them; without lines the block disappears. */
  end(lines: readonly string[] = []): void {
    if (this.#terminal.interactive) this.#draw(lines);
    else for (const line of lines) this.#terminal.line(line);
    this.#drawn = 0;
    this.#lastMillis = Number.NEGATIVE_INFINITY;
  }

  #draw(lines: readonly string[]): void {
    const up = this.#drawn === 0 ? '' : `${ESCAPE}${this.#drawn}A`;
    const text = lines.map((line) => `${ESCAPE}2K${line}\n`).join('');
    this.#terminal.write(`${up}\r${text}${ESCAPE}0J`);
    this.#drawn = lines.length;
  }
}
