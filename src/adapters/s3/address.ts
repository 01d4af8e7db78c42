/** Where a bucket and its objects are, as URLs and as the server is told. */
export interface BucketAddress {
  /** Scheme, host and port, without a slash at the end. */
  readonly origin: string;
  /** The `host` header. */
  readonly host: string;
  /** Of the bucket itself, with a slash at its end. */
  readonly rootPath: string;
  readonly isSecure: boolean;
}

/** How the bucket's name gets into the URL: in front of the host name, or as the first part of the path. */
export type Addressing = 'virtual' | 'path';

export interface AddressOptions {
  /** `http` or `https` URL of the service, without a path. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly addressing: Addressing;
}

export function bucketAddress({ endpoint, bucket, addressing }: AddressOptions): BucketAddress {
  const url = new URL(endpoint);
  if (addressing === 'virtual') url.hostname = `${bucket}.${url.hostname}`;
  return {
    origin: url.origin,
    host: url.host,
    rootPath: addressing === 'virtual' ? '/' : `/${bucket}/`,
    isSecure: url.protocol === 'https:',
  };
}

/** Where a directory bucket itself is asked about; its objects are at the endpoint of their zone. */
export function expressControlEndpoint(endpoint: string): string {
  return endpoint.replace(/^(https?:\/\/)s3express-[a-z0-9-]+\./, '$1s3express-control.');
}
