import { workerFile, type WorkerFile } from '../../lib/worker-file.ts';
import { startReporting, type WriterProcess } from '../load/writer-process.ts';
import { PEER_TOKEN, type MemberConfig } from './member-config.ts';
import { decodeMemberReport, type MemberReport } from './reports.ts';

/** One member and the reports that others wait for. */
export class Member {
  readonly star: string;
  readonly process: WriterProcess;
  /** Resolves when it appends. */
  readonly appending: Promise<void>;
  failure: Record<string, unknown> | undefined;

  constructor(
    config: MemberConfig,
    onReport: (report: MemberReport) => void,
    options: { readonly peerToken: string; readonly file?: WorkerFile },
  ) {
    this.star = config.store.star;
    let onAppending!: () => void;
    this.appending = new Promise((resolve) => {
      onAppending = resolve;
    });
    const file = options.file ?? workerFile('member.worker', import.meta.url);
    const onLine = (line: string): void => {
      const report = decodeMemberReport(line);
      if (report.kind === 'failed') this.failure = report.error;
      if (report.kind === 'appending') onAppending();
      onReport(report);
    };
    this.process = startReporting(file, config, onLine, { [PEER_TOKEN]: options.peerToken });
  }
}
