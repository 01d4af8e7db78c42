/** Fault layers, scheduler and virtual clock for tests of code built on asterlog. */
export {};
