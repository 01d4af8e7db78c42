import { s3Components } from 'asterlog';

const metastore = { root: './data' };
const three = [{ bucket: 'orders-a' }, { bucket: 'orders-b' }, { bucket: 'orders-c' }];
const keys = (name: string) =>
  ({
    from: 'environment', // names of variables: no option takes a secret
    accessKeyId: `${name}_ACCESS_KEY`,
    secretAccessKey: `${name}_SECRET_KEY`,
  }) as const;

const servers = {
  // The chain: variables, profiles, web identity, the role of the machine
  aws: s3Components({
    region: 'eu-west-1',
    credentials: { from: 'chain' },
    buckets: three,
    metastore,
  }),
  // Directory buckets of three zones
  express: s3Components({
    dialect: 's3-express',
    region: 'us-west-2',
    buckets: ['usw2-az1', 'usw2-az3', 'usw2-az4'].map((zone) => ({
      bucket: `orders--${zone}--x-s3`,
    })),
    metastore,
  }),
  r2: s3Components({
    dialect: 'r2',
    endpoint: 'https://0123456789abcdef.r2.cloudflarestorage.com', // of the account
    credentials: keys('R2'),
    buckets: three,
    metastore,
  }),
  // HMAC keys of a service account
  gcs: s3Components({ dialect: 'gcs', credentials: keys('GCS_HMAC'), buckets: three, metastore }),
  minio: s3Components({
    endpoint: 'https://minio.example:9000',
    caFile: 'ca.pem', // of an authority of your own
    credentials: keys('MINIO'),
    buckets: three,
    metastore,
  }),
  // One zone of Ceph a bucket
  rgw: s3Components({
    region: 'default',
    credentials: keys('RGW'),
    buckets: ['a', 'b', 'c'].map((zone) => ({
      name: `zone-${zone}`,
      bucket: 'orders',
      endpoint: `https://rgw-${zone}.example`,
    })),
    metastore,
  }),
};
for (const [name, { buckets }] of Object.entries(servers)) console.log(name, buckets[0]?.endpoint);
