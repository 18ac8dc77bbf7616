// SHA-256 for pages without crypto.subtle: browsers have it over HTTPS and on this machine only.

/** Returns the SHA-256 of bytes in hex. */
export function sha256(data: Uint8Array): string {
  const padded = new Uint8Array(((data.length + 8) >> 6 << 6) + 64);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(data.length / 0x20000000));
  view.setUint32(padded.length - 4, data.length << 3);
  const state = fractions(8, 1 / 2);
  const rounds = fractions(64, 1 / 3);
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) block(view, at, words, state, rounds);
  return [...state].map((word) => word.toString(16).padStart(8, "0")).join("");
}

function block(view: DataView, at: number, w: Uint32Array, state: Uint32Array, rounds: Uint32Array): void {
  for (let i = 0; i < 64; i++) {
    if (i < 16) {
      w[i] = view.getUint32(at + 4 * i);
      continue;
    }
    const [x, y] = [word(w, i - 15), word(w, i - 2)];
    w[i] = word(w, i - 16) + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + word(w, i - 7) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  const next = Uint32Array.from(state);
  for (let i = 0; i < 64; i++) {
    const [a, b, c, e, f, g] = [word(next, 0), word(next, 1), word(next, 2), word(next, 4), word(next, 5), word(next, 6)];
    const one = word(next, 7) + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + word(rounds, i) + word(w, i);
    const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    next.copyWithin(1, 0, 7);
    next[4] = word(next, 4) + one;
    next[0] = one + two;
  }
  for (let i = 0; i < 8; i++) state[i] = word(state, i) + word(next, i);
}

function word(words: Uint32Array, i: number): number {
  return words[i] ?? 0;
}

function turn(x: number, by: number): number {
  return (x >>> by) | (x << (32 - by));
}

// The constants: the first 32 bits of the fractions of roots of primes.
function fractions(n: number, power: number): Uint32Array {
  const out = new Uint32Array(n);
  for (let i = 0, prime = 2; i < n; prime++) {
    if (!isPrime(prime)) continue;
    const root = prime ** power;
    out[i++] = Math.floor((root - Math.floor(root)) * 2 ** 32);
  }
  return out;
}

function isPrime(n: number): boolean {
  for (let i = 2; i * i <= n; i++) if (n % i === 0) return false;
  return true;
}
