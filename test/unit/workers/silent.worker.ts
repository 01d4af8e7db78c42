/** Takes tasks and never answers. */
export default function wait(): Promise<never> {
  return new Promise(() => undefined);
}
