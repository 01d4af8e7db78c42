/** The public door of the package: everything users import comes through here. */
export { AssertionError } from './lib/assert.ts';
