#!/usr/bin/env node
import { engineDoor } from './door.ts';
import { packageVersion } from './package-root.ts';
import { runCommand } from './run.ts';
import { Shutdown } from './shutdown.ts';

/** Standard error is for what commands say; which Node they run on is documented. */
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';

const LINGER_MILLIS = 1_000;

const shutdown = new Shutdown((code) => process.exit(code));
shutdown.listen(process);
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') shutdown.stop('broken pipe');
    else if (!shutdown.signal.aborted) {
      // A full disk, for example: what was printed is cut off, and the exit code must say so.
      if (stream === process.stdout) {
        process.stderr.write(`asterlog: standard output cannot be written: ${error.message}\n`);
      }
      shutdown.stop('output failed');
    }
  });
}

const code = await runCommand(process.argv.slice(2), packageVersion(), {
  door: engineDoor,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  shutdown,
});

process.exitCode = code;
// An engine that could not be closed in time may keep the process alive; nobody waits for it any more.
if (code !== 0) setTimeout(() => process.exit(code), LINGER_MILLIS).unref();
