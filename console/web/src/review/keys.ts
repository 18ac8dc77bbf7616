/** The commands of the changes view, and the keys that run them. */
export type Command =
  | "nextHunk"
  | "previousHunk"
  | "nextFile"
  | "previousFile"
  | "approve"
  | "reject"
  | "remark"
  | "undo"
  | "approveFile"
  | "rejectFile"
  | "form"
  | "apply";

export interface Binding {
  key: string;
  command: Command;
  /** What it does, for the help. */
  label: string;
}

export const bindings: readonly Binding[] = [
  { key: "j", command: "nextHunk", label: "Next hunk" },
  { key: "k", command: "previousHunk", label: "Previous hunk" },
  { key: "n", command: "nextFile", label: "Next file" },
  { key: "p", command: "previousFile", label: "Previous file" },
  { key: "a", command: "approve", label: "Approve the hunk and go to the next" },
  { key: "r", command: "reject", label: "Reject the hunk and go to the next" },
  { key: "c", command: "remark", label: "Decide with a remark" },
  { key: "u", command: "undo", label: "Undo the last decision" },
  { key: "A", command: "approveFile", label: "Approve the whole file" },
  { key: "R", command: "rejectFile", label: "Reject the whole file" },
  { key: "v", command: "form", label: "Split or unified diff" },
  { key: "m", command: "apply", label: "Apply what is approved" },
];

/** A place in the review: a file, and a part of it. */
export interface Place {
  file: number;
  part: number;
}

/**
 * Returns the place that a movement leads to. parts returns how many parts a file has, as far as that is known; after the last part of a file
 * comes the next file. The place stays where it is at both ends.
 */
export function move(at: Place, command: Command, files: number, parts: (file: number) => number): Place {
  switch (command) {
    case "nextHunk":
      if (at.part + 1 < parts(at.file)) return { file: at.file, part: at.part + 1 };
      return at.file + 1 < files ? { file: at.file + 1, part: 0 } : at;
    case "previousHunk":
      if (at.part > 0) return { file: at.file, part: at.part - 1 };
      return at.file > 0 ? { file: at.file - 1, part: Math.max(0, parts(at.file - 1) - 1) } : at;
    case "nextFile":
      return at.file + 1 < files ? { file: at.file + 1, part: 0 } : at;
    case "previousFile":
      return at.file > 0 ? { file: at.file - 1, part: 0 } : at;
    default:
      return at;
  }
}
