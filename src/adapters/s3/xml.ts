/**
 * The little XML that S3 answers with: flat lists of elements with text. What comes here is bounded
 * by whoever read it. Attributes, comments and nesting of equal names do not occur and are not understood.
 */

/** The text of the first element of this name. */
export function xmlText(xml: string, name: string): string | undefined {
  const element = xmlElements(xml, name)[0];
  return element === undefined ? undefined : unescapeXml(element.trim());
}

/** What stands between the tags of each element of this name, in order. */
export function xmlElements(xml: string, name: string): string[] {
  const elements: string[] = [];
  const [open, close] = [`<${name}`, `</${name}>`];
  let at = 0;
  for (;;) {
    const start = xml.indexOf(open, at);
    if (start < 0) return elements;
    const end = xml.indexOf('>', start);
    if (end < 0) return elements;
    at = end + 1;
    const next = xml[start + open.length];
    // Another name that begins the same.
    if (next !== '>' && next !== ' ' && next !== '/') continue;
    if (xml[end - 1] === '/') {
      elements.push('');
      continue;
    }
    const closing = xml.indexOf(close, at);
    if (closing < 0) return elements;
    elements.push(xml.slice(at, closing));
    at = closing + close.length;
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  apos: "'",
};

export function unescapeXml(text: string): string {
  return text.replace(/&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-z]{2,4});/g, (whole, name: string) => {
    if (!name.startsWith('#')) return ENTITIES[name] ?? whole;
    const code = name[1] === 'x' ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

export function escapeXml(text: string): string {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
