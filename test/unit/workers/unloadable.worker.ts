/** Cannot be loaded: its thread dies before it takes a task. */
throw new Error('worker does not load');

export default function never(): void {
  // Not reached.
}
