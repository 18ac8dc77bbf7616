/*
 * Protobuf's wire format, for the messages that travel most. protobuf-es reads and writes every message by its
 * description, which costs a multiple of what these few lines do.
 */

const utf8 = new TextEncoder();
const text = new TextDecoder();

/** Writes fields one after the other into memory that is used again. */
export class Writer {
  private buffer = new Uint8Array(4096);
  private at = 0;

  /** Begins anew. */
  reset(): this {
    this.at = 0;
    return this;
  }

  /** A copy of what was written. */
  finish(): Uint8Array {
    return this.buffer.slice(0, this.at);
  }

  /** A varint field; 0 is the default and left out. */
  uint(field: number, value: number): this {
    if (value === 0) return this;
    this.room(20);
    this.varint(field << 3);
    this.varint(value);
    return this;
  }

  /** An optional int64 field: present even if it is 0. */
  int64(field: number, value: bigint | undefined): this {
    if (value === undefined) return this;
    this.room(20);
    this.varint(field << 3);
    if (value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) this.varint(Number(value));
    else this.bigVarint(BigInt.asUintN(64, value));
    return this;
  }

  /** A string field; "" is left out. */
  string(field: number, value: string): this {
    if (value === "") return this;
    this.room(20 + value.length * 3);
    this.varint((field << 3) | 2);
    // One byte of length is enough for most: what is longer moves.
    const from = this.at + 1;
    const { written } = utf8.encodeInto(value, this.buffer.subarray(from));
    const width = sizeOfVarint(written);
    if (width > 1) this.buffer.copyWithin(from + width - 1, from, from + written);
    this.varint(written);
    this.at += written;
    return this;
  }

  /** A bytes field; empty ones are left out. */
  bytes(field: number, value: Uint8Array): this {
    if (value.length === 0) return this;
    this.head(field, value.length);
    this.room(value.length);
    this.buffer.set(value, this.at);
    this.at += value.length;
    return this;
  }

  /** The beginning of a field of length bytes, which then follow. */
  head(field: number, length: number): this {
    this.room(20);
    this.varint((field << 3) | 2);
    this.varint(length);
    return this;
  }

  private varint(n: number): void {
    for (; n >= 128; n = Math.floor(n / 128)) this.buffer[this.at++] = (n % 128) | 128;
    this.buffer[this.at++] = n;
  }

  private bigVarint(n: bigint): void {
    for (; n >= 128n; n >>= 7n) this.buffer[this.at++] = Number(n & 127n) | 128;
    this.buffer[this.at++] = Number(n);
  }

  private room(n: number): void {
    if (this.at + n <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(this.buffer.length * 2, this.at + n));
    larger.set(this.buffer);
    this.buffer = larger;
  }
}

/** How many bytes a varint takes. */
export function sizeOfVarint(n: number): number {
  let size = 1;
  for (; n >= 128; n = Math.floor(n / 128)) size++;
  return size;
}

/** Reads fields one after the other. A message that ends too early is a RangeError. */
export class Reader {
  /** The number and the wire type of the field that next found. */
  field = 0;
  type = 0;
  /** The low and high halves of the last varint. */
  low = 0;
  high = 0;

  /** Reads bytes from at to end. */
  constructor(readonly data: Uint8Array, public at = 0, readonly end = data.length) {}

  /** Goes to the next field; false at the end. */
  next(): boolean {
    if (this.at >= this.end) return false;
    const tag = this.uint();
    this.field = tag >>> 3;
    this.type = tag & 7;
    return true;
  }

  /** A varint as a number, which is exact up to 2^53. */
  uint(): number {
    this.varint();
    return this.high * 0x1_0000_0000 + this.low;
  }

  /** A varint as a bigint of 64 bits. */
  uint64(): bigint {
    this.varint();
    return this.high === 0 ? BigInt(this.low) : (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** A varint as a signed bigint. */
  int64(): bigint {
    return BigInt.asIntN(64, this.uint64());
  }

  /** A signed varint of nanoseconds, in ms. A double has no room for nanoseconds since the epoch, so seconds and the rest are added. */
  milliseconds(): number {
    this.varint();
    let seconds = Math.floor(((this.high | 0) * 0x1_0000_0000 + this.low) / 1e9);
    // The quotient may be off by one. The rest is exact in 32 bits, and shows it.
    let rest = (this.low - Math.imul(seconds, 1e9)) >>> 0;
    if (rest >= 0xc000_0000) {
      seconds--;
      rest = (rest + 1e9) >>> 0;
    } else if (rest >= 1e9) {
      seconds++;
      rest -= 1e9;
    }
    return seconds * 1000 + rest / 1e6;
  }

  /** The end of a length-delimited field; at is where it begins. */
  limit(): number {
    const end = this.uint() + this.at;
    if (end > this.end) throw tooShort();
    return end;
  }

  /** A view of a length-delimited field. */
  bytes(): Uint8Array {
    const end = this.limit();
    const view = this.data.subarray(this.at, end);
    this.at = end;
    return view;
  }

  /** A string. */
  string(): string {
    return text.decode(this.bytes());
  }

  /** Goes past the field. */
  skip(): void {
    if (this.type === 0) this.varint();
    else if (this.type === 2) this.at = this.limit();
    else if (this.type === 1) this.at += 8;
    else if (this.type === 5) this.at += 4;
    else throw new RangeError(`a message holds wire type ${this.type}, which nothing has`);
  }

  private varint(): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= this.end) throw tooShort();
      const byte = this.data[this.at++] ?? 0;
      if (shift < 28) low |= (byte & 127) << shift;
      else if (shift === 28) {
        low |= (byte & 127) << 28;
        high = (byte & 127) >> 4;
      } else high |= (byte & 127) << (shift - 32);
      if (byte < 128) break;
    }
    this.low = low >>> 0;
    this.high = high >>> 0;
  }
}

function tooShort(): RangeError {
  return new RangeError("a message ends too early");
}
