/** Every decoder there is. `complete.test.ts` proves it. */
import type { Decoder } from './decoder.ts';
import { METASTORE_DECODERS } from './tables/metastore.ts';
import { OPTION_DECODERS } from './tables/options.ts';
import { PEER_DECODERS } from './tables/peers.ts';
import { S3_DECODERS } from './tables/s3.ts';
import { SLOT_DECODERS } from './tables/slots.ts';
import { TEXT_DECODERS } from './tables/text.ts';

export const DECODERS: readonly Decoder[] = [
  ...SLOT_DECODERS,
  ...PEER_DECODERS,
  ...METASTORE_DECODERS,
  ...TEXT_DECODERS,
  ...S3_DECODERS,
  ...OPTION_DECODERS,
];
