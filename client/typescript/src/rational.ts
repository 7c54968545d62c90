/** Exact arithmetic: fractions of integers of any size, and the way to doubles and back. */

export interface Rational {
  readonly n: bigint;
  /** Positive. */
  readonly d: bigint;
}

const gcd = (a: bigint, b: bigint): bigint => (b ? gcd(b, a % b) : a < 0n ? -a : a);

export function rational(n: bigint, d = 1n): Rational {
  const common = gcd(n, d) || 1n;
  return { n: n / common, d: d / common };
}

/** The value of a real in a document, such as "-0.25". */
export function parseReal(text: string): Rational {
  const [whole, digits = ""] = text.split(".");
  return rational(BigInt(whole + digits), 10n ** BigInt(digits.length));
}

/** The exact value of a finite double. */
export function ofDouble(value: number): Rational {
  let exponent = 0;
  while (!Number.isInteger(value) && exponent < 1074) {
    value *= 2; // exact: what is not whole is far below the largest double
    exponent++;
  }
  return rational(BigInt(value), 1n << BigInt(exponent));
}

export const add = (a: Rational, b: Rational): Rational => rational(a.n * b.d + b.n * a.d, a.d * b.d);
export const minus = (a: Rational, b: Rational): Rational => rational(a.n * b.d - b.n * a.d, a.d * b.d);
export const times = (a: Rational, b: Rational): Rational => rational(a.n * b.n, a.d * b.d);
export const square = (a: Rational): Rational => times(a, a);
/** Below 0 if a < b, 0 if equal, above if a > b. */
export const compare = (a: Rational, b: Rational): number => Number(a.n * b.d > b.n * a.d) - Number(a.n * b.d < b.n * a.d);
export const isPositive = (a: Rational): boolean => a.n > 0n;
export const floor = (a: Rational): bigint => (a.n >= 0n ? a.n / a.d : -((a.d - 1n - a.n) / a.d));
export const max = (a: Rational, b: Rational): Rational => (compare(a, b) < 0 ? b : a);

const bitLength = (a: bigint): number => a.toString(16).length * 4 - Math.clz32(parseInt(a.toString(16)[0], 16)) + 28;

/** The nearest double, ties to even; 53 bits are rounded here, since not every engine rounds large integers right. */
export function toNumber(a: Rational): number {
  if (a.n === 0n) return 0;
  if (a.n < 0n) return -toNumber({ n: -a.n, d: a.d });
  const shift = Math.max(bitLength(a.n) - bitLength(a.d) - 54, -1074 - 1); // the quotient has 54 or 55 bits, or is subnormal
  const [n, d] = shift < 0 ? [a.n << BigInt(-shift), a.d] : [a.n, a.d << BigInt(shift)];
  let quotient = n / d;
  const sticky = n % d !== 0n;
  const extra = Math.max(bitLength(quotient) - 53, shift < -1074 ? -1074 - shift : 0);
  const cut = 1n << BigInt(extra);
  const rest = quotient % cut;
  quotient /= cut;
  const above = 2n * rest - cut;
  if (above > 0n || (above === 0n && (sticky || quotient % 2n === 1n))) quotient++;
  const power = shift + extra;
  // In two steps, since 2^-1074 times a whole number is exact but 2^1024 is no double.
  return Number(quotient) * 2 ** Math.trunc(power / 2) * 2 ** (power - Math.trunc(power / 2));
}

/** The largest integer whose square is not above `value`. */
export function isqrt(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt(Math.ceil(bitLength(value) / 2));
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}
