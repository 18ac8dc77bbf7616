/** The first piece that is read, and the largest, in bytes. Each is twice as large as the one before. */
const firstPiece = 256 << 10;
const largestPiece = 2 << 20;
/** How many pieces are requested before the reader needs them. */
const ahead = 3;

/** Reads size bytes from a position on; fewer bytes mean the end of the file. */
export type ReadPiece = (position: number, size: number) => Promise<Uint8Array>;

interface Piece { readonly position: number; readonly size: number; readonly read: Promise<Uint8Array> }

/**
 * Reads a file for a reader that takes small parts in order, and would else wait for the server each time. Pieces are asked
 * for ahead, larger and larger ones as long as the order holds. What was not there then is asked for again.
 */
export class ReadAhead {
  private pieces: Piece[] = [];
  private size = firstPiece;
  private next = 0;

  constructor(private readonly readPiece: ReadPiece) {}

  /** Reads into bytes from a position on, or from where the last read ended. Returns how many were read; 0 is the end. */
  async read(bytes: Uint8Array, position = this.next): Promise<number> {
    const n = await this.take(bytes, position);
    this.next = position + n;
    return n;
  }

  private async take(bytes: Uint8Array, position: number): Promise<number> {
    const piece = this.pieceAt(position);
    const content = await piece.read.catch((why: unknown) => {
      this.pieces = []; // it may go better the next time
      throw why;
    });
    const from = position - piece.position;
    const part = content.subarray(from, from + bytes.length);
    bytes.set(part);
    if (content.length < piece.size) this.pieces = []; // the end, for now: what comes next is asked for anew
    else this.askAhead();
    return part.length;
  }

  /** The piece that position is in, which is the first one then. */
  private pieceAt(position: number): Piece {
    const at = this.pieces.findIndex((piece) => position >= piece.position && position < piece.position + piece.size);
    if (at < 0) this.size = firstPiece;
    this.pieces = at < 0 ? [] : this.pieces.slice(at);
    return this.pieces[0] ?? this.ask(position);
  }

  private askAhead(): void {
    for (let last = this.pieces.at(-1); last && this.pieces.length <= ahead; last = this.ask(last.position + last.size)) continue;
  }

  private ask(position: number): Piece {
    const { size } = this;
    const read = this.readPiece(position, size);
    read.catch(() => undefined); // the reader of the piece gets the error
    const piece = { position, size, read };
    this.pieces.push(piece);
    this.size = Math.min(size * 2, largestPiece);
    return piece;
  }
}
