/** Hosts the chart of a star: what its actions do is given, their answers come back as events. */
import { createActor, type ActorRefFrom } from 'xstate';
import type { EngineError } from '../src/lib/errors.ts';
import { starMachine, type StarEvent } from '../machines/star.machine.ts';
import { runEffect, type EventTarget } from './effect.ts';
import { xstateClock } from './epoch.actor.ts';
import type { StarPorts } from './ports.ts';

type Effect = () => Promise<StarEvent | undefined>;

export interface StarEffects {
  readonly register: Effect;
  readonly registerAgain: Effect;
  readonly mint: Effect;
  readonly recover: Effect;
  readonly roll: Effect;
  readonly finishStreams: Effect;
  readonly closeEpoch: Effect;
  /** Told why an effect failed, before the chart is. */
  failed(error: EngineError): void;
  registrationFailed(error: EngineError): void;
  loseStreams(): void;
  yieldStreams(): void;
  giveUpLease(): void;
  ended(): void;
}

export interface StarChartInput {
  readonly ports: StarPorts;
  readonly star: string;
  /** Nothing is told to the chart once it has fired. */
  readonly signal: AbortSignal;
  readonly effects: StarEffects;
}

export function createStarChart(input: StarChartInput): ActorRefFrom<typeof starMachine> {
  const { ports, star, signal, effects } = input;
  type Self = EventTarget<StarEvent>;
  const run = (self: Self, effect: Effect): void => {
    runEffect<StarEvent>(self, signal, effect, (error) => {
      effects.failed(error);
      return { type: 'effect.failed', code: error.code };
    });
  };
  const machine = starMachine.provide({
    actions: {
      registerLease: ({ self }) => run(self, effects.register),
      registerAgain: ({ self }) =>
        runEffect<StarEvent>(self, signal, effects.registerAgain, (error) => {
          effects.registrationFailed(error);
          return { type: 'registration.failed', code: error.code };
        }),
      mintEpoch: ({ self }) => run(self, effects.mint),
      settlePredecessors: ({ self }) =>
        runEffect<StarEvent>(self, signal, effects.recover, (error) => {
          const { code, message } = error;
          ports.log.warn({ code, message }, 'recovery did not end');
          return { type: 'recovery.failed', code };
        }),
      rollEpoch: ({ self }) => run(self, effects.roll),
      loseStreams: () => effects.loseStreams(),
      yieldStreams: () => effects.yieldStreams(),
      giveUpLease: () => effects.giveUpLease(),
      finishStreams: ({ self }) => run(self, effects.finishStreams),
      closeEpoch: ({ self }) => run(self, effects.closeEpoch),
      endLease: () => effects.ended(),
    },
  });
  return createActor(machine, {
    input: { star },
    clock: xstateClock(ports.clock),
    id: `star/${star}`,
  });
}
