/** Checks of what callers of the API pass. */
import { checkReadRequest } from '../../../actors/stream-reader.ts';
import {
  checkDrainOptions,
  checkListOptions,
  checkOpenOptions,
  checkRollOptions,
  checkStarName,
  checkStreamConfig,
} from '../../../src/engine/checks.ts';
import {
  checkComponents,
  directoryComponents,
  memoryComponents,
  s3Components,
} from '../../../src/engine/components.ts';
import { checkListenOptions } from '../../../src/engine/forwarding/listen-options.ts';
import { checkStreamName } from '../../../src/engine/names.ts';
import { checkSlotRequest } from '../../../src/engine/slot-views.ts';
import type { ErrorCode } from '../../../src/lib/errors.ts';
import { checkWaitOptions } from '../../../src/lib/wait.ts';
import { checkMetaValue } from '../../../src/ports/metastore-arguments.ts';
import { checkBatch } from '../../../src/protocol/batch.ts';
import { checkConditions, checkFencingToken } from '../../../src/protocol/conditions.ts';
import { resolveSettings } from '../../../src/protocol/settings.ts';
import type { ValueDecoder } from '../decoder.ts';

function check(
  name: string,
  file: string,
  decode: ValueDecoder['decode'],
  seeds: readonly (readonly unknown[])[],
  codes: readonly ErrorCode[] = ['INVALID_OPTION'],
): ValueDecoder {
  return { kind: 'value', name, file, decode, seeds, codes };
}

const BATCH = ['INVALID_RECORD', 'BATCH_EMPTY', 'BATCH_TOO_LARGE', 'RECORD_TOO_LARGE'] as const;
const wait = { timeoutMillis: 1_000, signal: new AbortController().signal };
const records = [
  { body: 'text' },
  { body: new Uint8Array(3), headers: [['name', new Uint8Array(2)]], timestamp: 5 },
  { headers: [['', 'fence']], body: 'token' },
];
const CHECKS = 'src/engine/checks.ts';

export const OPTION_DECODERS: readonly ValueDecoder[] = [
  check('checkBatch', 'src/protocol/batch.ts', checkBatch, [[records, false]], BATCH),
  check(
    'checkConditions',
    'src/protocol/conditions.ts',
    checkConditions,
    [[{ matchSeqNum: 5, fencingToken: 'token' }]],
    ['INVALID_OPTION', 'INVALID_POSITION'],
  ),
  check('checkFencingToken', 'src/protocol/conditions.ts', checkFencingToken, [['token']]),
  check(
    'checkWaitOptions',
    'src/lib/wait.ts',
    (options: object) => {
      checkWaitOptions(options, ['more']);
    },
    [[{ ...wait, more: 1 }]],
  ),
  check('checkStreamConfig', CHECKS, checkStreamConfig, [[{ mode: 'any', uncapped: true }]]),
  check('checkOpenOptions', CHECKS, checkOpenOptions, [
    [{ ...wait, fencingToken: 't', whileHeld: 'wait' }],
  ]),
  check('checkListOptions', CHECKS, checkListOptions, [
    [{ ...wait, prefix: 'a', startAfter: 'b', limit: 3 }],
  ]),
  check('checkRollOptions', CHECKS, checkRollOptions, [[{ ...wait, copyQuorum: 2, window: 4 }]]),
  check('checkDrainOptions', CHECKS, checkDrainOptions, [
    [{ ...wait, onProgress: () => undefined }],
  ]),
  check('checkStarName', CHECKS, checkStarName, [['main']]),
  check('checkStreamName', 'src/engine/names.ts', checkStreamName, [['orders']], ['INVALID_NAME']),
  check(
    'checkSlotRequest',
    'src/engine/slot-views.ts',
    checkSlotRequest,
    [[3, { from: 1, limit: 5 }]],
    ['INVALID_OPTION', 'INVALID_POSITION'],
  ),
  check(
    'checkReadRequest',
    'actors/stream-reader.ts',
    checkReadRequest,
    [[{ from: 3, limit: 5, live: true }], [{ tailOffset: 3 }], [{ timestamp: 3 }]],
    ['INVALID_OPTION', 'INVALID_POSITION'],
  ),
  check('checkListenOptions', 'src/engine/forwarding/listen-options.ts', checkListenOptions, [
    [{ host: '127.0.0.1', port: 0, token: 'a secret of 16 bytes', advertise: 'host:80' }],
  ]),
  check('memoryComponents', 'src/engine/components.ts', memoryComponents, [
    [{ buckets: 3, id: 'x' }],
  ]),
  check('directoryComponents', 'src/engine/components.ts', directoryComponents, [
    [{ root: 'data', buckets: 3 }],
    [{ root: 'data', buckets: ['a', 'b'] }],
  ]),
  check('s3Components', 'src/engine/components.ts', s3Components, [
    [
      {
        region: 'r',
        buckets: [{ bucket: 'one-bucket', prefix: 'a/', credentials: { from: 'chain' } }],
        metastore: { root: 'data' },
      },
    ],
    [
      {
        hedgePercent: 2,
        buckets: [
          { bucket: 'one--use1-az4--x-s3', dialect: 's3-express' },
          { bucket: 'one-bucket', dialect: 'gcs', addressing: 'path' },
        ],
        metastore: { root: 'data' },
      },
    ],
    [
      {
        endpoint: 'http://localhost:1',
        credentials: { from: 'environment', accessKeyId: 'MY_KEY' },
        buckets: [{ bucket: 'one-bucket', name: 'x', caFile: 'ca.pem', signsPayload: true }],
        metastore: { root: 'data' },
      },
    ],
  ]),
  check('checkComponents', 'src/engine/components.ts', checkComponents, [
    [{ kind: 'memory', id: 'x', buckets: 3 }],
    [{ kind: 'directory', root: '/d', buckets: [{ name: 'a', path: '/a' }] }],
  ]),
  check(
    'resolveSettings',
    'src/protocol/settings.ts',
    (settings: unknown) => resolveSettings(settings, 3),
    [[{ star: 'main', copyQuorum: 2, window: 4, flightBytes: 8_192, supersede: false }]],
  ),
  check(
    'checkMetaValue',
    'src/ports/metastore-arguments.ts',
    (bytes: unknown) => {
      checkMetaValue('a/b', bytes instanceof Uint8Array ? bytes : new Uint8Array(70_000));
    },
    [[new Uint8Array(7)]],
    ['INVALID_RECORD'],
  ),
];
