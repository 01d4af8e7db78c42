/** Serving (L) and conditions (K). */
import type { Mutant } from './mutant.ts';
import { othersBlind } from '../sim/lies.ts';
import {
  appendUnderConditions,
  askAfterATakeover,
  askAfterARollOfTheStarAlone,
  askBehindAFlight,
  askBehindAWave,
  askPastSilentBuckets,
  askWhileItIsReleased,
  readWhileItIsReleased,
  tokensUnderWay,
} from './serving-scripts.ts';

const RULES = 'src/protocol/confirmation.ts';
const STREAM = 'actors/stream.actor.ts';
const CONDITIONS = 'src/protocol/conditions.ts';
const BLIND = { mutate: othersBlind };

/** Callers are not refused when a Finish begins. */
const SERVED_ON: Mutant['edits'] = [
  {
    file: STREAM,
    find: "    this.#refuse(\n      refusal ?? (outcome === 'deleted' ? deletedError(this.name) : closedStreamError(this.name)),\n    );\n",
    replace: '    void refusal;\n    void deletedError;\n',
  },
  {
    file: STREAM,
    find: 'stopServing: () => this.#refuse(closedStreamError(this.name)),',
    replace: 'stopServing: () => void closedStreamError,',
  },
];

export const SERVING_MUTANTS: readonly Mutant[] = [
  {
    name: 'a tail is answered without a confirmation',
    invariant: 'L1',
    edits: [
      {
        file: STREAM,
        find: '        await epoch.confirmation.confirm();\n',
        replace: '',
      },
    ],
    killer: { by: 'script', script: askAfterATakeover, options: BLIND },
  },
  {
    name: 'a confirmation counts that is older than its request',
    invariant: 'L1',
    edits: [
      {
        file: RULES,
        find: 'return request.arrived < evidence.begun && evidence.clean >= copies;',
        replace: 'return evidence.clean >= copies;',
      },
    ],
    killer: { by: 'script', script: askBehindAWave, options: BLIND },
  },
  {
    name: 'a flight counts whose first PUT began before the request',
    invariant: 'L1',
    edits: [
      {
        file: RULES,
        find: "if (evidence.kind === 'released') return request.firstSlot < evidence.released;",
        replace: "if (evidence.kind === 'released') return request.firstSlot <= evidence.released;",
      },
    ],
    killer: { by: 'script', script: askBehindAFlight, options: BLIND },
  },
  {
    name: 'a stream is confirmed by the newest epoch of its star',
    invariant: 'L1',
    edits: [
      {
        file: STREAM,
        find: '      await this.enter();\n      const epoch = this.#entered!;',
        replace: '      const epoch = this.#host.epoch();',
      },
    ],
    killer: { by: 'script', script: askAfterARollOfTheStarAlone },
  },
  {
    name: 'a wave counts a silent bucket as clean',
    invariant: 'L1',
    edits: [
      {
        file: RULES,
        find: "if (found === 'unknown') return 'silent';",
        replace: "if (found === 'unknown') return 'clean';",
      },
    ],
    killer: { by: 'script', script: askPastSilentBuckets, options: BLIND },
  },
  {
    name: 'a wave counts what it finds as clean',
    invariant: 'L1',
    edits: [
      {
        file: RULES,
        find: "if (found !== 'absent') return 'lost';",
        replace: "if (found !== 'absent') return 'clean';",
      },
      {
        file: 'actors/confirmation.ts',
        find: "if (object.kind !== 'flight') {",
        replace: "if (object.kind === 'corrupt') {",
      },
    ],
    killer: { by: 'script', script: askAfterATakeover, options: BLIND },
  },
  {
    name: 'a stream is served after its release was sent',
    invariant: 'L2',
    edits: SERVED_ON,
    killer: { by: 'script', script: askWhileItIsReleased },
  },
  {
    name: 'a stream is read to its end after its release was sent',
    invariant: 'L2',
    edits: SERVED_ON,
    killer: { by: 'script', script: readWhileItIsReleased },
  },
  {
    name: 'the number that an append expects is not compared',
    invariant: 'K',
    edits: [
      {
        file: CONDITIONS,
        find: 'if (matchSeqNum !== undefined && matchSeqNum !== nextSeqNum) {',
        replace: 'if (matchSeqNum !== undefined && matchSeqNum < 0) {',
      },
    ],
    killer: { by: 'script', script: appendUnderConditions },
  },
  {
    name: 'an older token still counts',
    invariant: 'K',
    edits: [
      {
        file: CONDITIONS,
        find: "if (given === undefined ? mode === 'fenced' : given !== current) {",
        replace: "if (given === undefined ? mode === 'fenced' : given > current) {",
      },
    ],
    killer: { by: 'script', script: appendUnderConditions },
  },
  {
    name: 'tokens are judged as they are durable, not as they are assigned',
    invariant: 'K',
    edits: [
      {
        file: 'actors/stream-appends.ts',
        find: 'const { fencingToken } = this.#assigned;',
        replace: 'const { fencingToken } = this.#durable;',
      },
    ],
    killer: { by: 'script', script: tokensUnderWay },
  },
];
