/** Ends its thread in the middle of every task. */
export default function exit(): never {
  process.exit(3);
}
