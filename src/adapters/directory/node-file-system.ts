import * as fs from 'node:fs';
import type { DirectoryFileSystem, FileFacts, OpenMode } from './file-system.ts';

const { O_WRONLY, O_CREAT, O_EXCL, O_RDONLY } = fs.constants;
/** Linux only; elsewhere `create-direct` is an ordinary create. */
const O_DIRECT = fs.constants.O_DIRECT as number | undefined;

const FLAGS: Readonly<Record<OpenMode, number>> = {
  create: O_WRONLY | O_CREAT | O_EXCL,
  'create-direct': O_WRONLY | O_CREAT | O_EXCL | (O_DIRECT ?? 0),
  read: O_RDONLY,
  directory: O_RDONLY | ((fs.constants.O_DIRECTORY as number | undefined) ?? 0),
};
const FILE_MODE = 0o644;
const DIRECTORY_MODE = 0o755;

type Failure = NodeJS.ErrnoException | null;

/** The file system of the host, over the callback interface of `node:fs`. */
export const NODE_FILE_SYSTEM: DirectoryFileSystem = {
  open: (path, mode) =>
    new Promise((resolve, reject) => {
      fs.open(path, FLAGS[mode], FILE_MODE, (error, fd) => {
        if (error === null) resolve(fd);
        else reject(error);
      });
    }),
  close: (fd) => new Promise((resolve, reject) => fs.close(fd, settle(resolve, reject))),
  write: (fd, bytes, position) =>
    new Promise((resolve, reject) => {
      fs.write(fd, bytes, 0, bytes.byteLength, position, (error, count) => {
        if (error === null) resolve(count);
        else reject(error);
      });
    }),
  read: (fd, into, position) =>
    new Promise((resolve, reject) => {
      fs.read(fd, into, 0, into.byteLength, position, (error, count) => {
        if (error === null) resolve(count);
        else reject(error);
      });
    }),
  truncate: (fd, sizeBytes) =>
    new Promise((resolve, reject) => fs.ftruncate(fd, sizeBytes, settle(resolve, reject))),
  syncFile: (fd) => new Promise((resolve, reject) => fs.fdatasync(fd, settle(resolve, reject))),
  syncDirectory: (fd) => new Promise((resolve, reject) => fs.fsync(fd, settle(resolve, reject))),
  stat: (file) =>
    new Promise((resolve, reject) => {
      const done = (error: Failure, stats: fs.BigIntStats): void => {
        if (error === null) resolve(factsOf(stats));
        else reject(error);
      };
      if (typeof file === 'number') fs.fstat(file, { bigint: true }, done);
      else fs.stat(file, { bigint: true }, done);
    }),
  link: (existing, target) =>
    new Promise((resolve, reject) => fs.link(existing, target, settle(resolve, reject))),
  unlink: (path) => new Promise((resolve, reject) => fs.unlink(path, settle(resolve, reject))),
  mkdir: (path) =>
    new Promise((resolve, reject) => fs.mkdir(path, DIRECTORY_MODE, settle(resolve, reject))),
  readdir: (path) =>
    new Promise((resolve, reject) => {
      fs.readdir(path, (error, names) => {
        if (error === null) resolve(names);
        else reject(error);
      });
    }),
};

function settle(resolve: () => void, reject: (error: Error) => void): (error?: Failure) => void {
  return (error) => {
    if (error === null || error === undefined) resolve();
    else reject(error);
  };
}

/** 64-bit inode numbers do not fit a number: identities are text. */
function factsOf(stats: fs.BigIntStats): FileFacts {
  return {
    identity: `${stats.dev}:${stats.ino}`,
    sizeBytes: Number(stats.size),
    linkCount: Number(stats.nlink),
  };
}
