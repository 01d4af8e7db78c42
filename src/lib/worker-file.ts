import { fileURLToPath } from 'node:url';

export interface WorkerFile {
  readonly filename: string;
  readonly execArgv: string[];
}

/**
 * Locates a Piscina worker that sits beside its caller, from source (`.ts`) as well as built (`.js`).
 *
 * From source on Node 20, TypeScript hooks must be registered inside the worker: `--import tsx`
 * registers them in the main thread only. Newer Node strips the types itself.
 *
 * @example
 * new Piscina({ ...workerFile('checksum.worker', import.meta.url) });
 */
export function workerFile(name: string, callerUrl: string): WorkerFile {
  const fromSource = callerUrl.endsWith('.ts');
  const url = new URL(`./${name}${fromSource ? '.ts' : '.js'}`, callerUrl);
  return { filename: fileURLToPath(url), execArgv: fromSource ? sourceExecArgv() : [] };
}

function sourceExecArgv(): string[] {
  if ('typescript' in process.features && process.features.typescript) return [];
  const boot = `import { register } from ${JSON.stringify(import.meta.resolve('tsx/esm/api'))}; register();`;
  return ['--import', `data:text/javascript,${encodeURIComponent(boot)}`];
}
