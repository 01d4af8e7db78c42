import { expect, test } from 'vitest';
import { escapeXml, xmlElements, xmlText } from '../../../../src/adapters/s3/xml.ts';

test('elements are found by their whole names, in order', () => {
  const xml =
    '<?xml version="1.0"?><R xmlns="x"><KeyCount>2</KeyCount><C><Key>a</Key></C><C><Key>b</Key></C><Key/></R>';
  expect(xmlElements(xml, 'C').map((c) => xmlText(c, 'Key'))).toEqual(['a', 'b']);
  expect(xmlElements(xml, 'Key')).toEqual(['a', 'b', '']);
  expect(xmlText(xml, 'KeyCount')).toBe('2');
  expect(xmlText(xml, 'Code')).toBeUndefined();
});

test('what is no XML has no elements', () => {
  for (const text of ['', '<', '<Code', '<Code>', '<Code>x', '<Code >x</Cod', '</Code>', 'Code']) {
    expect(xmlText(text, 'Code')).toBeUndefined();
  }
});

test('escapes come back as what they were', () => {
  const text = `a<b>&"c'd`;
  expect(xmlText(`<K>${escapeXml(text)}</K>`, 'K')).toBe(text);
  expect(xmlText('<K>&lt;&gt;&amp;&quot;&apos;&#x41;&#65;&none;&#x110000;</K>', 'K')).toBe(
    `<>&"'AA&none;&#x110000;`,
  );
});
