import { describe, expect, it } from 'vitest';
import { adviceFor } from '../../../src/cli/buckets/advice.ts';
import { EngineError } from '../../../src/lib/errors.ts';

const CONDITION = 'use a server that keeps If-None-Match: *';
const bare = (code: 'ABORTED' | 'BUCKET_REFUSED' | 'DEADLINE_EXCEEDED' | 'INTERNAL') =>
  new EngineError(code, 'x');

describe('the advice about a bucket', () => {
  it('names every permission that is needed', () => {
    const details = {
      setting: 'permission',
      permission: 's3:GetObject',
      alsoNeeded: 's3:ListBucket',
    };
    const refused = new EngineError('BUCKET_REFUSED', 'x', { details });
    expect(adviceFor(refused, 'read')).toBe(
      'allow s3:GetObject and s3:ListBucket for these credentials',
    );
  });

  it('is another server only where the probe refused the condition', () => {
    expect(adviceFor(bare('BUCKET_REFUSED'), 'condition')).toBe(CONDITION);
    const endpoint = { setting: 'endpoint' };
    const judged = new EngineError('BUCKET_REFUSED', 'x', { details: endpoint });
    expect(adviceFor(judged, 'condition')).toBe(CONDITION);
    const told = new EngineError('BUCKET_REFUSED', 'x', {
      details: { ...endpoint, call: 'create' },
    });
    expect(adviceFor(told, 'condition')).not.toBe(CONDITION);
    for (const error of [bare('ABORTED'), bare('DEADLINE_EXCEEDED')]) {
      expect(adviceFor(error, 'condition')).toBe('try again');
      expect(adviceFor(error)).toBe('try again');
    }
    expect(adviceFor(bare('INTERNAL'), 'condition')).not.toBe(CONDITION);
    expect(adviceFor(bare('BUCKET_REFUSED'), 'read')).not.toBe(CONDITION);
    expect(adviceFor(bare('BUCKET_REFUSED'))).not.toBe(CONDITION);
  });
});
