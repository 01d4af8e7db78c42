import * as v from 'valibot';

/** Numbers in values of the metastore. */
export const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
export const positive = v.pipe(v.number(), v.safeInteger(), v.minValue(1));
