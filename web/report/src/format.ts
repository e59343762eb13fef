// Numbers as people read them: four digits and a unit, as python/syncline/quantity.py writes them.

const TIMES: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"], [1e-12, "ps"]];
const LARGE: [number, string][] = [
  [1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""],
];

/** `value` with four significant digits, and all digits before the point. */
export function digits(value: number): string {
  if (Math.abs(value) >= 1000) return value.toFixed(0);
  return String(Number(value.toPrecision(4)));
}

/** A time, such as `81.6 ms`. */
export function time(seconds: number): string {
  if (!seconds) return "0 s";
  const [factor, unit] = TIMES.find((each) => seconds >= each[0] * 0.99995) ?? TIMES[TIMES.length - 1];
  return `${digits(seconds / factor)} ${unit}`;
}

/** A value with a decimal prefix, such as `4.907 GB`. */
export function scaled(value: number, unit: string): string {
  const [factor, prefix] = LARGE.find((each) => value >= each[0] * 0.99995) ?? LARGE[LARGE.length - 1];
  return `${digits(value / factor)} ${prefix}${unit}`;
}

export const bytes = (value: number): string => scaled(value, "B");
export const rate = (value: number): string => scaled(value, "B/s");

/** An amount of US dollars: `$2,220`, `$31.25`, `$4.536 M`. */
export function money(usd: number): string {
  for (const [factor, unit] of [[1e9, " G"], [1e6, " M"]] as [number, string][]) {
    if (usd >= factor * 0.99995) return `$${digits(usd / factor)}${unit}`;
  }
  const cents = usd >= 1000 || Number.isInteger(usd) ? 0 : 2;
  return `$${usd.toLocaleString("en", { minimumFractionDigits: cents, maximumFractionDigits: cents })}`;
}

/** A percentage, such as `3.2 %`. Only 0 is shown as `0.0 %`, and only 1 as `100.0 %`. */
export function percent(fraction: number): string {
  const text = (100 * fraction).toFixed(1);
  if (text === "0.0" && fraction > 0) return "< 0.1 %";
  if (text === "100.0" && fraction < 1) return "> 99.9 %";
  return `${text} %`;
}

/** Escapes text for HTML, since names come from users. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A unit of time in which `most` seconds have few digits, so that axes have round ticks. */
export function timeUnit(most: number): { factor: number; unit: string } {
  const [factor, unit] = TIMES.find((each) => most >= each[0]) ?? TIMES[TIMES.length - 1];
  return { factor, unit };
}
