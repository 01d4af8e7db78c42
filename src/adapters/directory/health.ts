import { EngineError } from '../../lib/errors.ts';
import { codeOf } from './failure.ts';
import type { SyncSite } from './file-system.ts';

/**
 * Remembers a failed sync. The system forgets what it could not write once it has reported it, so a
 * second sync that succeeds proves nothing: until the bucket is opened anew, nothing is durable.
 */
export class Health {
  readonly #bucket: string;
  #failure: EngineError | undefined;

  constructor(bucket: string) {
    this.#bucket = bucket;
  }

  get failure(): EngineError | undefined {
    return this.#failure;
  }

  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  fail(error: unknown, sites: readonly SyncSite[]): EngineError {
    this.#failure ??= new EngineError('BUCKET_UNAVAILABLE', 'a sync failed: open the bucket anew', {
      details: { bucket: this.#bucket, systemCode: codeOf(error), during: sites.join(',') },
      sideEffects: 'possible',
      cause: error,
    });
    return this.#failure;
  }
}
