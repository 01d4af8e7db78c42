/** Objects of a bucket as people look after them: listed with their times, deleted in batches. Over the AWS SDK. */
import { createHash } from 'node:crypto';
import type * as Sdk from '@aws-sdk/client-s3';
import { EngineError } from '../../lib/errors.ts';
import type { CallOptions } from '../../ports/bucket-store.ts';
import { errorOfSdk } from './control-failure.ts';
import type { FailureSite } from './failure.ts';

export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number;
  /** By the clock of the server. */
  readonly modifiedMillis: number;
}

export interface ObjectPage {
  readonly objects: readonly ListedObject[];
  readonly more: boolean;
}

/** As many as one request may name. */
export const DELETE_KEYS_MAX = 1_000;

/** What is lent to it of the client. */
export interface ControlAccess {
  readonly sdk: typeof Sdk;
  readonly client: Sdk.S3Client;
  readonly bucket: string;
  ask<T>(
    call: FailureSite['call'],
    options: CallOptions | undefined,
    request: (settings: { abortSignal: AbortSignal }) => Promise<T>,
  ): Promise<T>;
  siteOf(call: FailureSite['call']): FailureSite;
}

export class ControlObjects {
  readonly #access: ControlAccess;

  constructor(access: ControlAccess) {
    this.#access = access;
    digestDeletions(access.client);
  }

  /**
   * What stands between the prefix and the next slash, one a folder, with prefix and slash.
   *
   * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE
   */
  async *folders(prefix: string, options?: CallOptions): AsyncGenerator<string> {
    const { client, sdk, bucket } = this.#access;
    let token: string | undefined;
    do {
      const command = new sdk.ListObjectsV2Command({
        Bucket: bucket,
        Prefix: prefix,
        Delimiter: '/',
        ContinuationToken: token,
      });
      const page = await this.#access.ask('list', options, (settings) =>
        client.send(command, settings),
      );
      for (const { Prefix: folder } of page.CommonPrefixes ?? []) {
        // Whatever else a server lists is not what was asked for.
        if (folder?.startsWith(prefix) === true) yield folder;
      }
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  /**
   * Objects under the prefix, in the order of their keys.
   *
   * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE
   */
  async page(prefix: string, startAfter: string, options?: CallOptions): Promise<ObjectPage> {
    const { client, sdk, bucket } = this.#access;
    const command = new sdk.ListObjectsV2Command({
      Bucket: bucket,
      Prefix: prefix,
      ...(startAfter === '' ? {} : { StartAfter: startAfter }),
    });
    const page = await this.#access.ask('list', options, (settings) =>
      client.send(command, settings),
    );
    const objects = (page.Contents ?? []).flatMap(({ Key: key, Size, LastModified }) => {
      if (key?.startsWith(prefix) !== true || key <= startAfter) return [];
      return [{ key, sizeBytes: Size ?? 0, modifiedMillis: LastModified?.getTime() ?? Infinity }];
    });
    const more = page.IsTruncated === true;
    if (more && objects.length === 0) {
      // Without a key to go on from there is no next page, and nobody knows what is on it.
      throw new EngineError('BUCKET_UNAVAILABLE', 'a list that goes on names no key', {
        details: { ...this.#access.siteOf('list') },
      });
    }
    return { objects, more };
  }

  /**
   * @param keys - at most `DELETE_KEYS_MAX`.
   * @returns Why single ones were not deleted.
   * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE where none was.
   */
  async delete(keys: readonly string[], options?: CallOptions): Promise<readonly EngineError[]> {
    if (keys.length === 0) return [];
    const { client, sdk, bucket } = this.#access;
    const command = new sdk.DeleteObjectsCommand({
      Bucket: bucket,
      Delete: { Objects: keys.map((Key) => ({ Key })), Quiet: true },
    });
    const answer = await this.#access.ask('delete', options, (settings) =>
      client.send(command, settings),
    );
    return (answer.Errors ?? []).map(({ Code: code = 'UnknownError' }) =>
      errorOfSdk(
        { name: code, $metadata: { httpStatusCode: STATUS_OF_CODE[code] ?? 400 } },
        this.#access.siteOf('delete'),
      ),
    );
  }
}

/** An entry of an answer has no status of its own. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  AccessDenied: 403,
  InternalError: 500,
  SlowDown: 503,
};

/** Every server asks for a digest of what is to be deleted; the one that the SDK sends only some know. */
function digestDeletions(client: Sdk.S3Client): void {
  client.middlewareStack.add(
    (next, { commandName }) =>
      (args) => {
        if (commandName !== 'DeleteObjectsCommand') return next(args);
        const request = args.request as { headers: Record<string, string>; body?: unknown };
        for (const name of Object.keys(request.headers)) {
          if (/^x-amz-(?:sdk-)?checksum-/.test(name)) delete request.headers[name];
        }
        const body = request.body as string | Uint8Array;
        request.headers['content-md5'] = createHash('md5').update(body).digest('base64');
        return next(args);
      },
    { step: 'build', priority: 'low', name: 'asterlogDigestDeletions' },
  );
}
