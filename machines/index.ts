/** Statecharts of the protocol objects, for drawing and for model-based tests. */
export {};
