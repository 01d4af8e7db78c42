#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command } from 'commander';

const manifest = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
) as { version: string };

const program = new Command('asterlog')
  .description('Durable, totally ordered streams on plain object storage')
  .version(manifest.version);

await program.parseAsync();
