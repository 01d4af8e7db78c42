/** When a stream's acknowledged entries are to be covered by ref rows. Source: DESIGN "Absorb (B)". */

export interface UnabsorbedFacts {
  readonly bytes: number;
  readonly ageMillis: number;
  /** Slots between the oldest unabsorbed entry and the first unacknowledged slot. */
  readonly lagSlots: number;
}

export interface AbsorbRule {
  readonly absorbBytes: number;
  readonly absorbMillis: number;
  readonly checkpointLagSlots: number;
}

export function isDue(facts: UnabsorbedFacts, rule: AbsorbRule): boolean {
  return (
    facts.bytes >= rule.absorbBytes ||
    facts.ageMillis >= rule.absorbMillis ||
    facts.lagSlots >= rule.checkpointLagSlots / 2
  );
}
