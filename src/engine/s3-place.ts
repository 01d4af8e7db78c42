/** Where a bucket is when its options do not say it: what the servers of each dialect have in common. */
import { EngineError } from '../lib/errors.ts';

export interface S3PlaceOptions {
  readonly bucket: string;
  readonly dialect?: 's3' | 's3-express' | 'gcs' | 'r2' | undefined;
  readonly region?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly addressing?: 'virtual' | 'path' | undefined;
}

export interface S3Place {
  readonly region: string;
  readonly endpoint: string;
  readonly addressing: 'virtual' | 'path';
}

/** @throws EngineError INVALID_OPTION where something has to be given, or a name cannot be right. */
export function s3Place({ bucket, dialect = 's3', ...given }: S3PlaceOptions): S3Place {
  switch (dialect) {
    case 's3': {
      const { region = 'us-east-1' } = given;
      const endpoint = given.endpoint ?? `https://s3.${region}.amazonaws.com`;
      const addressing = given.endpoint === undefined ? 'virtual' : 'path';
      return { region, endpoint, addressing: given.addressing ?? addressing };
    }
    case 's3-express': {
      const zone = zoneOf(bucket);
      const { region = 'us-east-1' } = given;
      const endpoint = given.endpoint ?? `https://s3express-${zone}.${region}.amazonaws.com`;
      return { region, endpoint, addressing: given.addressing ?? 'virtual' };
    }
    case 'gcs': {
      const { region = 'auto', endpoint = 'https://storage.googleapis.com' } = given;
      return { region, endpoint, addressing: given.addressing ?? 'path' };
    }
    case 'r2': {
      const { region = 'auto', endpoint } = given;
      if (endpoint !== undefined)
        return { region, endpoint, addressing: given.addressing ?? 'path' };
      throw new EngineError('INVALID_OPTION', 'R2 has an endpoint for each account', {
        details: { option: 'components.buckets.endpoint', value: 'undefined', bucket },
      });
    }
  }
}

/** The zone is a part of the name of a directory bucket, and nowhere else. */
function zoneOf(bucket: string): string {
  const zone = /--([a-z0-9]+-[a-z0-9-]+)--x-s3$/.exec(bucket)?.[1];
  if (zone !== undefined) return zone;
  throw new EngineError('INVALID_OPTION', 'a directory bucket is named <name>--<zone>--x-s3', {
    details: { option: 'components.buckets.bucket', value: bucket },
  });
}
