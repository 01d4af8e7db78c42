/** What Node's own types leave out. */
interface WebAssemblyGlobal {
  readonly WebAssembly: {
    readonly Memory: new (size: { readonly initial: number }) => { readonly buffer: ArrayBuffer };
  };
}

const WASM_PAGE_BYTES = 65_536;
const aligned = new WeakSet<ArrayBufferLike>();

/**
 * Memory that begins at a page, as direct writes want it: WebAssembly's is the one kind that
 * JavaScript can have. Ordinary memory where address space is limited.
 */
export function allocatePages(sizeBytes: number): Uint8Array<ArrayBuffer> {
  const { WebAssembly } = globalThis as unknown as WebAssemblyGlobal;
  let buffer: ArrayBuffer;
  try {
    ({ buffer } = new WebAssembly.Memory({ initial: Math.ceil(sizeBytes / WASM_PAGE_BYTES) }));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return new Uint8Array(sizeBytes);
  }
  aligned.add(buffer);
  return new Uint8Array(buffer, 0, sizeBytes);
}

/** Whether the bytes lie in memory of `allocatePages` and begin and end at multiples of `blockBytes`. */
export function isInBlocks(bytes: Uint8Array, blockBytes: number): boolean {
  return (
    bytes.byteOffset % blockBytes === 0 &&
    bytes.byteLength % blockBytes === 0 &&
    aligned.has(bytes.buffer)
  );
}
