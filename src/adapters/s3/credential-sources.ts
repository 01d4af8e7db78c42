/** Where credentials come from, named by plain data: descriptors of buckets hold no secrets. */
import { EngineError } from '../../lib/errors.ts';
import type { CredentialSource } from './credentials.ts';

export type CredentialReference =
  /** Names of environment variables. */
  | {
      readonly from: 'environment';
      readonly accessKeyId: string;
      readonly secretAccessKey: string;
      readonly sessionToken: string;
    }
  /** The chain of the AWS SDK: environment, files of its profiles, web identity, metadata of the machine. */
  | { readonly from: 'chain'; readonly profile?: string | undefined };

export function credentialSource(reference: CredentialReference): CredentialSource {
  return reference.from === 'environment' ? fromEnvironment(reference) : fromChain(reference);
}

function fromEnvironment(
  names: Extract<CredentialReference, { from: 'environment' }>,
): CredentialSource {
  return async () => ({
    accessKeyId: needed('accessKeyId', names.accessKeyId),
    secretAccessKey: needed('secretAccessKey', names.secretAccessKey),
    sessionToken: process.env[names.sessionToken] || undefined,
  });
}

/** @param option - which names the variable. */
function needed(option: 'accessKeyId' | 'secretAccessKey', variable: string): string {
  const value = process.env[variable];
  if (value !== undefined && value !== '') return value;
  // Somebody may have written the secret itself where its variable is named.
  const isShown = option === 'accessKeyId' || variable === 'AWS_SECRET_ACCESS_KEY';
  throw new EngineError('BUCKET_REFUSED', 'environment holds no credentials for the bucket', {
    details: { setting: 'credentials', ...(isShown ? { variable } : {}), option },
  });
}

const CHAIN_PACKAGE = '@aws-sdk/credential-provider-node';

/** The package is big and wanted by few: it is loaded when it is first needed. */
function fromChain({ profile }: Extract<CredentialReference, { from: 'chain' }>): CredentialSource {
  let provide: CredentialSource | undefined;
  const load = async (): Promise<CredentialSource> => {
    let chain: typeof import('@aws-sdk/credential-provider-node');
    try {
      chain = await import('@aws-sdk/credential-provider-node');
    } catch {
      throw new EngineError('BUCKET_REFUSED', 'credentials of the chain need a package', {
        details: { setting: 'credentials', package: CHAIN_PACKAGE },
      });
    }
    const ask = chain.defaultProvider(profile === undefined ? {} : { profile });
    return async () => {
      const { accessKeyId, secretAccessKey, sessionToken, expiration } = await ask();
      const expiresAtMillis = expiration?.getTime();
      return { accessKeyId, secretAccessKey, sessionToken, expiresAtMillis };
    };
  };
  return async () => {
    provide ??= await load();
    return provide();
  };
}
