#!/usr/bin/env node
import { engineDoor } from './door.ts';
import { packageVersion } from './package-root.ts';
import { runCommand } from './run.ts';
import { Shutdown } from './shutdown.ts';

const shutdown = new Shutdown((code) => process.exit(code));
shutdown.listen(process);
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    shutdown.stop('broken pipe');
  });
}

process.exitCode = await runCommand(process.argv.slice(2), packageVersion(), {
  door: engineDoor,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  shutdown,
});
